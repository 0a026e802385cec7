"""Central intervals of normal distributions."""

from statistics import NormalDist

import numpy as np


def central(mean: np.ndarray, sd: np.ndarray, probability: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the intervals that hold a value with the given probability."""
    if not 0 < probability < 1:
        raise ValueError(f"an interval's probability lies between 0 and 1, got {probability}")
    width = NormalDist().inv_cdf(0.5 + 0.5 * probability) * sd
    return mean - width, mean + width
