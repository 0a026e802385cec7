"""The density of an observation when its path is uncertain, to many digits for every likelihood."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

FARTHEST = 7.0  # the highest point is sought within sinh of this, 550 standard deviations
NUM_SOUGHT, NUM_HALVINGS = 141, 60
NUM_NODES = 401
REACH = 10.0  # standard deviations of the path to which an integral goes, on both sides of its mean
AT_ONCE = 1 << 22  # numbers that are worked on at the same time
GOLDEN = (5**0.5 - 1) / 2


def log_marginal(
    log_likelihood: Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]],
    mean: Float[Array, "*shape"],
    sd: Float[Array, "*shape"],
) -> Float[Array, "*shape"]:
    r"""Logarithm of $\int p(x \mid z) N(z; m, s^2) dz$, element by element.

    A rule with fixed nodes goes wrong where the likelihood is much narrower than the path, or far out. So
    the highest point of the integrand is found first, then its width there, and the trapezoidal rule is
    applied in $z = z^* + w \sinh u$: dense where the integrand is narrow, and reaching far enough.

    Args:
        log_likelihood: Of every element of a path.
        mean: Mean of the path.
        sd: Its standard deviation.
    """

    def log_integrand(path):
        value = log_likelihood(path) - 0.5 * ((path - mean) / sd) ** 2
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    top = _highest(log_integrand, mean, sd)
    width = _width(log_integrand, top, sd)
    ends = jnp.arcsinh((jnp.abs(top - mean) + REACH * sd) / width)

    def node(share):
        u = share * ends
        return log_integrand(top + width * jnp.sinh(u)) + jnp.log(jnp.cosh(u))

    shares = jnp.linspace(-1.0, 1.0, NUM_NODES, dtype=mean.dtype)
    heights = jax.lax.map(node, shares, batch_size=_num_at_once(mean))
    spacing = 2.0 * ends / (NUM_NODES - 1)
    scale = jnp.log(width * spacing / sd) - 0.5 * jnp.log(2 * jnp.pi)
    return jax.nn.logsumexp(heights, axis=0) + scale


def _num_at_once(like):
    return max(1, min(NUM_NODES, AT_ONCE // max(1, like.size)))


def _highest(function, mean, sd):
    """Where a function is highest: the best of a grid that widens outwards, then a golden section."""
    grid = jnp.linspace(-FARTHEST, FARTHEST, NUM_SOUGHT, dtype=mean.dtype)

    def at(u):
        return function(mean + sd * jnp.sinh(u))

    heights = jax.lax.map(lambda u: at(jnp.full_like(mean, u)), grid, batch_size=_num_at_once(mean))
    best = grid[jnp.argmax(heights, axis=0)]
    half = grid[1] - grid[0]

    def shrink(_, ends):
        left, right = ends
        inner = right - GOLDEN * (right - left), left + GOLDEN * (right - left)
        to_the_left = at(inner[0]) > at(inner[1])
        return jnp.where(to_the_left, left, inner[0]), jnp.where(to_the_left, inner[1], right)

    left, right = jax.lax.fori_loop(0, NUM_HALVINGS, shrink, (best - half, best + half))
    return mean + sd * jnp.sinh(0.5 * (left + right))


def _width(function, top, sd):
    """Standard deviation of the normal distribution with the curvature at the top, but not above `sd`."""
    slope = jax.grad(lambda path: jnp.sum(function(path)))
    curvature = -jax.jvp(slope, (top,), (jnp.ones_like(top),))[1]
    steep = curvature * sd**2 > 1.0  # False for NaN
    return jnp.where(steep, 1.0 / jnp.sqrt(jnp.where(steep, curvature, 1.0)), sd)
