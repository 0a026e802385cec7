"""How well embeddings predict the counts of a time step that they were not fitted to."""

import numpy as np

from driftline.words.counts.step_counts import Negatives, StepCounts

ROWS = 512  # at a time


def score(step: StepCounts, negatives: Negatives, words: np.ndarray, contexts: np.ndarray) -> float:
    """Log-likelihood of one step divided by the sum of all its counts; zero embeddings score log ½.

    Args:
        step: Positive counts.
        negatives: Negative counts.
        words: Embeddings of the words present, (n, d).
        contexts: The same for contexts.
    """
    total = 0.0
    for begin in range(0, len(step.words), ROWS):
        rows = slice(begin, begin + ROWS)
        logits = words[rows] @ contexts.T
        ends = step.indptr[begin : begin + len(logits) + 1]
        pairs = slice(ends[0], ends[-1])
        row = np.repeat(np.arange(len(logits)), np.diff(ends))
        column, values = step.indices[pairs], step.values[pairs]
        # log σ(x) = x + log σ(-x): the dense part needs log σ(-x) only.
        against = -np.logaddexp(0.0, logits)
        positive = np.sum(values * (logits + against)[row, column], dtype=np.float64)
        negative = negatives.rows[rows] @ (against.astype(np.float64) @ negatives.columns)
        total += positive + negative
    weight = step.total + negatives.rows.sum() * negatives.columns.sum()
    return float(total / weight)
