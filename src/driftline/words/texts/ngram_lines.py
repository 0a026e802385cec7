"""Lines of n-gram tables: what was printed how often in which year.

Two layouts are read, and told apart line by line:

    2012    ngram TAB year TAB matches TAB volumes              a line for each year
    2020    ngram TAB year,matches,volumes TAB year,…           a line for each n-gram
"""

import dataclasses
import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from driftline.words.texts import streams
from driftline.words.texts.passages import Encoded, Numbering
from driftline.words.texts.tokens import MARK

PARTS_OF_SPEECH = r"(?:NOUN|VERB|ADJ|ADV|PRON|DET|ADP|NUM|CONJ|PRT|\.|X)"
MOST = 1 << 40  # matches in a year: more than all that was ever printed
_TAGGED = re.compile(rf"(.+)(_{PARTS_OF_SPEECH})")
_PLACEHOLDER = re.compile(rf"_(?:{PARTS_OF_SPEECH}|START|END|ROOT)_")


class NgramLines(NamedTuple):
    """Lines of one table that follow one another, and the number of the first."""

    name: str
    first: int
    lines: list[bytes]


class Ngram(NamedTuple):
    """An n-gram and how often it was printed.

    Attributes:
        words: Its words, None where something stands that is not a word.
        years: The years it was printed in.
        matches: How often in each.
    """

    words: tuple[str | None, ...]
    years: list[int]
    matches: list[int]


@dataclasses.dataclass(frozen=True)
class LineParser:
    """Reads lines of a table of n-grams."""

    order: int
    case: str
    tags: str
    years: tuple[int, int] | None

    def __call__(self, batch: NgramLines) -> Encoded:
        """The n-grams as numbers; those without a word or without a year that counts are left out."""
        numbering = Numbering({MARK: 0})
        ids, uses, years, weights, empty = [], [], [], [], 0
        for words, in_years, matches in self.ngrams(batch):
            if not any(words):
                empty += 1
                continue
            ids += [0 if word is None else numbering[word] for word in words]
            uses.append(len(in_years))
            years += in_years
            weights += matches
        return Encoded(
            list(numbering)[1:],
            np.array(ids, np.int32),
            np.full(len(uses), self.order, np.int32),
            np.array(uses, np.int32),
            (np.array(years, np.int64) - 1970)
            .astype("datetime64[Y]")
            .astype("datetime64[D]")
            .astype(np.int32),
            np.array(weights, np.int64),
            empty,
        )

    def ngrams(self, batch: NgramLines) -> Iterator[Ngram]:
        """The n-grams that are wanted, in the years that are wanted; lines of one n-gram are put together."""
        seen, words, years, matches = None, None, [], []
        for number, line in enumerate(batch.lines, batch.first):
            if not line:
                continue
            gram, _, rest = line.partition(b"\t")
            try:
                if gram != seen:
                    if words is not None and years:
                        yield Ngram(words, years, matches)
                    seen, years, matches = gram, [], []
                    words = self._words(streams.decode(gram, "utf-8", "the n-gram", streams.TO_UTF8))
                if words is not None:
                    self._add_uses(rest, years, matches)
            except ValueError as error:
                raise ValueError(f"{batch.name}, line {number}: {error}") from None
        if words is not None and years:
            yield Ngram(words, years, matches)

    def _words(self, gram):
        """The words of an n-gram, or None if it is to be left out."""
        parts = gram.split(" ")
        if len(parts) != self.order or not all(parts):
            raise ValueError(
                f"{gram!r:.80} is not a {self.order}-gram; are these {self.order}-gram tables, all of them?"
            )
        words = []
        for part in parts:
            tagged = _TAGGED.fullmatch(part)
            placeholder = _PLACEHOLDER.fullmatch(part) is not None
            if self.tags == "drop" and (tagged or placeholder):
                return None
            stem, tag = (tagged[1], tagged[2]) if tagged else (part, "")
            stem = stem.lower() if self.case == "lower" else stem
            is_word = not placeholder and any(map(str.isalnum, stem))
            words.append((stem + tag if self.tags == "keep" else stem) if is_word else None)
        return tuple(words)

    def _add_uses(self, rest, years, matches):
        """Add the years that are wanted, and how often the n-gram was printed in them."""
        fields = (rest.replace(b"\t", b",") if b"," not in rest else rest).split(b"\t")
        first, last = self.years or (1, 9999)
        for field in fields:
            numbers = field.split(b",")
            if len(numbers) != 3 or not field.replace(b",", b"").isdigit() or not all(numbers):
                raise ValueError(
                    f"{field!r:.60} is not year, matches and volumes; a line is the n-gram, then three "
                    "numbers with tabs between (2012), or groups of three with commas between (2020)"
                )
            year, many = int(numbers[0]), int(numbers[1])
            if not 1 <= year <= 9999 or many >= MOST:
                raise ValueError(f"{many} matches in the year {year} cannot be")
            if many and first <= year <= last:
                years.append(year)
                matches.append(many)
