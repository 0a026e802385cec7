"""Steps that a fit does not see, predicted from the steps around them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from driftline.words.counts.counts import Counts
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.scoring import score
from driftline.words.paths.knots import bridge


def held_out_steps(counts: Counts, hold_out: Iterable[int]) -> np.ndarray:
    """The steps that were asked for, in order, or an error that names one that cannot be held out."""
    if not isinstance(counts, Counts):
        raise TypeError(
            f"counts must be those of words.count, not {type(counts).__name__}; count the texts first"
        )
    steps = np.unique(np.asarray(list(hold_out), np.int64))
    wrong = steps[(steps < 0) | (steps >= len(counts))]
    if len(wrong):
        raise ValueError(f"hold_out has step {wrong[0]}, but the counts have steps 0 to {len(counts) - 1}")
    empty = [int(step) for step in steps if not len(counts.step(int(step)).words)]
    if empty:
        raise ValueError(
            f"hold_out has step {empty[0]}, {counts.dates[empty[0]]}, which has no pair of words of the "
            "vocabulary, so that nothing can be scored there; leave it out"
        )
    return steps


def interpolated_scores(
    problem: FittingProblem, held_out: np.ndarray, words: np.ndarray, contexts: np.ndarray
) -> np.ndarray:
    """Scores of steps left out of a smoothing fit, with modes interpolated linearly in time.

    Before the first and after the last training step the nearest one is taken. Every step must have counts.

    Args:
        problem: The fit.
        held_out: Steps that it did not see.
        words: Modes at the knots, (R, d).
        contexts: The same for contexts.
    """
    days = problem.counts.dates.astype(np.int64).astype(np.float64)
    scores = []
    for step in held_out:
        after = int(np.searchsorted(problem.training, step))
        left, right = max(after - 1, 0), min(after, len(problem.training) - 1)
        begin, end = days[problem.training[left]], days[problem.training[right]]
        share = np.clip((days[step] - begin) / (end - begin), 0.0, 1.0) if end > begin else 0.0
        counts = problem.counts.step(int(step))
        negatives = counts.negatives(problem.settings.ratio, problem.settings.exponent)
        sides = [
            (1.0 - share) * _at(problem, rows, counts.words, left)
            + share * _at(problem, rows, counts.words, right)
            for rows in (words, contexts)
        ]
        scores.append(score(counts, negatives, *(side.astype(problem.dtype) for side in sides)))
    return np.array(scores)


def scores_ahead(
    problem: FittingProblem, held_out: np.ndarray, index: int, mode: Callable[[str, np.ndarray], np.ndarray]
) -> list[float]:
    """Scores of the steps left out right after training step `index`, predicted from what is known there.

    Args:
        problem: The fit.
        held_out: Steps that it does not see.
        index: How many training steps it has seen, less one.
        mode: Vectors of some words after that, given "words" or "contexts" and which.
    """
    next_one = problem.training[index + 1] if index + 1 < len(problem.training) else len(problem.counts)
    scores = []
    for step in held_out[(held_out > problem.training[index]) & (held_out < next_one)]:
        counts = problem.counts.step(int(step))
        negatives = counts.negatives(problem.settings.ratio, problem.settings.exponent)
        scores.append(score(counts, negatives, mode("words", counts.words), mode("contexts", counts.words)))
    return scores


def _at(problem: FittingProblem, rows: np.ndarray, words: np.ndarray, step: Any) -> np.ndarray:
    before, after, weight_before, weight_after, _ = bridge(problem.knots, problem.drift, words, step)
    return weight_before[:, None] * rows[before] + weight_after[:, None] * rows[after]
