"""A corpus: where dated texts are and how to read them. Nothing is read until it is iterated over."""

import dataclasses
import datetime
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from driftline.words.texts.dates import Period, period_of, to_date
from driftline.words.texts.passages import PlainTexts, TextEncoder, pair_units
from driftline.words.texts.streams import Tally


class Document(NamedTuple):
    """A text and its date: what iterating over a `Corpus` yields."""

    date: datetime.date
    text: str


class Reader(Protocol):
    """What knows how to go through one kind of source."""

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Of every text the place, for messages that name it; the day, counted from 1970-01-01; the text."""
        ...

    def describe(self) -> dict[str, Any]:
        """What is read and how, for the record; anything that JSON can say."""
        ...


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Dated texts, described by where they are; every iteration reads them again and holds none.

    Iterating yields `Document`s. `words.read` and `words.sotu` make corpora; `words.count` counts them.

    Attributes:
        reader: What reads the source.
        first: The first day that counts, from 1970-01-01, or None.
        last: The last day that counts, or None.
    """

    reader: Reader
    first: int | None = None
    last: int | None = None

    def __iter__(self) -> Iterator[Document]:
        for _, day, text in self.scan(Tally()):
            yield Document(to_date(day), text)

    def between(self, start: Any = None, end: Any = None) -> "Corpus":
        """The same corpus from one date to another, both included; a year or month as an end counts whole.

        Limits that the corpus has already stay.

        Args:
            start: Such as 1790, "1850-12", "1850-12-31" or a date; None for no limit, or the one there is.
            end: The same.
        """
        first = None if start is None else _period("start", start).first
        last = None if end is None else _period("end", end).last
        if first is not None and last is not None and first > last:
            raise ValueError(f"start {start} is after end {end}; exchange them")
        first = max((day for day in (first, self.first) if day is not None), default=None)
        last = min((day for day in (last, self.last) if day is not None), default=None)
        if first is not None and last is not None and first > last:
            raise ValueError(
                f"the corpus was cut before, and what is asked for now leaves no day: {to_date(first)} is "
                f"after {to_date(last)}; cut the whole corpus instead"
            )
        return dataclasses.replace(self, first=first, last=last)

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Places, days and texts, while a tally is kept."""
        first = float("-inf") if self.first is None else self.first
        last = float("inf") if self.last is None else self.last
        for place, day, text in self.reader.scan(tally):
            if first <= day <= last:
                yield place, day, text

    def batches(self, tally: Tally, size: int) -> Iterator[PlainTexts]:
        """Texts in groups of about `size` characters, for the counter."""
        group, room = PlainTexts([], [], []), size
        for place, day, text in self.scan(tally):
            group.places.append(place)
            group.days.append(day)
            group.texts.append(text)
            room -= len(text) + 1
            if room <= 0:
                yield group
                group, room = PlainTexts([], [], []), size
        if group.texts:
            yield group

    def encoder(self, tokenise: Any) -> TextEncoder:
        """What turns such a group into numbers."""
        return TextEncoder(tokenise)

    def pair_units(self, window: int) -> tuple[tuple[int, ...], int]:
        """Weights of the distances 1 to `window` as whole numbers, and the number that stands for 1."""
        return pair_units(window)

    def remedy_if_empty(self) -> str:
        """What to do if no text was found."""
        days = [str(to_date(day)) if day is not None else "" for day in (self.first, self.last)]
        asked = f", {' to '.join(days).strip()}" if any(days) else ""
        return f"check the name of the text column, the dates asked for{asked}, and the tokeniser"

    def describe(self) -> dict[str, Any]:
        """What is read and how, for the record."""
        ends = {"start": self.first, "end": self.last}
        return self.reader.describe() | {
            name: to_date(day).isoformat() for name, day in ends.items() if day is not None
        }


def _period(name: str, value: Any) -> Period:
    try:
        return period_of(value)
    except ValueError:
        raise ValueError(
            f"{name}={value!r} is not a date; write it like 1850, 1850-12 or 1850-12-31"
        ) from None
