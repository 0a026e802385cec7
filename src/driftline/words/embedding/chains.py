"""All paths of all words as one long chain that is cut between words, on the engine's kernels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.linalg import bidiagonal, tridiagonal
from driftline.words.atlas.drift import Drift
from driftline.words.atlas.knots import Knots


class Chains(NamedTuple):
    """The prior over the rows of the knots, the same for every component of an embedding.

    Attributes:
        diag: Diagonal of the prior precision, (R, 1).
        off: Its off-diagonal, zero between words, (R - 1, 1).
        log_det: Logarithm of its determinant, for one component.
    """

    diag: Float[Array, " R 1"]
    off: Float[Array, " R-1 1"]
    log_det: float


class Spread(NamedTuple):
    """Variances of the rows and their covariances with the next row; the divergence that they cost."""

    variances: Float[Array, " R d"]
    lag_covariances: Float[Array, " R-1 d"]
    divergence: Float[Array, ""]


def prior_chains(knots: Knots, drift: Drift, dtype: type) -> Chains:
    """The prior over the rows."""
    diag, off, log_det = drift.precision(knots.step, knots.linked)
    diag, off = (jax.device_put(np.asarray(array[:, None], dtype)) for array in (diag, off))
    return Chains(diag, off, log_det)


@jax.jit
def to_natural(chains: Chains, path: Float[Array, " R d"]) -> Float[Array, " R d"]:
    r"""Coordinates in which the prior is standard normal: $\rho = B \mu$ for $\Pi = B^\top B$."""
    return bidiagonal.matvec(*_factor(chains, path), path)


@jax.jit
def from_natural(chains: Chains, natural: Float[Array, " R d"]) -> Float[Array, " R d"]:
    """The path with these natural coordinates; one of them moves all that comes before it."""
    return bidiagonal.solve(*_factor(chains, natural), natural)


@jax.jit
def natural_gradient(chains: Chains, gradient: Float[Array, " R d"]) -> Float[Array, " R d"]:
    """Derivatives by natural coordinates from those by the path."""
    return bidiagonal.solve_transposed(*_factor(chains, gradient), gradient)


@jax.jit
def spread(chains: Chains, curvature: Float[Array, " R d"]) -> Spread:
    r"""The optimal chains for a likelihood with this curvature: precision $\Pi + \mathrm{diag}(h)$."""
    off = jnp.broadcast_to(chains.off, curvature[1:].shape)
    factor = tridiagonal.cholesky(chains.diag + curvature, off)
    variances, lag_covariances = tridiagonal.band_of_inverse(*factor)
    # Sums over tens of millions of numbers: of differences, so that nothing large cancels.
    trace = jnp.sum(variances * chains.diag + _append_zero(2.0 * lag_covariances * chains.off) - 1.0)
    per_row = chains.log_det / len(curvature)
    log_det = jnp.sum(2.0 * jnp.log(factor[0]) - per_row)
    return Spread(variances, lag_covariances, 0.5 * (trace + log_det))


def _append_zero(array):
    return jnp.pad(array, ((0, 1), (0, 0)))


def _factor(chains, like):
    diag, upper = tridiagonal.cholesky(chains.diag, chains.off)
    return jnp.broadcast_to(diag, like.shape), jnp.broadcast_to(upper, like[1:].shape)
