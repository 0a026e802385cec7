"""Where embeddings live: one row for each word at each step at which it is present, word after word.

Between its knots a word has no data, so its path there follows from the prior and need not be stored. On the
State of the Union that is 6 times less memory and work than all words at all steps, and nothing is lost: the
optimal member of the family has the prior's conditionals between knots.
"""

import dataclasses
import functools

import numpy as np

from driftline.words.counts.step_counts import StepCounts
from driftline.words.paths.priors import Drift


@dataclasses.dataclass(frozen=True, eq=False)
class Knots:
    """Rows of all words, ordered by word and then by step.

    Attributes:
        num_words: Size of the vocabulary, V.
        num_steps: Number of steps, T.
        word: Word of each row, (R,).
        step: Step of each row, (R,).
    """

    num_words: int
    num_steps: int
    word: np.ndarray
    step: np.ndarray

    def __len__(self):
        return len(self.word)

    @functools.cached_property
    def start(self) -> np.ndarray:
        """First row of each word, and the number of rows at the end, (V + 1,)."""
        return np.searchsorted(self.word, np.arange(self.num_words + 1))

    @functools.cached_property
    def linked(self) -> np.ndarray:
        """Whether a row and the next belong to the same word, (R - 1,)."""
        return self.word[1:] == self.word[:-1]

    @functools.cached_property
    def _key(self):
        return self.word.astype(np.int64) * self.num_steps + self.step

    def at_or_before(self, word: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Last row of a word that is not after a step; one less than its first row if there is none."""
        key = np.asarray(word, np.int64) * self.num_steps + step
        return np.searchsorted(self._key, key, side="right") - 1


def tie(steps: list[StepCounts], num_words: int) -> tuple[Knots, list[np.ndarray]]:
    """Knots of all words, and the rows that belong to the words of each step."""
    word = np.concatenate([step.words for step in steps]).astype(np.int32)
    when = np.repeat(np.arange(len(steps), dtype=np.int32), [len(step.words) for step in steps])
    order = np.lexsort((when, word))
    place = np.empty(len(word), np.int64)
    place[order] = np.arange(len(word))
    knots = Knots(num_words, len(steps), word[order], when[order])
    return knots, np.split(place, np.cumsum([len(step.words) for step in steps])[:-1])


def bridge(knots: Knots, drift: Drift, word: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, ...]:
    """How the path of a word at a step depends on its nearest knots, under the prior.

    Args:
        knots: The knots.
        drift: The prior over all steps.
        word: Words, any shape.
        step: Steps, of the same shape.

    Returns:
        The rows of the knots before and after, their weights in the mean, and the variance that remains.
        Where there is no knot on one side, or the step is itself a knot, the weight of the other is zero.
    """
    word, step = np.broadcast_arrays(np.asarray(word), np.asarray(step))
    before = knots.at_or_before(word, step)
    after = before + 1
    has_before, has_after = before >= knots.start[word], after < knots.start[word + 1]
    before, after = np.clip(before, 0, len(knots) - 1), np.clip(after, 0, len(knots) - 1)
    left = np.where(has_before, knots.step[before], step)
    right = np.where(has_after, knots.step[after], step)
    prior = drift.variance_of(word, step)
    to_left, to_right = drift.covariance(word, left, step), drift.covariance(word, step, right)
    across = drift.covariance(word, left, right)
    var_left, var_right = drift.variance_of(word, left), drift.variance_of(word, right)
    exact = has_before & (left == step)
    both = has_before & has_after & ~exact
    det = np.where(both, var_left * var_right - across**2, 1.0)
    weight_left = np.where(both, (to_left * var_right - to_right * across) / det, to_left / var_left)
    weight_right = np.where(both, (to_right * var_left - to_left * across) / det, to_right / var_right)
    weight_left = np.where(exact, 1.0, weight_left * has_before)
    weight_right = np.where(exact, 0.0, weight_right * has_after)
    remains = prior - weight_left * to_left - weight_right * to_right
    return before, after, weight_left, weight_right, np.where(exact, 0.0, np.maximum(remains, 0.0))
