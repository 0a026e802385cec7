"""Logarithms of probabilities without the large terms that cancel in them.

A log-gamma function of a large number is a larger number, and differences of such numbers lose the digits
that matter: at a concentration of 1e16, all of them. Here every density is written around the place where
it is highest: Stirling's formula takes care of the height there, and what is left is small by itself
(Loader 2000 does the same for counts). Derivatives keep their digits for the same reason.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

LOG_2PI = math.log(2.0 * math.pi)
# B_{2k} / (2k (2k - 1)), the coefficients of Stirling's series; from 10 on the eighth is below rounding.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
LARGE = 10.0
NEAR = 0.25  # below it a difference is summed as a series
LARGEST_POWER = 80.0  # the exponential of it is a number in single precision


def stirling_rest(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""Binet's function $\ln\Gamma(x) - (x - \frac12)\ln x + x - \frac12\ln 2\pi$, for x > 0.

    What Stirling's formula leaves over: about 1 / (12 x), so that differences of it lose nothing.
    """
    large = x >= LARGE
    small = jnp.where(large, 1.0, x)
    direct = gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * LOG_2PI
    inverse = 1.0 / jnp.where(large, x, LARGE)
    return jnp.where(large, inverse * _polynomial(inverse * inverse, STIRLING), direct)


def log_student_t(ratio: Float[Array, "*shape"], df: Float[Array, "*#shape"]) -> Float[Array, "*shape"]:
    """Log density of Student's t with unit scale; that of a normal distribution as `df` grows."""
    half = 0.5 * df
    bend = half * _log1p_rest(1.0 / df)
    height = bend + stirling_rest(half + 0.5) - stirling_rest(half) - 0.5 * LOG_2PI
    return height - 0.5 * (1.0 + 1.0 / df) * _growth(ratio * ratio, df)


def log_poisson(count: Float[Array, "*shape"], log_rate: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Log probability of a count."""
    seen = count > 0
    some = jnp.where(seen, count, 1.0)
    apart = log_rate - jnp.log(some)
    height = -0.5 * (LOG_2PI + jnp.log(some)) - stirling_rest(some)
    return jnp.where(seen, height, 0.0) + count * apart - _excess(count, apart)


def log_negative_binomial(
    count: Float[Array, "*shape"], log_mean: Float[Array, "*shape"], size: Float[Array, "*#shape"]
) -> Float[Array, "*shape"]:
    """Log probability of a count with the given mean; that of `log_poisson` as `size` grows."""
    seen = count > 0
    some = jnp.where(seen, count, 1.0)
    height = (
        -0.5 * (LOG_2PI + jnp.log(some) + jnp.log1p(some / size))
        + stirling_rest(some + size)
        - stirling_rest(some)
        - stirling_rest(size)
    )
    return jnp.where(seen, height, 0.0) + _fall(count, size, log_mean - jnp.log(some))


def log_binomial(
    successes: Float[Array, "*shape"], failures: Float[Array, "*#shape"], log_odds: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """Log probability of so many successes and failures."""
    x, y = jnp.minimum(successes, failures), jnp.maximum(successes, failures)
    some = jnp.where(x > 0, x, 1.0)
    height = (
        -0.5 * (LOG_2PI + jnp.log(some) + jnp.log(y / (some + y)))
        + stirling_rest(some + y)
        - stirling_rest(some)
        - stirling_rest(y)
    )
    apart = jnp.where(successes > failures, -log_odds, log_odds) - jnp.log(some / y)
    return jnp.where(x > 0, height, 0.0) + _fall(x, y, apart)


def _fall(x, y, apart):
    r"""$x d - (x + y) \ln\frac{y + x e^d}{x + y}$: how far a density has fallen from its top at d = 0.

    Where x is zero there is no top, and $e^d$ takes the place of $x e^d$.
    """
    # The same with x and y exchanged and the sign of d turned; with the smaller in front, less is lost.
    flipped = x > y
    x, y = jnp.where(flipped, y, x), jnp.where(flipped, x, y)
    apart = jnp.where(flipped, -apart, apart)
    total, beyond = x + y, jnp.maximum(apart - LARGEST_POWER, 0.0)
    capped = jnp.minimum(apart, LARGEST_POWER)
    return x * apart - _growth(_excess(x, capped), total) - total * beyond


def _excess(x, apart):
    """$x (e^d - 1)$; where x is zero, $e^d$."""
    return jnp.where(x > 0, x * jnp.expm1(apart), jnp.exp(jnp.where(x > 0, 0.0, apart)))


def _growth(excess, total):
    r"""$n \ln(1 + m / n)$, which is nearly m where n is large."""
    share = excess / total
    near = jnp.abs(share) < NEAR
    inside = excess + total * _log1p_series(jnp.where(near, share, 0.0))
    return jnp.where(near, inside, total * jnp.log1p(jnp.where(near, 1.0, share)))


def _log1p_rest(x):
    r"""$\ln(1 + x) - x$, to all digits where both are nearly the same."""
    near = jnp.abs(x) < NEAR
    outside = jnp.where(near, 1.0, x)
    return jnp.where(near, _log1p_series(jnp.where(near, x, 0.0)), jnp.log1p(outside) - outside)


def _log1p_series(x):
    """The same for numbers below `NEAR`.

    With v = x / (2 + x) the logarithm is 2 artanh v, and 2 v - x = -(2 + x) v², so that nothing cancels.
    """
    v = x / (2.0 + x)
    return v * v * (2.0 * v * _polynomial(v * v, tuple(1 / (2 * k + 3) for k in range(10))) - (2.0 + x))


def _polynomial(x, coefficients):
    """Sum of powers, lowest first."""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in np.array(coefficients[-2::-1], x.dtype):
        total = total * x + coefficient
    return total
