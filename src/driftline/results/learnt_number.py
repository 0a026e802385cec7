"""A number that a fit has learnt: weighted values, and what follows from them."""

import dataclasses

import numpy as np

from driftline.results.intervals import checked_probability


@dataclasses.dataclass(frozen=True, repr=False)
class LearntNumber:
    """The posterior of one number of a model, as weighted points.

    Attributes:
        values: The points, (P,) or (P, *shape).
        weights: Their weights, which sum to one.
    """

    values: np.ndarray
    weights: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean."""
        return np.tensordot(self.weights, self.values, axes=1)

    @property
    def sd(self) -> np.ndarray:
        """Posterior standard deviation; zero if only the most probable value was asked for."""
        return np.sqrt(np.tensordot(self.weights, (self.values - self.mean) ** 2, axes=1))

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper end of the central interval with the given probability."""
        tail = 0.5 * (1.0 - checked_probability(probability))
        return self._quantile(tail), self._quantile(1.0 - tail)

    def _quantile(self, share: float) -> np.ndarray:
        columns = self.values.reshape(len(self.weights), -1)
        found = [_weighted_quantile(column, self.weights, share) for column in columns.T]
        return np.reshape(found, self.values.shape[1:])

    def __repr__(self):
        with np.printoptions(precision=4):
            return f"LearntNumber(mean {self.mean}, sd {self.sd})"


def _weighted_quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Quantile of weighted points, interpolated between the midpoints of their weights."""
    order = np.argsort(values)
    middle = np.cumsum(weights[order]) - 0.5 * weights[order]
    return np.interp(share, middle, values[order])
