"""Standard normal numbers for steps that are many and noisy: single precision, at half the price."""

import functools
import math

import jax.numpy as jnp
import jax.random as jr
from jax import lax
from jaxtyping import Array, Float, Key

# ndtri((1 + x) / 2) / x by powers of 1 + log(1 - x²) / HALF_RANGE, highest first, for all x that 23 bits can
# give: the polynomial of least relative error, 2.3e-6, found by Lawson's iteration; the tests prove it least.
COEFFICIENTS = (
    -0.0225934479, -0.0322613839, 0.0386255324, 0.095901108, 0.065580804, 0.0191065037,
    -0.0384366748, -0.160744556, -0.440186901, -1.9473386, 3.67565882,
)  # fmt: skip
HALF_RANGE = 7.65
# Of Threefry-2x32: by how many bits each round turns a word, four rounds at a time; the key's third word.
ROTATIONS, PARITY = ((13, 15, 26, 6), (17, 29, 16, 24)), 0x1BD11BDA


def standard_normal(key: Key[Array, ""], shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
    """Noise that is far finer than an average over draws can tell from one of full precision.

    `jax.random` runs the same cipher as a loop of rounds, and for 10,000 numbers starting a round takes
    longer than the round. Here all rounds are one pass.
    """
    words = jr.key_data(key)
    if words.size != 2:  # of another generator
        words = jr.bits(key, (2,), jnp.uint32)
    size = math.prod(shape)
    counter = jnp.arange((size + 1) // 2, dtype=jnp.uint32)
    bits = jnp.concatenate(_threefry(words, counter, jnp.zeros_like(counter)))[:size]
    return _quantile(_symmetric_uniform(bits)).astype(dtype).reshape(shape)


def _threefry(key, first, second):
    """Threefry-2x32 of Salmon et al. (2011), twenty rounds: two words that look random for each pair."""
    schedule = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(PARITY)
    first, second = first + schedule[0], second + schedule[1]
    for group in range(1, 6):
        for rotation in ROTATIONS[(group - 1) % 2]:
            first = first + second
            second = first ^ (second << rotation | second >> (32 - rotation))
        first = first + schedule[group % 3]
        second = second + schedule[(group + 1) % 3] + jnp.uint32(group)
    return first, second


def _symmetric_uniform(bits):
    """Numbers between -1 and 1, both excluded."""
    # The top 23 bits fill the mantissa of a number from 1 to 2; half a unit keeps the ends out of reach.
    mantissa = lax.bitcast_convert_type(bits >> 9 | jnp.uint32(0x3F800000), jnp.float32)
    return 2.0 * (mantissa - 1.0) - jnp.float32(1.0 - 2.0**-23)


def _quantile(uniform):
    """The normal quantile of (1 + x) / 2: a logarithm and a polynomial, without a branch for the tails."""
    place = 1.0 + jnp.log((1.0 - uniform) * (1.0 + uniform)) / HALF_RANGE
    return uniform * functools.reduce(lambda total, coefficient: total * place + coefficient, COEFFICIENTS)
