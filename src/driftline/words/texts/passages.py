"""From groups of texts to arrays of word numbers: the work that several processes can share."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from driftline.words.texts.tokens import MARK, Tokeniser


class PlainTexts(NamedTuple):
    """A group of texts, where each was found, and the days they are dated."""

    places: list[str]
    days: list[int]
    texts: list[str]


class Encoded(NamedTuple):
    """A group of passages as numbers.

    A passage is a run of words, and was used on one or more days, each time with a weight. A text is used
    once, with weight 1; an n-gram on the first day of every year it was printed in, as often as it was.

    Attributes:
        words: The different words of the group, in the order of their first appearance.
        ids: All passages after one another: 1 + the index of each word, or 0 where no word stands.
        lengths: Number of places in each passage.
        uses: Number of uses of each passage; empty if every passage has one use of weight 1.
        days: Day of each use.
        weights: Weight of each use; empty if all are 1.
        empty: How many passages held no word and were left out.
        first_empty: Where the first of those was found, if that is known.
        hands: Part of its step that each text is dealt into; empty if there is one.
    """

    words: list[str]
    ids: np.ndarray
    lengths: np.ndarray
    uses: np.ndarray
    days: np.ndarray
    weights: np.ndarray
    empty: int
    first_empty: str | None = None
    hands: np.ndarray = np.empty(0, np.int32)


class Numbering(dict[str, int]):
    """Numbers words as they come: a word that is asked for the first time gets the next number."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number

    def of(self, words: list[str]) -> np.ndarray:
        """Numbers of some words."""
        return np.fromiter(map(self.__getitem__, words), np.int32, len(words))


@dataclasses.dataclass(frozen=True)
class TextEncoder:
    """Cuts texts into words and numbers these.

    Attributes:
        tokenise: A `Tokeniser`, or any function from a text to its words.
        parts: How many parts of a time step texts are dealt into.
    """

    tokenise: Callable[[str], Iterable[str]]
    parts: int = 1

    def __call__(self, batch: PlainTexts) -> Encoded:
        """The texts as numbers; those without a word are left out and counted."""
        numbering = Numbering({MARK: 0})
        ids = numbering.of(self._cut(batch.texts))
        words = list(numbering)[1:]
        for word in words:
            if not isinstance(word, str) or not word:
                raise TypeError(f"tokenise must return words, but returned {word!r} among them")
        marks = np.flatnonzero(ids == 0)
        lengths = np.diff(marks, prepend=-1) - 1
        filled = lengths > 0
        none = np.empty(0, np.int64)
        empty = np.flatnonzero(~filled)
        return Encoded(
            words,
            ids[ids != 0],
            lengths[filled].astype(np.int32),
            none.astype(np.int32),
            np.asarray(batch.days, np.int32)[filled],
            none,
            len(empty),
            batch.places[empty[0]] if len(empty) else None,
            hands(batch.texts, self.parts)[filled] if self.parts > 1 else none.astype(np.int32),
        )

    def _cut(self, texts: list[str]) -> list[str]:
        if isinstance(self.tokenise, Tokeniser):
            return self.tokenise.cut(texts)
        tokens = []
        for text in texts:
            found = list(self.tokenise(text))
            if MARK in found:
                raise ValueError("tokenise returned a NUL character as a word; leave it out")
            tokens += found
            tokens.append(MARK)
        return tokens


def pair_units(window: int) -> tuple[tuple[int, ...], int]:
    """Weights of the distances 1 to `window` as whole numbers, and the number that stands for 1.

    Two words with k words between them weigh max(0, 1 - k / window). Counted in whole numbers, sums do not
    depend on their order, so that buffers and processes cannot change a bit.
    """
    return tuple(range(window, 0, -1)), window


def hands(texts: Iterable[str], parts: int) -> np.ndarray:
    """Part of its step, 0 to `parts` - 1, that each text is dealt into.

    It follows from the text alone, so that neither files, buffers nor processes have a say; and texts that
    are the same word for word, which are not independent evidence, stay together.
    """
    return np.array([_hash(text) % parts for text in texts], np.int32)


def _hash(text: str) -> int:
    # Half of a surrogate pair is not a character, but may stand in a text.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
