"""Quantiles of every step's mixture of normals, gathered from one member after the other.

A thousand fits of a long path are too many to keep, so what is kept of each is how much of it lies beyond
the points of a grid. Normal scores of these sums are nearly straight lines in the grid, and are
interpolated as such; see `docs/maths.md`, section 10.
"""

from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float

# Those that are usually asked for, so that nothing is interpolated there; files of posteriors hold a row
# of quantiles for each end, so a change here is a new version of their format.
TABULATED = (0.25, 0.5, 0.68, 0.8, 0.9, 0.95, 0.99, 0.999, 0.99999)
_UPPER = np.array([NormalDist().inv_cdf(0.5 + 0.5 * probability) for probability in TABULATED])
SCORES = np.concatenate([-_UPPER[::-1], [0.0], _UPPER])  # their ends, for a standard normal
# Dense in the middle and 20 units wide: it is laid around one member, and others may be wider.
GRID = np.sinh(np.linspace(-3.7, 3.7, 49))
SIDE = np.where(GRID > 0, 1.0, -1.0)
SMALLEST, LARGEST = 1e-30, 1 - 1e-7  # tails whose scores are finite, and beyond all that is asked for


def tails(
    mean: Float[Array, "..."], sd: Float[Array, "..."], unit: Float[Array, "..."]
) -> Float[Array, " G ..."]:
    """How much of each normal lies beyond the points of the grid, as seen from its middle.

    In single precision, in which small tails are exact to seven digits; their complements would not be.

    Args:
        mean: Means, counted from the middle of the grid.
        sd: Standard deviations.
        unit: Unit of the grid.
    """
    distance = _along(GRID, mean) * unit[None] - mean[None]
    return ndtr((-_along(SIDE, mean) * distance / sd[None]).astype(jnp.float32))


def no_tails(like: Float[Array, "..."]) -> Float[Array, " G ..."]:
    """Where a sum of tails begins, for means of the given shape."""
    return jnp.zeros((len(GRID), *like.shape), jnp.float32)


def quantiles(
    tails: Float[Array, " G ..."],
    unit: Float[Array, "..."],
    mean: Float[Array, "..."],
    sd: Float[Array, "..."],
) -> Float[Array, " S ..."]:
    """Quantiles at `mixture_quantiles.SCORES`, in standard deviations from the mean.

    Args:
        tails: Weighted sum of the members' tails.
        unit: Unit of the grid.
        mean: Mean of the mixture, counted from the middle of the grid.
        sd: Its standard deviation.
    """
    scores = -_along(SIDE, mean).astype(tails.dtype) * ndtri(jnp.clip(tails, SMALLEST, LARGEST))
    wanted, grid = jnp.asarray(SCORES, tails.dtype), jnp.asarray(GRID, tails.dtype)

    def invert(scores):
        return jnp.interp(wanted, scores, grid, left="extrapolate", right="extrapolate")

    found = jax.vmap(invert, in_axes=1, out_axes=1)(scores.reshape(len(GRID), -1))
    found = found.reshape(-1, *mean.shape).astype(mean.dtype)
    return ((found * unit[None] - mean[None]) / sd[None]).astype(tails.dtype)


def mixture_quantiles(
    means: Float[Array, " P ..."],
    sds: Float[Array, " P ..."],
    weights: Float[Array, " P"],
    mean: Float[Array, "..."],
    sd: Float[Array, "..."],
) -> Float[Array, " S ..."]:
    """The same for members that are all at hand; `mean` and `sd` are those of the mixture."""

    def add(total, member):
        own_mean, own_sd, weight = member
        return total + weight.astype(total.dtype) * tails(own_mean - mean, own_sd, sd), None

    total, _ = jax.lax.scan(add, no_tails(mean), (means, sds, weights))
    return quantiles(total, sd, jnp.zeros_like(mean), sd)


def _along(values, like):
    """Numbers for the points of the grid, with an axis for each of an array's."""
    return jnp.asarray(values, like.dtype).reshape(-1, *(1 for _ in like.shape))
