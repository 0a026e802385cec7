r"""How far a word has moved, as one less a cosine, with a band that can hold "not at all".

A distance cannot be negative, so the posterior of a displacement that is never zero has a band that never
holds zero, and noise alone makes a distance. But a word may not have moved: with the probability of that, the
distance is zero, and what the displacement says counts for the rest. Quantiles are those of the two together,
and so the median, which is given as the distance, lies in the band and is zero for words that have rather not
moved.
"""

from typing import NamedTuple

import numpy as np

from driftline.words.atlas.change import Displacements
from driftline.words.atlas.cosines import CHUNK, DRAWS, PROBABILITY, Band, UncertainVectors, cosines


class Moved(NamedTuple):
    """Displacements of n words if they moved: one of M normal distributions, with independent components.

    Attributes:
        weights: Posterior probability of each, (n, M).
        shrink: By what the data's value is multiplied to give the mean, (n, M, d).
        found: What the data say.
    """

    weights: np.ndarray
    shrink: np.ndarray
    found: Displacements

    def rows(self, some: slice) -> "Moved":
        """The same of some words."""
        found = Displacements(self.found.value[some], self.found.variance[some], self.found.inflation)
        return Moved(self.weights[some], self.shrink[some], found)


def moved(found: Displacements, log_factors: np.ndarray, priors: np.ndarray) -> Moved:
    """The posterior of displacements that are not zero.

    Args:
        found: What the data say, of n words.
        log_factors: Evidence for each of M sizes of a change, (n, M).
        priors: Variances of these, (M,).
    """
    weights = np.exp(log_factors - log_factors.max(1, keepdims=True))
    shrink = priors[:, None] / (priors[:, None] + found.variance[:, None, :])
    return Moved(weights / weights.sum(1, keepdims=True), shrink, found)


def distance_band(centre: UncertainVectors, displaced: Moved, probability: np.ndarray) -> Band:
    """Median and quantiles of the distance of each word; `Band.mean` holds the median.

    Args:
        centre: The middle between the two vectors, which hardly depends on how far they are apart.
        displaced: What lies between them, if they are apart.
        probability: That they are, (n,).
    """
    num_words, dim = centre.mean.shape
    rng = np.random.default_rng(0)
    noise, other = rng.standard_normal((2, DRAWS, 1, dim))
    which = rng.permutation((np.arange(DRAWS) + 0.5) / DRAWS)
    size = max(1, CHUNK // (DRAWS * dim))
    parts = [np.zeros((3, 0))]
    for begin in range(0, num_words, size):
        some = slice(begin, begin + size)
        part = displaced.rows(some)
        apart = _drawn(part, which, noise)
        middle = centre.mean[some] + np.sqrt(centre.variance[some]) * other
        drawn = np.sort(1.0 - cosines(middle - 0.5 * apart, middle + 0.5 * apart), axis=0)
        parts.append(_quantiles(drawn, probability[some]))
    median, lower, upper = np.concatenate(parts, axis=1)
    return Band(median, lower, upper)


def _drawn(part, which, noise):
    """Draws of displacements, (draws, n, d)."""
    chosen = (part.weights.cumsum(1)[None] < which[:, None, None]).sum(2)
    chosen = np.minimum(chosen, part.weights.shape[1] - 1)
    shrink = part.shrink[np.arange(len(part.weights))[None], chosen]
    spread = np.sqrt(shrink * part.found.variance)
    return shrink * part.found.value + spread * noise


def _quantiles(drawn, probability):
    """Of a mixture of zero and of sorted draws, (draws, n): middle, lower and upper one."""
    outside = (1.0 - PROBABILITY) / 2.0
    columns = np.arange(drawn.shape[1])
    result = []
    for level in (0.5, outside, 1.0 - outside):
        share = (level - (1.0 - probability)) / np.maximum(probability, 1e-300)
        place = np.clip(share * len(drawn), 0, len(drawn) - 1).astype(np.int64)
        result.append(np.where(share > 0.0, drawn[place, columns], 0.0))
    return np.stack(result)
