"""All paths of all words as one long chain that is cut between words, on the engine's kernels."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.linalg import bidiagonal, tridiagonal
from driftline.words.paths.knots import Knots
from driftline.words.paths.priors import Drift


class PriorChains(NamedTuple):
    r"""The prior over the rows of the knots, the same for every component of an embedding.

    It is told by the upper bidiagonal factor B of its precision $\Pi = B^\top B$. The precision itself has
    no room for the pull towards zero, in single precision: with daily steps it is one part in a billion.

    Attributes:
        diag: Diagonal of B, (R, 1).
        upper: Its superdiagonal, zero between words, (R - 1, 1).
    """

    diag: Float[Array, " R 1"]
    upper: Float[Array, " R-1 1"]


class Spread(NamedTuple):
    """Variances of the rows and their covariances with the next row; the divergence that they cost."""

    variances: Float[Array, " R d"]
    lag_covariances: Float[Array, " R-1 d"]
    divergence: Float[Array, ""]


def prior_chains(knots: Knots, drift: Drift, dtype: type) -> PriorChains:
    """The prior over the rows, worked out in double precision."""
    factor = drift.factor(knots.word, knots.step, knots.linked)
    return PriorChains(*(jax.device_put(np.asarray(array[:, None], dtype)) for array in factor))


@jax.jit
def to_natural(chains: PriorChains, path: Float[Array, " R d"]) -> Float[Array, " R d"]:
    r"""Coordinates in which the prior is standard normal: $\rho = B \mu$ for $\Pi = B^\top B$."""
    return bidiagonal.matvec(*_factor(chains, path), path)


@jax.jit
def from_natural(chains: PriorChains, natural: Float[Array, " R d"]) -> Float[Array, " R d"]:
    """The path with these natural coordinates; one of them moves all that comes before it."""
    return bidiagonal.solve(*_factor(chains, natural), natural)


@jax.jit
def natural_gradient(chains: PriorChains, gradient: Float[Array, " R d"]) -> Float[Array, " R d"]:
    """Derivatives by natural coordinates from those by the path."""
    return bidiagonal.solve_transposed(*_factor(chains, gradient), gradient)


@jax.jit
def precondition(
    chains: PriorChains, curvature: Float[Array, " R d"], slope: Float[Array, " R d"]
) -> Float[Array, " R d"]:
    r"""Slopes by natural coordinates times the inverse curvature, $(I + B^{-\top} h B^{-1})^{-1}$."""
    diag, upper = _factor(chains, slope)
    by_path = (diag * slope).at[1:].add(upper * slope[:-1])
    return bidiagonal.matvec(diag, upper, _solve(_posterior_factor(chains, curvature), by_path))


@jax.jit
def smoothed(
    chains: PriorChains, curvature: Float[Array, " R d"], weighted: Float[Array, " R d"]
) -> Float[Array, " R d"]:
    r"""Posterior means given Gaussian data y of precision h: $(\Pi + \mathrm{diag}(h))^{-1} h y$.

    Args:
        chains: The prior.
        curvature: h.
        weighted: h y.
    """
    return _solve(_posterior_factor(chains, curvature), weighted)


@jax.jit
def log_evidence(
    chains: PriorChains, curvature: Float[Array, " R d"], weighted: Float[Array, " R d"]
) -> Float[Array, " R"]:
    r"""Log evidence of such data, up to what does not depend on the prior; sum the rows of a chain.

    $-\frac12 \log\det(I + \Pi^{-1} h) + \frac12 (hy)^\top (\Pi + h)^{-1} hy$.
    """
    factor = _posterior_factor(chains, curvature)
    explained = bidiagonal.solve_transposed(*factor, weighted)
    return 0.5 * jnp.sum(explained**2, 1) - jnp.sum(jnp.log(factor[0] / chains.diag), 1)


@jax.jit
def spread(chains: PriorChains, curvature: Float[Array, " R d"]) -> Spread:
    r"""The optimal chains for a likelihood with this curvature: precision $\Pi + \mathrm{diag}(h)$.

    Given the next row, the precision p of a row is that of the prior, $\nu^2$, and a gain g. So the trace of
    $\Pi$ times the covariance has the term $\nu^2 / p + (\omega g / p)^2 \Sigma$, with the variance
    $\Sigma$ of the next row, and twice the divergence has $\log(p / \nu^2) - g / p$ and that last part.
    """
    prior = chains.diag * chains.diag
    gains = tridiagonal.pivot_gains(chains.diag, chains.upper, curvature)
    diag = jnp.sqrt(prior + gains)
    variances, lag_covariances = tridiagonal.band_of_inverse(
        diag, chains.diag[:-1] * chains.upper / diag[:-1]
    )
    share = gains / (prior + gains)
    carried = (chains.upper * share[:-1]) ** 2 * variances[1:]
    # Sums over tens of millions of numbers: of differences, so that nothing large cancels.
    twice = jnp.sum(jnp.log1p(gains / prior) - share + jnp.pad(carried, ((0, 1), (0, 0))))
    return Spread(variances, lag_covariances, 0.5 * twice)


def _posterior_factor(chains: PriorChains, curvature: Array) -> tuple[Array, Array]:
    """Upper bidiagonal factor of the precision with the curvature added."""
    gains = tridiagonal.pivot_gains(chains.diag, chains.upper, curvature)
    diag = jnp.sqrt(chains.diag * chains.diag + gains)
    return diag, chains.diag[:-1] * chains.upper / diag[:-1]


def _solve(factor: tuple[Array, Array], vector: Array) -> Array:
    diag, upper = factor
    return bidiagonal.solve(diag, upper, bidiagonal.solve_transposed(diag, upper, vector))


def _factor(chains: PriorChains, like: Array) -> tuple[Array, Array]:
    return jnp.broadcast_to(chains.diag, like.shape), jnp.broadcast_to(chains.upper, like[1:].shape)
