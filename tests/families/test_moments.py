"""Moments of chains and of blocks, each against the dense covariance that they are the band of."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.families import BlockGaussMarkov, FullRank, GaussMarkov, MeanField
from support import oracles

lengths = pytest.mark.parametrize("num_steps", [1, 2, 6])
SHAPE = (2, 2)
DIM = math.prod(SHAPE)


def draw(family, num_steps):
    rng = np.random.default_rng(num_steps)
    if family is BlockGaussMarkov:
        factor = oracles.random_block_factor(rng, num_steps, DIM)
    else:
        factor = oracles.random_factor(rng, num_steps, SHAPE)
    mean = rng.standard_normal((num_steps, *SHAPE))
    return family(*map(jnp.asarray, (mean, *factor)))


def dense_covariance(q):
    """By (step, element, step, element)."""
    leaves = jax.tree.map(np.asarray, q)
    whole = oracles.block_bidiagonal if isinstance(q, BlockGaussMarkov) else oracles.parallel_bidiagonal
    factor = whole(leaves.diag, leaves.upper, np)
    return np.linalg.inv(factor.T @ factor).reshape(len(q.mean), DIM, len(q.mean), DIM)


def rows(function, num_axes):
    """What a linear function makes of every unit vector: deviations, with the axis of the point last."""
    columns = [function(unit) for unit in jnp.eye(num_axes)]
    return jax.tree.map(lambda *each: np.stack([np.asarray(one) for one in each], axis=-1), *columns)


@pytest.mark.parametrize("family", [GaussMarkov, BlockGaussMarkov])
@lengths
def test_deviations_of_steps_have_the_covariance_of_each_step(family, num_steps):
    q = draw(family, num_steps)
    covariance, moments = dense_covariance(q), q.moments()
    made = rows(moments.of_steps(), DIM).reshape(num_steps, DIM, DIM)
    for step in range(num_steps):
        oracles.assert_close(made[step] @ made[step].T, covariance[step, :, step], rtol=1e-9)
        variances = np.diag(covariance[step, :, step]).reshape(SHAPE)
        oracles.assert_close(moments.standard_deviations()[step], np.sqrt(variances), rtol=1e-9)


@pytest.mark.parametrize("family", [GaussMarkov, BlockGaussMarkov])
@pytest.mark.parametrize("num_steps", [2, 6])
def test_deviations_of_pairs_have_the_joint_covariance_of_neighbours(family, num_steps):
    q = draw(family, num_steps)
    covariance = dense_covariance(q)
    first, pairs = q.moments().of_first_and_pairs()
    made = rows(first, DIM).reshape(DIM, DIM)
    oracles.assert_close(made @ made.T, covariance[0, :, 0], rtol=1e-9)
    before, after = (part.reshape(num_steps - 1, DIM, 2 * DIM) for part in rows(pairs, 2 * DIM))
    for step in range(num_steps - 1):
        both = np.concatenate([before[step], after[step]])
        steps = covariance[step : step + 2, :, step : step + 2].reshape(2 * DIM, 2 * DIM)
        oracles.assert_close(both @ both.T, steps, rtol=1e-8)


@pytest.mark.parametrize("family", [GaussMarkov, BlockGaussMarkov])
@lengths
def test_second_moments_are_covariances_plus_products_of_means(family, num_steps):
    q = draw(family, num_steps)
    flat = np.asarray(q.mean).reshape(-1)
    around_zero = q.moments().around_zero()
    expected = dense_covariance(q) + np.outer(flat, flat).reshape(num_steps, DIM, num_steps, DIM)
    variances = np.einsum("tdtd->td", expected).reshape(q.mean.shape)
    oracles.assert_close(around_zero.variances(), variances, rtol=1e-9)
    lags = np.array([np.diag(expected[t, :, t + 1]) for t in range(num_steps - 1)]).reshape(-1, *SHAPE)
    oracles.assert_close(around_zero.lag_covariances(), lags, rtol=1e-9, scale=variances.max())
    again = family.from_moments(around_zero.around_mean())
    diag = jnp.triu(q.diag) if family is BlockGaussMarkov else q.diag
    for found, leaf in ((again.mean, q.mean), (again.diag, diag), (again.upper, q.upper)):
        oracles.assert_close(found, leaf, rtol=1e-7)


@pytest.mark.parametrize("family", [GaussMarkov, BlockGaussMarkov])
def test_the_noise_of_single_steps_is_that_of_the_path(family):
    q = draw(family, 6)
    deviation = jnp.asarray(np.random.default_rng(1).standard_normal(q.mean.shape))
    noise = q.whiten(deviation)
    for step in range(5):
        entries = q.diag[step], q.upper[step]
        found = q.noise_of_step(*entries, deviation[step], deviation[step + 1])
        oracles.assert_close(found, noise[step], rtol=1e-12, scale=np.abs(noise).max())
        back = q.deviation_of_step(*entries, found, deviation[step + 1])
        oracles.assert_close(back, deviation[step], rtol=1e-9, scale=np.abs(deviation).max())


def test_independent_steps_are_chains_and_a_dense_precision_is_none():
    chains = draw(GaussMarkov, 6)
    independent = MeanField(chains.mean, chains.diag)
    np.testing.assert_array_equal(independent.banded().variances(), independent.variances())
    np.testing.assert_array_equal(independent.banded().lag_covariances(), independent.lag_covariances())
    assert chains.banded() is chains
    with pytest.raises(TypeError, match="has no band"):
        FullRank(chains.mean, jnp.eye(chains.mean.size)).banded()
