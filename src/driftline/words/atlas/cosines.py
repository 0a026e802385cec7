"""Cosines of Gaussian vectors: of their means, and what the posterior says about them by draws."""

from typing import NamedTuple

import numpy as np

DRAWS = 4000  # so that their error is below the second digit, which is the last that is printed
CHUNK = 1 << 21  # numbers that are drawn at a time
PROBABILITY = 0.9  # of all bands


class Band(NamedTuple):
    """Posterior mean and central interval of some numbers."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class UncertainVectors(NamedTuple):
    """Vectors with independent components: means and variances, (n, d)."""

    mean: np.ndarray
    variance: np.ndarray


def cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of each pair of vectors along the last axis; NaN if one of them is zero."""
    product = np.einsum("...k,...k->...", first, second)
    lengths = np.sqrt(np.einsum("...k,...k->...", first, first) * np.einsum("...k,...k->...", second, second))
    return np.divide(product, lengths, out=np.full_like(product, np.nan), where=lengths > 0)


def band(
    first: UncertainVectors,
    second: UncertainVectors,
    covariance: np.ndarray | float = 0.0,
    rotation: np.ndarray | None = None,
) -> Band:
    """Band of the cosine of pairs of vectors, by draws.

    All pairs share the same random numbers, so that bands of neighbouring steps differ by what is known of
    them and not by chance. They are the same in every call.

    Args:
        first: A vector of each pair, (n, d).
        second: The other, (n, d).
        covariance: Of the same component of the two, (n, d), or 0 if they are independent.
        rotation: Turns the first before the cosine is taken.
    """
    num_pairs, dim = np.broadcast_shapes(first.mean.shape, second.mean.shape)
    noise, other = np.random.default_rng(0).standard_normal((2, DRAWS, 1, dim))
    every = [np.broadcast_to(array, (num_pairs, dim)) for array in (*first, *second, covariance)]
    size = max(1, CHUNK // (DRAWS * dim))
    parts = []
    for begin in range(0, num_pairs, size):
        mean, variance, mean_second, variance_second, shared = (
            array[begin : begin + size] for array in every
        )
        sd = np.sqrt(variance)
        slope = np.divide(shared, sd, out=np.zeros_like(sd), where=sd > 0)
        own = np.sqrt(np.maximum(variance_second - slope**2, 0.0))
        drawn = mean + sd * noise
        if rotation is not None:
            drawn = drawn @ rotation.T
        parts.append(cosines(drawn, mean_second + slope * noise + own * other))
    if not parts:
        return Band(np.zeros(0), np.zeros(0), np.zeros(0))
    draws = np.concatenate(parts, axis=1)
    outside = (1.0 - PROBABILITY) / 2.0
    lower, upper = np.quantile(draws, [outside, 1.0 - outside], axis=0)
    return Band(draws.mean(0), lower, upper)
