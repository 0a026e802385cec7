"""Counts of parts of the time steps, and how they are put together to counts of steps."""

from typing import NamedTuple

import numpy as np

from driftline.words.counts.pairs import NOTHING, PairSums, added_up
from driftline.words.counts.step_counts import compressed


class Parts(NamedTuple):
    """Counts of P parts, as arrays like those of `Counts` with parts in the place of steps.

    A part is some documents of one time step.

    Attributes:
        step: Step that each part belongs to, (P,).
        step_indptr: Where the rows of each part begin, (P + 1,).
        rows: Words that begin a pair, increasing in a part.
        indptr: Where the pairs of each row begin.
        indices: The other word of each pair, increasing in a row.
        values: Positive counts.
        occurrences: How often each word occurs in each part, (P, V).
        tokens: How many words each part has, in the vocabulary or not.
        documents: How many documents each part has.
    """

    step: np.ndarray
    step_indptr: np.ndarray
    rows: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    occurrences: np.ndarray
    tokens: np.ndarray
    documents: np.ndarray


def put_together(parts: Parts, num_steps: int, window: int) -> dict[str, np.ndarray]:
    """Sums of the parts of each step, as arrays of `Counts`.

    Pairs weigh a multiple of 1 / `window`, and these are summed up as whole numbers: the result is, byte for
    byte, that of a count of the steps as they are.
    """
    order = np.argsort(parts.step, kind="stable")
    groups = np.split(order, np.searchsorted(parts.step[order], np.arange(1, num_steps)))
    vocab_size = parts.occurrences.shape[1]
    found = [_pairs_of_step(parts, group, window, t, vocab_size) for t, group in enumerate(groups)]
    total = PairSums(*(np.concatenate(column) for column in zip(*found, strict=True)))
    sums = {name: _sums(getattr(parts, name), groups) for name in ("occurrences", "tokens", "documents")}
    return compressed(total, window, num_steps, vocab_size) | sums


def _pairs_of_step(parts, group, window, step, vocab_size):
    found = [_pairs_of_part(parts, part, window, vocab_size) for part in group]
    keys, sums = (np.concatenate([NOTHING, *column]) for column in zip(*found, strict=True))
    total = added_up(keys, sums)
    return PairSums(total.keys + step * vocab_size**2, total.sums)


def _pairs_of_part(parts, part, window, vocab_size):
    begin, end = parts.step_indptr[part : part + 2]
    pairs = slice(parts.indptr[begin], parts.indptr[end])
    first = np.repeat(parts.rows[begin:end].astype(np.int64), np.diff(parts.indptr[begin : end + 1]))
    second = parts.indices[pairs]
    sums = np.rint(parts.values[pairs].astype(np.float64) * window).astype(np.int64)
    sums[first == second] //= 2  # which counts in both orders; see `compressed`
    return first * vocab_size + second, sums


def _sums(table, groups):
    return np.array([table[group].sum(axis=0) for group in groups])


def permuted_steps(arrays: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays of `Counts` with whole steps in another order.

    Args:
        arrays: Those of the pairs, and tables with a row for each step.
        order: The step that comes to each place.
    """
    begins, rows_of = arrays["step_indptr"], np.diff(arrays["step_indptr"])
    rows = _runs(begins[:-1][order], rows_of[order])
    pairs_of = np.diff(arrays["indptr"])
    pairs = _runs(arrays["indptr"][:-1][rows], pairs_of[rows])
    return {
        "step_indptr": np.append(0, np.cumsum(rows_of[order])),
        "rows": arrays["rows"][rows],
        "indptr": np.append(0, np.cumsum(pairs_of[rows])),
        "indices": arrays["indices"][pairs],
        "values": arrays["values"][pairs],
    } | {name: arrays[name][order] for name in ("occurrences", "tokens", "documents")}


def _runs(begins, lengths):
    """The numbers of runs of neighbours, one run after another."""
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(begins - before, lengths)
