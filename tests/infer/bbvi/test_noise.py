"""Noise of single precision: against SciPy's quantiles, and by tests of its distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import special, stats

from driftline.infer.bbvi import noise


def test_the_quantile_is_that_of_scipy_for_every_kind_of_bits():
    # A prime step through all 2²³ values of the mantissa, and both ends of the range.
    top = np.concatenate([np.arange(0, 2**23, 97), [1, 2**22 - 1, 2**22, 2**23 - 2, 2**23 - 1]])
    uniform = noise._symmetric_uniform(jnp.asarray(top << 9, jnp.uint32))
    exact = np.asarray(uniform, np.float64)
    assert np.abs(exact).max() < 1.0
    truth = -np.sign(exact) * special.ndtri((1.0 - np.abs(exact)) / 2.0)
    # The error of the polynomial, and ten roundings.
    np.testing.assert_allclose(noise._quantile(uniform), truth, rtol=2.35e-6 + 10 * 2.0**-24)


def test_no_polynomial_of_that_degree_comes_nearer():
    # Chebyshev's alternation: an error with as many equal peaks of changing sign as there are coefficients,
    # and one more, is the least there is.
    place = np.cos(np.linspace(0.0, np.pi, 20_001))[1:]
    logarithm = noise.HALF_RANGE * (place - 1.0)
    uniform = np.sqrt(-np.expm1(logarithm))
    truth = -special.ndtri(np.exp(logarithm) / (1.0 + uniform) / 2.0)
    error = np.polyval(noise.COEFFICIENTS, place) * uniform / truth - 1.0
    peaks = [np.abs(run).max() for run in np.split(error, np.flatnonzero(np.diff(np.sign(error))) + 1)]
    assert len(peaks) == len(noise.COEFFICIENTS) + 1
    np.testing.assert_allclose(peaks, 2.34e-6, rtol=0.01)


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_bits_are_those_that_the_authors_of_threefry_publish(key, counter, expected):
    found = noise._threefry(np.array(key, np.uint32), *(jnp.asarray([word], jnp.uint32) for word in counter))
    assert tuple(int(word[0]) for word in found) == expected


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_bits_are_those_of_jax_for_the_same_counter(size):
    key = jax.random.key(11)
    counter = np.concatenate([np.arange((size + 1) // 2), np.zeros((size + 1) // 2)]).astype(np.uint32)
    bits = threefry_2x32(jax.random.key_data(key), jnp.asarray(counter))[:size]
    expected = noise._quantile(noise._symmetric_uniform(bits))
    np.testing.assert_allclose(noise.standard_normal(key, (size,), jnp.float32), expected, rtol=1e-5)


def test_low_bits_do_not_matter_and_zero_is_not_drawn():
    bits = jnp.asarray([0, 511, 2**31, 2**31 + 511], jnp.uint32)
    uniform = np.asarray(noise._symmetric_uniform(bits))
    assert uniform[0] == uniform[1]
    assert uniform[2] == uniform[3]
    assert np.all(uniform != 0.0)


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 2, 3), (101, 2, 3), (100_001, 2, 3)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_noise_is_standard_normal_and_every_draw_differs(shape, dtype):
    drawn = np.asarray(noise.standard_normal(jax.random.key(7), shape, dtype))
    assert drawn.shape == shape
    assert drawn.dtype == dtype
    assert len(np.unique(drawn)) > 0.9 * drawn.size
    # False alarm rate 1e-4 each: Kolmogorov-Smirnov; no correlation between neighbours, or between halves.
    flat = drawn.ravel().astype(np.float64)
    assert stats.kstest(flat, "norm").pvalue > 1e-4
    if flat.size > 100:
        half = flat.size // 2
        for first, second in ((flat[:-1], flat[1:]), (flat[:half], flat[-half:])):
            assert stats.pearsonr(first, second).pvalue > 1e-4


def test_other_keys_give_other_noise_that_is_not_correlated():
    keys = [jax.random.fold_in(jax.random.key(3), i) for i in range(20)]
    drawn = np.stack([noise.standard_normal(key, (5000,), jnp.float32) for key in keys])
    np.testing.assert_array_equal(drawn[0], noise.standard_normal(keys[0], (5000,), jnp.float32))
    correlations = np.corrcoef(drawn)[np.triu_indices(len(keys), 1)]
    # 190 pairs, so that the smallest of their p-values is below this once in 10,000 times.
    assert stats.norm.sf(np.abs(correlations).max() * np.sqrt(5000)) * 2 > 1e-4 / 190
    means = drawn.mean(1) * np.sqrt(5000)
    assert stats.kstest(means, "norm").pvalue > 1e-4


def test_a_key_of_another_generator_is_taken_too():
    drawn = noise.standard_normal(jax.random.key(0, impl="rbg"), (20_000,), jnp.float32)
    assert stats.kstest(np.asarray(drawn, np.float64), "norm").pvalue > 1e-4
