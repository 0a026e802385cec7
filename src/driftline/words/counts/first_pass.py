"""The first pass of a count: every text is cut into words, these are numbered, and their totals kept."""

import dataclasses
from typing import Any, Protocol

import numpy as np

from driftline.words.counts.progress import CountReporter
from driftline.words.counts.spool import Spool
from driftline.words.counts.time_steps import TimeSteps
from driftline.words.counts.workers import Workers
from driftline.words.texts.duplicates import warn_of_copies
from driftline.words.texts.passages import Encoded, Numbering
from driftline.words.texts.streams import Tally, digest_of
from driftline.words.texts.tokens import MARK, Tokeniser
from driftline.words.texts.unspaced_scripts import warn_of_unspaced

LISTED = 1000  # files that are named one by one in the provenance


class Source(Protocol):
    """What can be counted: a corpus of texts, or a table of n-grams."""

    def batches(self, tally: Tally, size: int) -> Any:
        """Groups of texts."""
        ...

    def encoder(self, tokenise: Any) -> Any:
        """A function from a group to `Encoded`."""
        ...

    def describe(self) -> dict[str, Any]:
        """What is read and how."""
        ...

    def remedy_if_empty(self) -> str:
        """What to do if nothing was found."""
        ...


class Gathered:
    """What the first pass finds out; the words themselves, as numbers, go to a spool.

    Attributes:
        numbering: Numbers of all words, from 1 on.
        totals: How often each occurs.
        num_tokens: How many there are, each as often as it occurs.
        num_empty: How many documents held none.
        first_empty: Where the first of those is, if that is known.
    """

    def __init__(self, spool: Spool, parts: int = 1):
        self.numbering = Numbering({MARK: 0})
        self.totals = np.zeros(0, np.int64)
        self.num_tokens = 0
        self.num_empty = 0
        self.first_empty: str | None = None
        self._spool = spool
        self._parts = parts
        self._tally = Tally()
        self._by_day: dict[int, np.ndarray] = {}  # words and documents of each part, (N, 2)

    def read(
        self, source: Source, tokenise: Any, buffer: int, workers: Workers, report: CountReporter
    ) -> None:
        """Go through a source."""
        groups = ((group,) for group in source.batches(self._tally, buffer))
        encoder = source.encoder(tokenise)
        if self._parts > 1:
            encoder = dataclasses.replace(encoder, parts=self._parts)
        for encoded in workers.map(encoder, groups):
            self._take(encoded)
            size = self._tally.bytes_total
            share = min(self._tally.bytes_read / size, 1) if size else None
            report.update("reading", self.num_tokens, share)
        if not self._by_day:
            what = f"all {self.num_empty} documents are empty" if self.num_empty else "there is no document"
            raise ValueError(f"{self.where}{what}; {source.remedy_if_empty()}")
        warn_of_copies(self._tally.files)
        if isinstance(tokenise, Tokeniser):
            warn_of_unspaced(self.words, self.totals.tolist())

    @property
    def where(self) -> str:
        """What has been read, to begin a message with."""
        names = [record.name for record in self._tally.files]
        return f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: " if names else ""

    @property
    def words(self) -> list[str]:
        """All words, in the order of their numbers."""
        return list(self.numbering)[1:]

    @property
    def days(self) -> np.ndarray:
        """All days with a document, increasing."""
        return np.array(sorted(self._by_day), np.int64)

    def per_step(self, steps: TimeSteps) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of words and of documents of every part of every step, (T, N)."""
        tokens, documents = np.zeros((2, len(steps.dates), self._parts), np.int64)
        table = np.array([self._by_day[day] for day in steps.days.tolist()])
        np.add.at(tokens, steps.of_day, table[..., 0])
        np.add.at(documents, steps.of_day, table[..., 1])
        return tokens, documents

    def provenance(self, source: Source) -> dict[str, Any]:
        """What was read, with hashes."""
        files = sorted(self._tally.files)
        return {
            "source": source.describe(),
            "files": [record._asdict() for record in files] if len(files) <= LISTED else [],
            "num_files": len(files),
            "skipped_files": self._tally.skipped[:LISTED],
            "num_skipped_files": len(self._tally.skipped),
            "sha256": digest_of(files) if files else None,
            "empty_documents": self.num_empty,
            "first_empty": self.first_empty,
        }

    def _take(self, encoded: Encoded):
        self.num_empty += encoded.empty
        self.first_empty = self.first_empty or encoded.first_empty
        if not len(encoded.lengths):
            return
        numbers = np.append(0, self.numbering.of(encoded.words)).astype(np.int32)
        self._spool.append(encoded._replace(ids=numbers[encoded.ids]))
        found = np.bincount(encoded.ids, _weights_at_places(encoded), minlength=len(numbers))
        more = len(self.numbering) - 1 - len(self.totals)
        self.totals = np.concatenate([self.totals, np.zeros(more, np.int64)])
        self.totals[numbers[1:] - 1] += found[1:].astype(np.int64)
        self._add_days(encoded)

    def _add_days(self, encoded):
        many = encoded.uses if len(encoded.uses) else 1
        weights = encoded.weights if len(encoded.weights) else np.ones(len(encoded.days), np.int64)
        days, which = np.unique(encoded.days, return_inverse=True)
        sums = np.zeros((len(days) * self._parts, 2), np.int64)
        place = which * self._parts + encoded.hands if self._parts > 1 else which
        np.add.at(sums[:, 0], place, np.repeat(encoded.lengths, many) * weights)
        np.add.at(sums[:, 1], place, weights)
        for day, more in zip(days.tolist(), sums.reshape(len(days), -1, 2), strict=True):
            self._by_day[day] = self._by_day.get(day, 0) + more
        self.num_tokens += int(sums[:, 0].sum())


def _weights_at_places(encoded):
    """Weight of every place over all uses of its passage; None if all are 1."""
    if not len(encoded.uses):
        return None
    of_passages = np.add.reduceat(encoded.weights, np.cumsum(encoded.uses) - encoded.uses)
    return np.repeat(of_passages, encoded.lengths)
