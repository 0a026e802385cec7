"""What the block family offers beyond the contract: whole blocks, and the chain family as a special case."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.families import BlockGaussMarkov, GaussMarkov
from support import oracles

DIM = 4
lengths = pytest.mark.parametrize("num_steps", [1, 2, 6])


def draw(num_steps, shape=(2, 2)):
    rng = np.random.default_rng(num_steps)
    mean = rng.standard_normal((num_steps, *shape))
    return BlockGaussMarkov(*map(jnp.asarray, (mean, *oracles.random_block_factor(rng, num_steps, DIM))))


def dense(q):
    return oracles.block_bidiagonal(np.asarray(q.diag), np.asarray(q.upper))


@lengths
def test_covariances_are_the_blocks_of_the_dense_covariance(num_steps):
    q = draw(num_steps)
    inverse = np.linalg.inv(dense(q))
    scale = np.abs(inverse @ inverse.T).max()
    for k, found in enumerate(jax.jit(BlockGaussMarkov.covariances)(q)):
        expected = oracles.block_band(inverse @ inverse.T, k, DIM)
        oracles.assert_close(found, expected, rtol=oracles.tolerance(dense(q)), scale=scale)


@lengths
def test_the_precision_is_the_band_of_the_dense_one(num_steps):
    q = draw(num_steps)
    matrix = dense(q).T @ dense(q)
    for k, found in enumerate(q.precision()):
        expected = oracles.block_band(matrix, k, DIM)
        oracles.assert_close(found, expected, rtol=oracles.tolerance(dense(q)))


@lengths
def test_a_precision_leads_to_the_member_that_has_it(num_steps):
    q = draw(num_steps)
    matrix = dense(q).T @ dense(q)
    bands = (jnp.asarray(oracles.block_band(matrix, k, DIM)) for k in (0, 1))
    again = jax.jit(BlockGaussMarkov.from_precision)(q.mean, *bands)
    np.testing.assert_array_equal(again.mean, q.mean)
    oracles.assert_close(dense(again), dense(q), rtol=oracles.tolerance(dense(q)))


@lengths
def test_the_linear_natural_parameter_is_the_precision_times_the_mean(num_steps):
    q = draw(num_steps)
    linear, *_ = q.natural()
    expected = dense(q).T @ dense(q) @ np.asarray(q.mean).ravel()
    oracles.assert_close(linear, expected.reshape(linear.shape), rtol=oracles.tolerance(dense(q)))


def test_a_precision_that_is_not_positive_definite_leads_to_nan():
    diag, off = jnp.stack([jnp.eye(2)] * 2), 2.0 * jnp.eye(2)[None]
    q = jax.jit(BlockGaussMarkov.from_precision)(jnp.zeros((2, 2)), diag, off)
    assert np.isnan(q.entropy())


def test_diagonal_blocks_are_parallel_chains():
    rng = np.random.default_rng(0)
    diag, upper = oracles.random_factor(rng, 6, (3,))
    mean = jnp.asarray(rng.standard_normal((6, 3)))
    chains = GaussMarkov(mean, jnp.asarray(diag), jnp.asarray(upper))
    blocks = (jnp.asarray(np.einsum("ti,ij->tij", band, np.eye(3))) for band in (diag, upper))
    coupled = BlockGaussMarkov(mean, *blocks)
    rtol = oracles.tolerance(oracles.bidiagonal(diag, upper))
    for method in ("variances", "lag_covariances", "entropy"):
        found, expected = (jax.jit(getattr(type(q), method))(q) for q in (coupled, chains))
        oracles.assert_close(found, expected, rtol=rtol, scale=float(np.abs(expected).max()) + 18.0)
