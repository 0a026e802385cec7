"""Positive and negative counts of one time step: sparse, symmetric, and over the words present only."""

from typing import NamedTuple

import numpy as np

from driftline.words.counts.pairs import PairSums


class Negatives(NamedTuple):
    r"""The negative counts of a step as two factors, $n^-_{ij} = \text{rows}_i \, \text{columns}_j$."""

    rows: np.ndarray
    columns: np.ndarray


class StepCounts(NamedTuple):
    """Positive counts of one time step over the words present at it, a symmetric sparse matrix (CSR).

    A word is present if it has a pair. All others have zero rows and columns, in the positive and in the
    negative counts, and take no part in the likelihood of the step.

    Attributes:
        words: Vocabulary indices of the n words present, increasing.
        indptr: Where each word's row begins in the two arrays below, (n + 1,).
        indices: Columns as indices into `words`, increasing in a row.
        values: Positive counts.
    """

    words: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    @property
    def total(self) -> float:
        """Sum of all positive counts."""
        return float(self.values.sum(dtype=np.float64))

    @property
    def marginals(self) -> np.ndarray:
        """Share of each present word in the positive counts: its row sum over the total, in float64."""
        if not len(self.words):
            return np.zeros(0)
        sums = np.add.reduceat(self.values.astype(np.float64), self.indptr[:-1])
        return sums / self.total

    def negatives(self, ratio: float = 1.0, exponent: float = 0.75) -> Negatives:
        r"""Factors of the negative counts over the present words.

        With $P$ the marginals, $n^-_{ij} = (\sum n^+)\, \eta\, P_i\, P_j^\gamma / \sum_k P_k^\gamma$.

        Args:
            ratio: Negative for each positive count, $\eta$.
            exponent: $\gamma$.
        """
        marginals = self.marginals
        powers = marginals**exponent
        return Negatives(self.total * ratio * marginals, powers / powers.sum() if len(powers) else powers)


def compressed(total: PairSums, one: int, num_steps: int, vocab_size: int) -> dict[str, np.ndarray]:
    """Arrays of the positive counts from sums over unordered pairs.

    Args:
        total: Sums of whole-number weights; a pair i <= j at step t has the key (t V + i) V + j.
        one: The number that stands for the weight 1.
        num_steps: Number of time steps.
        vocab_size: Number of words.
    """
    heads = total.keys // vocab_size  # NumPy divides by one number several times as fast as it finds the rest
    indices = (total.keys - heads * vocab_size).astype(np.int32)
    begins = np.flatnonzero(np.append(True, heads[1:] != heads[:-1]))
    steps, rows = np.divmod(heads[begins], vocab_size)
    rows, indptr = rows.astype(np.int32), np.append(begins, len(heads)).astype(np.int64)
    values = (total.sums / one).astype(np.float32)
    # A pair of places with the same word at both adds to the same count in either order.
    values[indices == np.repeat(rows, np.diff(indptr))] *= 2.0
    return {
        "step_indptr": np.searchsorted(steps, np.arange(num_steps + 1)).astype(np.int64),
        "rows": rows,
        "indptr": indptr,
        "indices": indices,
        "values": values,
    }


def mirrored(first: np.ndarray, second: np.ndarray, values: np.ndarray, vocab_size: int) -> StepCounts:
    """The whole matrix of a step from its upper triangle, without sorting numbers of more than 16 bits.

    Args:
        first: Row of each count, not decreasing.
        second: Column of each count, not below the row, and increasing in it.
        values: The counts.
        vocab_size: Number of words.
    """
    present = np.zeros(vocab_size, bool)
    present[first] = present[second] = True
    words = np.flatnonzero(present).astype(np.int32)
    local = np.cumsum(present) - 1
    row, column = local[first], local[second]
    off = np.flatnonzero(row != column)
    # NumPy sorts numbers of 16 bits by radix, in linear time.
    narrow = np.uint16 if len(words) <= 1 << 16 else np.int64
    lower = off[np.argsort(column[off].astype(narrow), kind="stable")]
    num_lower = np.bincount(column[lower], minlength=len(words))
    num_upper = np.bincount(row, minlength=len(words))
    indptr = np.append(0, np.cumsum(num_lower + num_upper))
    indices = np.empty(indptr[-1], np.int32)
    counts = np.empty(indptr[-1], np.float32)
    # In a row, what lies left of the diagonal comes first.
    for begins, many, columns, source in (
        (indptr[:-1], num_lower, row[lower], values[lower]),
        (indptr[:-1] + num_lower, num_upper, column, values),
    ):
        place = np.arange(len(columns)) + np.repeat(begins - (np.cumsum(many) - many), many)
        indices[place] = columns
        counts[place] = source
    return StepCounts(words, indptr, indices, counts)
