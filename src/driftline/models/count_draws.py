"""Draws of counts at any rate."""

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key

# JAX accepts or rejects by a difference of large logarithms; from a rate of 1e6 on its variance is wrong.
LARGE = 1e5


def draw_counts(key: Key[Array, ""], rate: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Poisson counts.

    Above a rate of `LARGE` a normal draw is bent to the skew and kurtosis of a count (Cornish and Fisher
    1938) and rounded: its distribution function is right to about the rate's power of -3/2.
    """
    large = rate > LARGE
    small = jr.poisson(key, jnp.where(large, 1.0, rate)).astype(rate.dtype)
    # Folded in rather than split, so that the draws at lower rates are JAX's own.
    z = jr.normal(jr.fold_in(key, 1), rate.shape, rate.dtype)
    root = jnp.sqrt(jnp.where(large, rate, LARGE))
    bent = root * z + (z * z - 1.0) / 6.0 + (z - z * z * z) / (72.0 * root)
    return jnp.where(large, jnp.round(rate + bent), small)
