"""Counts of word pairs per time step: what a dynamic embedding is fitted to, in memory and on disk."""

import dataclasses
import functools
import hashlib
import os
from typing import Any

import numpy as np

from driftline.storage import checked_files as files
from driftline.storage.explained_errors import explained, refusing_unsound
from driftline.storage.kinds import FileKind
from driftline.words.counts.checks import DTYPES, PART_STEP, check
from driftline.words.counts.step_counts import StepCounts, mirrored
from driftline.words.counts.step_parts import Parts, permuted_steps, put_together

KIND = FileKind("word-counts", 1, "counts of words", "`driftline words count`, or `save` of counts,")
NAMED = 3  # files that were not read and are named
EPOCH = np.datetime64("1970-01-01", "D")
COUNTED = tuple(name for name in DTYPES if name != "days")


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Counts:
    """Counts of a corpus over T time steps and V words.

    The positive counts are symmetric, so only pairs of words i <= j are held, as a compressed sparse matrix
    for each step: step t has the rows `rows[step_indptr[t]:step_indptr[t + 1]]`, and the r-th of all rows has
    the columns `indices[indptr[r]:indptr[r + 1]]` with the counts `values[indptr[r]:indptr[r + 1]]`.
    `step(t)` gives the whole matrix of one step.

    Attributes:
        vocabulary: The words, most frequent first.
        dates: When each step begins, increasing.
        window: Distance from which on a pair counts nothing, less one.
        step_indptr: Where the rows of each step begin, (T + 1,).
        rows: Words that begin a pair, increasing in a step.
        indptr: Where the pairs of each row begin.
        indices: The other word of each pair, increasing in a row.
        values: Positive counts.
        occurrences: How often each word occurs at each step, (T, V).
        tokens: How many words each step has, in the vocabulary or not.
        documents: How many documents each step has.
        provenance: Source, options and hashes; anything that JSON can say.
        parts: Counts of parts of the steps, if there is more than one for each; see `words.count`.
    """

    vocabulary: tuple[str, ...]
    dates: np.ndarray
    window: int
    step_indptr: np.ndarray
    rows: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    occurrences: np.ndarray
    tokens: np.ndarray
    documents: np.ndarray
    provenance: dict[str, Any]
    parts: Parts | None = None

    def __len__(self) -> int:
        return len(self.dates)

    @functools.cached_property
    def _index(self):
        return {word: i for i, word in enumerate(self.vocabulary)}

    def index(self, word: str) -> int:
        """Place of a word in the vocabulary."""
        if word not in self._index:
            raise KeyError(f"{word!r} is not one of the {len(self.vocabulary)} words of the vocabulary")
        return self._index[word]

    def frequency(self, word: str) -> np.ndarray:
        """Share of a word in the words of each step."""
        return self.occurrences[:, self.index(word)] / np.maximum(self.tokens, 1)

    def step(self, t: int) -> StepCounts:
        """Positive counts of time step `t` over the words present at it, in linear time and memory."""
        if not -len(self) <= t < len(self):
            raise IndexError(f"step {t} of {len(self)}")
        begin, end = self.step_indptr[t % len(self)], self.step_indptr[t % len(self) + 1]
        pairs = slice(self.indptr[begin], self.indptr[end])
        first = np.repeat(self.rows[begin:end], np.diff(self.indptr[begin : end + 1]))
        return mirrored(first, self.indices[pairs], self.values[pairs], len(self.vocabulary))

    @property
    def num_parts(self) -> int:
        """How many parts all steps have together, which is as many as there are steps if none was dealt."""
        return len(self) if self.parts is None else len(self.parts.step)

    def shuffled(self, seed: int) -> "Counts":
        """Counts as they might be if dates meant nothing: parts change places among the steps at random.

        Each step gets as many parts as it had, of any step, and all that is counted is summed again; words
        and dates stay. What such counts say of change is noise, which makes them a null for `changed`.

        Counts that were made with one part for each step exchange whole steps. That is a valid null, too,
        but a coarse one: it has few permutations, and where words do drift, jumps between steps that were
        far apart look like change, so that it is conservative. `words.count(..., parts=10)` makes a finer
        one. Documents of a part stay together, and a step's size goes with its parts.

        Args:
            seed: The same seed gives the same counts. It is added to the list `provenance["shuffled"]`.
        """
        if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
            raise ValueError(f"seed={seed!r}; a whole number of at least 0 is needed")
        order = np.random.default_rng(int(seed)).permutation(self.num_parts)
        if self.parts is None:
            parts, arrays = None, permuted_steps({name: getattr(self, name) for name in COUNTED}, order)
        else:
            parts = self.parts._replace(step=self.parts.step[order])
            arrays = put_together(parts, len(self), self.window)
        shuffled = [*self.provenance.get("shuffled", []), int(seed)]
        provenance = self.provenance | {"shuffled": shuffled}
        return dataclasses.replace(self, **arrays, provenance=provenance, parts=parts)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Tells these counts from any others: pairs, words and dates."""
        digest = hashlib.sha256()
        self.feed(digest)
        return digest.hexdigest()

    def feed(self, digest: Any) -> None:
        """Add all that a fit sees of the counts to a digest of `hashlib`."""
        for array in (self.step_indptr, self.rows, self.indptr, self.indices, self.values):
            digest.update(np.ascontiguousarray(array).data)
        digest.update("\n".join(self.vocabulary).encode())
        digest.update(self.dates.astype(np.int64).data)

    def save(self, path: str | os.PathLike) -> None:
        """Write the counts to one file: plain arrays, JSON and a checksum."""
        # Parts alone tell all: the steps are their sums.
        source = self if self.parts is None else self.parts
        arrays = {name: getattr(source, name) for name in COUNTED}
        if self.parts is not None:
            arrays[PART_STEP] = self.parts.step
        arrays["days"] = (self.dates - EPOCH).astype(np.int32)
        facts = {
            "vocabulary": list(self.vocabulary),
            "window": self.window,
            "provenance": self.provenance,
        }
        try:
            files.write(path, KIND, arrays, facts)
        except OSError as error:
            raise explained(error, f"could not write {os.fspath(path)}", "choose another place") from error

    def __repr__(self):
        return (
            f"Counts({len(self)} steps from {self.dates[0]} to {self.dates[-1]}, "
            f"{len(self.vocabulary):,} words, {len(self.values):,} pairs, {self.tokens.sum():,} tokens in "
            f"{self.documents.sum():,} documents{self._in_parts}{self.skipped and f'; {self.skipped}'})"
        )

    @property
    def _in_parts(self):
        return "" if self.parts is None else f", dealt into {self.num_parts:,} parts"

    @property
    def skipped(self) -> str:
        """How many documents held no word, where the first is, and which files were not read; in words."""
        return "; ".join(filter(None, (_empty(self.provenance), _unread(self.provenance))))


def _empty(provenance):
    many, first = (provenance.get(name) for name in ("empty_documents", "first_empty"))
    if not many:
        return ""
    where = f", {'the first at ' if many > 1 else ''}{first}" if first else ""
    return f"skipped as empty: {many:,}{where}"


def _unread(provenance):
    many, names = (provenance.get(name) for name in ("num_skipped_files", "skipped_files"))
    if not many:
        return ""
    # Names of files need not be text, and what is printed must be.
    few = [name.encode("utf-8", "backslashreplace").decode() for name in names[:NAMED]]
    return f"files not read: {many:,}, {'such as ' if many > len(few) else ''}{', '.join(few)}"


def load_counts(path: str | os.PathLike) -> Counts:
    """Read counts that `Counts.save` wrote; a damaged or inconsistent file is refused."""
    arrays, facts = files.read(path, KIND)
    with refusing_unsound(path, "sound counts", "count the texts again"):
        check(arrays, facts)
        return _built(arrays, facts)


def _built(arrays, facts):
    days, part_step = arrays.pop("days"), arrays.pop(PART_STEP, None)
    parts = None if part_step is None else Parts(part_step, **arrays)
    if parts is not None:
        arrays = put_together(parts, len(days), facts["window"])
    return Counts(
        vocabulary=tuple(facts["vocabulary"]),
        dates=EPOCH + days.astype("timedelta64[D]"),
        window=facts["window"],
        provenance=facts["provenance"],
        parts=parts,
        **arrays,
    )
