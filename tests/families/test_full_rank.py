"""What the dense family offers beyond the contract: its covariance, and the band families inside it."""

import jax.numpy as jnp
import numpy as np
import pytest

from driftline.families import BlockGaussMarkov, FullRank
from support import oracles


def draw(num_steps):
    rng = np.random.default_rng(num_steps)
    diag, upper = oracles.random_block_factor(rng, num_steps, 2)
    mean = jnp.asarray(rng.standard_normal((num_steps, 2)))
    return BlockGaussMarkov(mean, jnp.asarray(diag), jnp.asarray(upper)), oracles.block_bidiagonal(
        diag, upper
    )


@pytest.mark.parametrize("num_steps", [1, 2, 6])
def test_the_covariance_is_the_inverse_of_the_precision(num_steps):
    blocks, factor = draw(num_steps)
    q = FullRank(blocks.mean, jnp.asarray(factor))
    expected = np.linalg.inv(factor.T @ factor)
    oracles.assert_close(q.covariance(), expected, rtol=oracles.tolerance(factor))
    linear, precision = q.natural()
    oracles.assert_close(precision, factor.T @ factor, rtol=oracles.tolerance(factor))
    expected_linear = factor.T @ factor @ np.asarray(q.mean).ravel()
    oracles.assert_close(linear, expected_linear.reshape(-1, 2), rtol=oracles.tolerance(factor))


@pytest.mark.parametrize("num_steps", [1, 2, 6])
def test_a_banded_factor_gives_the_same_gaussian_as_the_band_family(num_steps):
    blocks, factor = draw(num_steps)
    q = FullRank(blocks.mean, jnp.asarray(factor))
    path = 2.0 * q.mean + 1.0
    rtol, noise = oracles.tolerance(factor), np.asarray(q.whiten(path - q.mean))
    terms = np.sum(noise**2) + np.abs(np.log(np.diagonal(factor))).sum() + noise.size
    oracles.assert_close(q.log_prob(path), blocks.log_prob(path), rtol=rtol, scale=terms)
    oracles.assert_close(q.variances(), blocks.variances(), rtol=rtol)
    variances = np.asarray(q.variances()).max()
    oracles.assert_close(q.lag_covariances(), blocks.lag_covariances(), rtol=rtol, scale=variances)
