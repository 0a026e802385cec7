"""Atlases whose posterior is known exactly: paths under the papers' prior, seen with noise at their knots.

Everything is worked out with dense matrices, from the precision matrix as it is printed in the papers.
"""

import dataclasses

import numpy as np
import scipy.linalg

from driftline.words.atlas.atlas import Atlas
from driftline.words.paths import priors
from driftline.words.paths.knots import Knots
from driftline.words.paths.paths import Paths

DRIFT, SCALE = 0.02, 0.8


def dense_prior(dates: np.ndarray) -> np.ndarray:
    """Prior covariance of a component over all steps."""
    gaps = np.diff(dates).astype(float) / 365.25
    precision = np.eye(len(dates)) / SCALE**2
    for t, gap in enumerate(gaps):
        precision[t : t + 2, t : t + 2] += np.array([[1, -1], [-1, 1]]) / (DRIFT * gap)
    return np.linalg.inv(precision)


def procrustes(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The rotation of rows, from the right."""
    root = np.sqrt(weights)[:, None]
    return scipy.linalg.orthogonal_procrustes(root * first, root * second)[0]


@dataclasses.dataclass
class Known:
    """An atlas and its posterior: means (V, T, d) and covariances (V, d, T, T)."""

    atlas: Atlas
    mean: np.ndarray
    covariance: np.ndarray

    def draws(self, rng, word, num):
        """Draws of a word's path, (num, T, d)."""
        roots = np.linalg.cholesky(self.covariance[word] + 1e-12 * np.eye(self.mean.shape[1]))
        noise = rng.standard_normal((num, *self.mean[word].T.shape))
        return self.mean[word] + np.einsum("kts,nks->ntk", roots, noise)


def some_dates(num_steps: int) -> np.ndarray:
    """Dates with gaps of half a year to three years, always the same."""
    gaps = np.random.default_rng(5).integers(180, 1100, num_steps - 1)
    return np.datetime64("1900-01-01", "D") + np.append(0, np.cumsum(gaps)).astype("timedelta64[D]")


def knots_of(present: np.ndarray) -> Knots:
    """Knots where a (V, T) array is true."""
    word, step = (index.astype(np.int32) for index in np.nonzero(present))
    return Knots(*present.shape, word, step)


def known_atlas(
    present: np.ndarray,
    dim: int = 3,
    seed: int = 0,
    noise: float = 0.1,
    unmoved: tuple[int, int, int] = (0, 0, 0),
) -> Known:
    """An atlas with knots where `present`, (V, T), is true, its numbers in double precision.

    Args:
        present: Where the paths are seen.
        dim: Number of components.
        seed: Of the paths.
        noise: How well they are seen; each sight is better or worse than that.
        unmoved: So many words, from the first on, are at the same place at these two steps.
    """
    rng = np.random.default_rng(seed)
    num_words, num_steps = present.shape
    dates = some_dates(num_steps)
    prior = dense_prior(dates)
    paths = np.einsum(
        "ts,vks->vtk", np.linalg.cholesky(prior), rng.standard_normal((num_words, dim, num_steps))
    )
    # Drawn from the prior given that there is no displacement.
    few, first, second = unmoved
    towards = prior[:, second] - prior[:, first]
    if few:
        moved = paths[:few, second] - paths[:few, first]
        paths[:few] -= towards[:, None] / (towards[second] - towards[first]) * moved[:, None]
    precision = present[:, :, None] * rng.uniform(0.3, 3.0, paths.shape) / noise
    seen = paths + rng.standard_normal(paths.shape) / np.sqrt(np.where(precision > 0, precision, 1.0))
    total = np.linalg.inv(prior) + np.einsum("vtk,ts->vkts", precision, np.eye(num_steps))
    covariance = np.linalg.inv(total)
    mean = np.einsum("vkts,vsk->vtk", covariance, precision * seen)
    knots = knots_of(present)
    rows = knots.word, knots.step
    lag = np.zeros((len(knots), dim))
    for r in np.flatnonzero(knots.linked):
        lag[r] = covariance[knots.word[r], :, knots.step[r], knots.step[r + 1]]
    variance = np.einsum("vktt->vtk", covariance)[rows]
    law = priors.make("diffusion", dates, DRIFT, SCALE, pace=np.zeros(num_words, np.int32))
    atlas = Atlas(
        vocabulary=tuple(f"word{i}" for i in range(num_words)),
        dates=dates,
        knots=knots,
        words=Paths(knots, law, mean[rows], variance, lag),
        contexts=Paths(knots, law, -mean[rows], variance, lag),
        drift=law,
        occurrences=rng.integers(1, 50, len(knots)),
        tokens=np.full(num_steps, 10_000),
        settings={"method": "dsg-s", "dim": dim, "prior": "diffusion", "drift": DRIFT, "scale": SCALE},
        provenance={"source": "made up"},
        history={"elbo": [-3.5, -2.25], "phase": ["first", "second"]},
        elbo=-2.25,
    )
    return Known(atlas, mean, covariance)
