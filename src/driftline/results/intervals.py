"""Central intervals of marginals: normal ones, or any that come with a table of quantiles."""

from statistics import NormalDist

import numpy as np

from driftline.infer.mixture_quantiles import SCORES


def central(
    mean: np.ndarray, sd: np.ndarray, probability: float, quantiles: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the intervals that hold a value with the given probability.

    Args:
        mean: Means.
        sd: Standard deviations.
        probability: Probability of the intervals.
        quantiles: Quantiles at the probabilities of `SCORES`, in standard deviations from the mean, with a
            leading axis for the scores; None for normal distributions.
    """
    score = NormalDist().inv_cdf(0.5 + 0.5 * checked_probability(probability))
    if quantiles is None:
        return mean - score * sd, mean + score * sd
    return mean + _interpolated(quantiles, -score) * sd, mean + _interpolated(quantiles, score) * sd


def checked_probability(probability: float) -> float:
    """Refuse a probability that no interval has."""
    if not 0 < probability < 1:
        raise ValueError(f"an interval's probability lies between 0 and 1, got {probability}")
    return probability


def _interpolated(quantiles: np.ndarray, score: float) -> np.ndarray:
    """The quantile at a score, on the line through those at the nearest two."""
    above = int(np.clip(np.searchsorted(SCORES, score), 1, len(SCORES) - 1))
    share = (score - SCORES[above - 1]) / (SCORES[above] - SCORES[above - 1])
    return (1 - share) * quantiles[above - 1] + share * quantiles[above]
