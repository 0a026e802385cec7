r"""Marginals with the skew of their own observation, and the evidence that goes with them.

The best Gaussian q is the prior times one Gaussian factor $s_t$ for each likelihood $\ell_t$, with slope and
curvature of the expected log-likelihood,

$$\log s_t(z) = g_t (z - m_t) - \tfrac12 h_t (z - m_t)^2, \qquad
  g_t = \partial_m E_q[\log \ell_t], \quad h_t = -2\,\partial_v E_q[\log \ell_t].$$

Put the true likelihood back in the place of one factor, and the marginal of that step is
$q(z_t)\,\ell_t(z_t)/s_t(z_t)$: exact if all other likelihoods were Gaussian, and as skewed as its own makes
it.
The same ratios give the log evidence to first order (Opper and Winther 2005), a deterministic number,

$$\log p(x) \approx \text{ELBO} + \sum_t \log E_q[\ell_t / s_t] - E_q[\log \ell_t / s_t].$$
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractFamily
from driftline.infer.curvature import is_elementwise
from driftline.infer.mixture_quantiles import GRID, quantiles
from driftline.infer.quadrature import standard_normal
from driftline.models.model import Model
from driftline.models.observations import Observations

# Weights of the trapezoidal rule in u, for the grid sinh(u): its error falls faster than any power there.
SPACING = np.sqrt(1.0 + GRID**2) * (np.arcsinh(GRID[1]) - np.arcsinh(GRID[0]))


class Tilted(NamedTuple):
    """What one likelihood after the other says beyond its Gaussian factor.

    Attributes:
        gap: What every element adds to the log evidence beyond the ELBO, (T, *shape).
        tails: How much of every marginal lies beyond the points of a grid, as seen from its middle.
    """

    gap: Float[Array, " T *shape"]
    tails: Float[Array, " G T *shape"]


def is_tilted(model: Model) -> bool:
    """Whether marginals have a likelihood of their own that is not Gaussian."""
    return is_elementwise(model) and not model.likelihood.is_gaussian


def tilted(
    model: Model,
    observations: Observations,
    mean: Float[Array, " T *shape"],
    variance: Float[Array, " T *shape"],
    middle: Float[Array, " T *shape"],
    unit: Float[Array, " T *shape"],
) -> Tilted:
    """Put the likelihood of each element back in the place of its Gaussian factor.

    Args:
        model: The model, with fixed numbers.
        observations: The series.
        mean: Means of q.
        variance: Its variances.
        middle: Where the grid of `marginals` is laid, for the tails.
        unit: Its unit.
    """
    slope, curvature, expected = _factors(model, observations, mean, variance)
    sd = jnp.sqrt(variance)

    def beyond(path):
        """Log of the likelihood less that of the factor, element by element."""
        apart = path - mean
        found = model.log_likelihoods(path, observations) - slope * apart + 0.5 * curvature * apart**2
        return jnp.where(jnp.isnan(found), -jnp.inf, found)

    def at(node):
        path = middle + node * unit
        return beyond(path) - 0.5 * ((path - mean) / sd) ** 2

    heights = jax.lax.map(at, jnp.asarray(GRID, mean.dtype))
    weights = jnp.asarray(SPACING, mean.dtype).reshape(-1, *(1 for _ in mean.shape))
    total = jax.nn.logsumexp(heights, axis=0, b=weights)
    density = weights * jnp.exp(heights - total[None])
    log_mean = total + jnp.log(unit / sd) - 0.5 * jnp.log(2.0 * jnp.pi)
    # By the rule that the ELBO has it from, so that its error does not matter: it is added here.
    gap = log_mean - (expected + 0.5 * curvature * variance)
    return Tilted(gap, _tails(density))


def skewed_quantiles(model: Model, observations: Observations, q: AbstractFamily) -> np.ndarray | None:
    """Quantiles of every marginal at `mixture_quantiles.SCORES`, in standard deviations from the mean of `q`.

    None where marginals have no likelihood of their own, or a Gaussian one: they are normal then.
    """
    return np.asarray(marginal_quantiles(model, observations, q)) if is_tilted(model) else None


@eqx.filter_jit
def marginal_quantiles(
    model: Model, observations: Observations, q: AbstractFamily
) -> Float[Array, " S T *shape"]:
    """The same for a model that is tilted."""
    variance = q.variances()
    sd = jnp.sqrt(variance)
    tails = tilted(model, observations, q.mean, variance, q.mean, sd).tails
    return quantiles(tails, sd, jnp.zeros_like(q.mean), sd)


def _factors(
    model: Model,
    observations: Observations,
    mean: Float[Array, " T *shape"],
    variance: Float[Array, " T *shape"],
) -> tuple[Float[Array, " T *shape"], Float[Array, " T *shape"], Float[Array, " T *shape"]]:
    """Slope and curvature of the expected log-likelihoods, and these themselves."""

    def expected(mean, variance):
        closed = model.expected_log_likelihoods(mean, variance, observations)
        if closed is not None:
            return jnp.sum(closed), closed
        sd = jnp.sqrt(variance)
        terms = _expected(lambda path: model.log_likelihoods(path, observations), mean, sd)
        return jnp.sum(terms), terms

    (slope, half), terms = jax.grad(expected, argnums=(0, 1), has_aux=True)(mean, variance)
    return slope, -2.0 * half, terms


def _expected(
    function: Callable[[Array], Array], mean: Float[Array, " T *shape"], sd: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    points, weights = standard_normal(1)
    values = jax.lax.map(lambda point: function(mean + sd * point), jnp.asarray(points[:, 0], mean.dtype))
    return jnp.tensordot(jnp.asarray(weights, mean.dtype), values, axes=1)


def _tails(density: Float[Array, " G T *shape"]) -> Float[Array, " G T *shape"]:
    """Mass beyond each point of the grid: below it in its lower half, above it in its upper half.

    The mass that belongs to a point lies around it, half on each side.
    """
    below = jnp.cumsum(density, axis=0) - 0.5 * density
    above = jnp.cumsum(density[::-1], axis=0)[::-1] - 0.5 * density
    upper = jnp.asarray(GRID > 0).reshape(-1, *(1 for _ in density.shape[1:]))
    return jnp.where(upper, above, below).astype(jnp.float32)
