"""The paths of all words (or contexts) through time: stored at knots, filled in between them when asked."""

import dataclasses
from typing import Literal

import numpy as np

from driftline.words.paths.knots import Knots, bridge
from driftline.words.paths.long_steps import Forward
from driftline.words.paths.priors import Drift

Between = Literal["smoothed", "filtered", "independent"]
BETWEEN = ("smoothed", "filtered", "independent")

MeanAndVariance = tuple[np.ndarray, np.ndarray | None]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """Gaussian paths, independent for each word and component.

    Between the knots of a word there is no data, and how its path goes on there depends on the method:
    "smoothed" paths follow the prior given the knots on both sides; "filtered" ones the papers' prediction
    from the knot before, or from mean 0 and the pull's width at the first step if there is none;
    "independent" ones are not known there: their mean is zero, and their variance, if they have one, NaN.

    Attributes:
        knots: Which rows there are.
        drift: The prior.
        mean: Means, (R, d).
        variance: Variances, (R, d), or None for point estimates.
        lag_covariance: Covariance of each row with the next of the same word, (R, d), zero at a word's last
            row; for smoothed paths with variances.
        between: How paths are filled in.
        forward: The filter's prediction, for filtered paths.
    """

    knots: Knots
    drift: Drift
    mean: np.ndarray
    variance: np.ndarray | None = None
    lag_covariance: np.ndarray | None = None
    between: Between = "smoothed"
    forward: Forward | None = None

    def __post_init__(self):
        if self.between not in BETWEEN:
            raise ValueError(f"between={self.between!r}; choose one of {', '.join(BETWEEN)}")
        for name in ("mean", "variance", "lag_covariance"):
            array = getattr(self, name)
            if array is not None and array.shape != (len(self.knots), self.dim):
                raise ValueError(f"{name} has shape {array.shape}; {(len(self.knots), self.dim)} is needed")
        if self.between == "smoothed" and (self.variance is None) != (self.lag_covariance is None):
            raise ValueError("smoothed paths have variances and lag covariances, or neither")
        if self.between == "filtered" and (self.variance is None or self.forward is None):
            raise ValueError("filtered paths need variances and the filter's prediction, forward=")
        if self.between == "independent" and self.lag_covariance is not None:
            raise ValueError("independent paths know each step on its own; leave the lag covariances away")

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return self.mean.shape[1]

    @property
    def is_joint(self) -> bool:
        """Whether it is known how a path's errors at two steps depend on each other."""
        return self.lag_covariance is not None

    def at_step(self, step: int, words: np.ndarray | None = None) -> MeanAndVariance:
        """Means and variances of all words, or of some, at one step, (V, d)."""
        if words is None:
            words = np.arange(self.knots.num_words)
        if self.between == "smoothed":
            return self._smoothed(words, np.full(len(words), step))
        before = self.knots.at_or_before(words, np.full(len(words), step))
        known = np.asarray(before >= self.knots.start[words])
        before = np.clip(before, 0, None)
        if self.forward is None:
            known &= self.knots.step[before] == step
        mean = np.where(known[:, None], self.mean[before], np.float64(0))
        if self.variance is None:
            return mean, None
        elsewhere = np.float64(np.nan if self.forward is None else self.forward.scale**2)
        variance = np.where(known[:, None], self.variance[before], elsewhere)
        if self.forward is None:
            return mean, variance
        return self.forward.reach(step).carry(np.where(known, self.knots.step[before], 0), mean, variance)

    def of_word(self, word: int) -> MeanAndVariance:
        """Means and variances of one word at all steps, (T, d)."""
        steps = np.arange(self.knots.num_steps)
        if self.between == "smoothed":
            return self._smoothed(np.full(len(steps), word), steps)
        rows = slice(self.knots.start[word], self.knots.start[word + 1])
        mean = np.zeros((len(steps), self.dim))
        mean[self.knots.step[rows]] = self.mean[rows]
        if self.variance is None:
            return mean, None
        variance = np.full(mean.shape, np.nan if self.forward is None else self.forward.scale**2.0)
        variance[self.knots.step[rows]] = self.variance[rows]
        if self.forward is None:
            return mean, variance
        for step in np.setdiff1d(steps[1:], self.knots.step[rows]):
            mean[step], variance[step] = self.forward.carry(step - 1, mean[step - 1], variance[step - 1])
        return mean, variance

    def covariance(self, words: np.ndarray, first: int, second: int) -> np.ndarray:
        r"""Covariance of the same component of a word at two steps, (n, d).

        With $l$ and $r$ the knots around the earlier step $s$, and $l'$ and $r'$ those around the later one
        $t$, $u_s = w_l u_l + w_r u_r + e_s$ with $e_s$ independent of all knots. Knots form a Markov chain,
        so the covariance of two of them is the variance of the first times the regressions in between.

        In different gaps, $e_s$ and $e_t$ are independent, and $\mathrm{Cov}(u_s, u_t) =
        \mathrm{Cov}(u_s, u_r) \, \varphi_{r \to l'} \, (w_{l'} + w_{r'} \varphi_{l' \to r'})$.
        In the same gap, $e_s$ and $e_t$ have the covariance of the prior's bridge between its knots.

        Args:
            words: Words.
            first: A step.
            second: Another, or the same.
        """
        if self.variance is None or self.lag_covariance is None:
            raise ValueError(f"the covariance of two steps is not known for {self.between} paths")
        words = np.asarray(words)
        sides = [np.full(len(words), step) for step in sorted((first, second))]
        same = self.knots.at_or_before(words, sides[0]) == self.knots.at_or_before(words, sides[1])
        result = np.empty((len(words), self.dim))
        result[same] = self._in_one_gap(words[same], *(side[same] for side in sides))
        result[~same] = self._across_gaps(words[~same], *(side[~same] for side in sides))
        return result

    def _smoothed(self, words, steps) -> MeanAndVariance:
        before, after, left, right, remains = bridge(self.knots, self.drift, words, steps)
        left, right = left[:, None], right[:, None]
        mean = left * self.mean[before] + right * self.mean[after]
        if self.variance is None or self.lag_covariance is None:
            return mean, None
        spread = left**2 * self.variance[before] + right**2 * self.variance[after]
        return mean, remains[:, None] + spread + 2.0 * left * right * self.lag_covariance[before]

    def _in_one_gap(self, words, earlier, later):
        assert self.variance is not None
        assert self.lag_covariance is not None
        before, after, left, right, _ = bridge(self.knots, self.drift, words, earlier)
        left_later, right_later = bridge(self.knots, self.drift, words, later)[2:4]
        # What remains of the prior's covariance, given the knots. A knot that is not there has weight zero,
        # so the step that is put in its place does not matter.
        to_left = self.drift.covariance(words, np.minimum(self.knots.step[before], later), later)
        to_right = self.drift.covariance(words, later, np.maximum(self.knots.step[after], later))
        remains = self.drift.covariance(words, earlier, later) - left * to_left - right * to_right
        spread = (left * left_later)[:, None] * self.variance[before]
        spread += (right * right_later)[:, None] * self.variance[after]
        mixed = (left * right_later + right * left_later)[:, None] * self.lag_covariance[before]
        return remains[:, None] + spread + mixed

    def _across_gaps(self, words, earlier, later):
        assert self.variance is not None
        assert self.lag_covariance is not None
        before, start, left, right, _ = bridge(self.knots, self.drift, words, earlier)
        end, _, left_later, right_later, _ = bridge(self.knots, self.drift, words, later)
        result = left[:, None] * self.lag_covariance[before] + right[:, None] * self.variance[start]
        for ahead in range(int((end - start).max(initial=0))):
            going = np.flatnonzero(start + ahead < end)
            row = start[going] + ahead
            result[going] *= self._regression(row)
        onward = self._regression(end)
        return result * (left_later[:, None] + right_later[:, None] * onward)

    def _regression(self, rows):
        """Of the next row of the same word on these."""
        assert self.variance is not None
        assert self.lag_covariance is not None
        return np.divide(self.lag_covariance[rows], self.variance[rows], dtype=np.float64)
