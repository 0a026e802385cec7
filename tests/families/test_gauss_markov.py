"""What the chain family offers beyond the contract: precisions, and chains that do not know each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.families import GaussMarkov, MeanField
from support import oracles

lengths = pytest.mark.parametrize("num_steps", [1, 2, 6])


def draw(num_steps, shape=(3,)):
    rng = np.random.default_rng(num_steps)
    mean = rng.standard_normal((num_steps, *shape))
    return GaussMarkov(*map(jnp.asarray, (mean, *oracles.random_factor(rng, num_steps, shape))))


def dense(q):
    return oracles.bidiagonal(np.asarray(q.diag), np.asarray(q.upper))


@lengths
def test_the_precision_is_the_band_of_the_dense_one(num_steps):
    q = draw(num_steps)
    matrix = dense(q).mT @ dense(q)
    for k, found in enumerate(q.precision()):
        oracles.assert_close(found, oracles.band(matrix, k), rtol=oracles.tolerance(dense(q)))


@lengths
def test_a_precision_leads_to_the_member_that_has_it(num_steps):
    q = draw(num_steps)
    matrix = dense(q).mT @ dense(q)
    bands = (jnp.asarray(oracles.band(matrix, k)) for k in (0, 1))
    again = jax.jit(GaussMarkov.from_precision)(q.mean, *bands)
    np.testing.assert_array_equal(again.mean, q.mean)
    oracles.assert_close(again.diag, q.diag, rtol=oracles.tolerance(dense(q)))
    oracles.assert_close(again.upper, q.upper, rtol=oracles.tolerance(dense(q)))


@lengths
def test_the_linear_natural_parameter_is_the_precision_times_the_mean(num_steps):
    q = draw(num_steps)
    linear, *_ = q.natural()
    expected = oracles.apply(dense(q).mT @ dense(q), np.asarray(q.mean))
    oracles.assert_close(linear, expected, rtol=oracles.tolerance(dense(q)))


def test_a_precision_that_is_not_positive_definite_leads_to_nan_in_that_chain_only():
    diag, off = jnp.ones((3, 2)), jnp.stack([jnp.full(2, 0.5), jnp.full(2, 2.0)], axis=1)
    q = jax.jit(GaussMarkov.from_precision)(jnp.zeros((3, 2)), diag, off)
    np.testing.assert_array_equal(np.isnan(q.diag).any(axis=0), [False, True])
    assert np.isnan(q.entropy())


def test_chains_are_independent_of_each_other():
    q = draw(6)
    noise = jnp.asarray(np.random.default_rng(0).standard_normal((6, 3)))
    chains = [jax.tree.map(lambda leaf, i=i: leaf[:, i], q) for i in range(3)]
    rtol = oracles.tolerance(dense(q))
    for i, chain in enumerate(chains):
        oracles.assert_close(q.unwhiten(noise)[:, i], chain.unwhiten(noise[:, i]), rtol=rtol)
        oracles.assert_close(q.variances()[:, i], chain.variances(), rtol=rtol)
    oracles.assert_close(q.entropy(), sum(float(chain.entropy()) for chain in chains), rtol=rtol, scale=18.0)


def test_a_chain_without_coupling_is_a_mean_field():
    q = draw(6)
    q = GaussMarkov(q.mean, q.diag, jnp.zeros_like(q.upper))
    independent = MeanField(q.mean, q.diag)
    path = 2.0 * q.mean
    rtol = oracles.tolerance(dense(q))
    oracles.assert_close(q.log_prob(path), independent.log_prob(path), rtol=rtol)
    oracles.assert_close(q.variances(), independent.variances(), rtol=rtol)
    np.testing.assert_array_equal(q.lag_covariances(), independent.lag_covariances())


def test_families_map_over_a_batch_of_members():
    members = [draw(6, ()), GaussMarkov(*(2.0 * leaf for leaf in jax.tree.leaves(draw(6, ()))))]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    found = jax.jit(jax.vmap(lambda q: (q.variances(), q.lag_covariances(), q.divergence(members[0]))))(batch)
    rtol = max(oracles.tolerance(dense(q)) for q in members)
    for i, q in enumerate(members):
        oracles.assert_close(found[0][i], q.variances(), rtol=rtol)
        oracles.assert_close(found[1][i], q.lag_covariances(), rtol=rtol)
        oracles.assert_close(found[2][i], q.divergence(members[0]), rtol=rtol, scale=6.0)
