"""Draws carried from a normal to a posterior, against integrals on a dense grid."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.infer.sampling import tempering

GROUPS, PARTICLES, SEEDS = 8, 64, 6


def skewed(x):
    """Log weight beside a standard normal: skewed in one coordinate, coupled, and short-tailed in another."""
    return 1.0 + 0.8 * x[0] - 0.5 * jnp.exp(x[0]) - 0.3 * x[1] * x[2] - 0.2 * (x[2] - 1.0) ** 4


def flat(x):
    return jnp.full((), 2.5) + 0.0 * x[0]


@functools.cache
def on_a_grid():
    """Log integral of the weighted normal, its means, and its second moments, on a dense grid in NumPy."""
    side = np.linspace(-7.0, 7.0, 121)
    x = np.stack(np.meshgrid(side, side, side, indexing="ij"))
    log_weight = 1.0 + 0.8 * x[0] - 0.5 * np.exp(x[0]) - 0.3 * x[1] * x[2] - 0.2 * (x[2] - 1.0) ** 4
    log_density = log_weight - 0.5 * (x**2).sum(axis=0) - 1.5 * np.log(2 * np.pi)
    density = np.exp(log_density)
    total = density.sum() * (side[1] - side[0]) ** 3
    points, shares = x.reshape(3, -1), (density / density.sum()).ravel()
    mean = points @ shares
    return np.log(total), mean, (points * shares) @ points.T


@functools.cache
def runs():
    like = jnp.zeros(3)
    return [
        jax.tree.map(
            np.asarray,
            tempering.temper(skewed, like, jax.random.key(seed), groups=GROUPS, particles=PARTICLES),
        )
        for seed in range(SEEDS)
    ]


def test_the_evidence_is_that_of_a_dense_grid_within_the_error_of_its_groups():
    log_evidence, _, _ = on_a_grid()
    # Evidence itself, not its logarithm, is without bias in every group, and groups are independent.
    estimates = np.exp(np.stack([run.log_evidence for run in runs()]) - log_evidence)
    assert all(run.reached for run in runs())
    for own in estimates:
        # Student's t with seven degrees of freedom is beyond 6.5 in one of 3,000 cases.
        assert abs(own.mean() - 1) < 6.5 * own.std(ddof=1) / np.sqrt(GROUPS)
    error = estimates.std(ddof=1) / np.sqrt(estimates.size)
    assert abs(estimates.mean() - 1) < 4 * error
    assert error < 0.03  # or the lines before would say little


def test_particles_have_the_moments_of_the_posterior():
    _, mean, seconds = on_a_grid()
    groups = np.concatenate([run.positions for run in runs()])  # (48, 64, 3), groups are independent
    means = groups.mean(axis=1)
    assert np.abs((means.mean(axis=0) - mean) / (means.std(axis=0, ddof=1) / np.sqrt(len(means)))).max() < 4
    products = np.einsum("gpi,gpj->gij", groups, groups) / PARTICLES
    errors = products.std(axis=0, ddof=1) / np.sqrt(len(products))
    assert np.abs((products.mean(axis=0) - seconds) / errors).max() < 4


def test_particles_are_nearer_to_the_posterior_than_draws_of_the_fit():
    # The fit is a standard normal, whose mean and spread are known to be off.
    _, mean, seconds = on_a_grid()
    sd = np.sqrt(np.diag(seconds) - mean**2)
    for run in runs():
        draws = run.positions.reshape(-1, 3)
        assert np.linalg.norm((draws.mean(axis=0) - mean) / sd) < 0.5 * np.linalg.norm(mean / sd)
        assert np.linalg.norm(np.log(draws.std(axis=0) / sd)) < 0.5 * np.linalg.norm(np.log(sd))


def test_a_fit_that_is_the_posterior_stays_as_it_is():
    run = tempering.temper(flat, jnp.zeros(3), jax.random.key(0), groups=4, particles=32)
    np.testing.assert_allclose(run.log_evidence, 2.5, rtol=1e-12)
    assert int(run.temperatures) <= 1
    assert float(run.acceptance) == pytest.approx(1.0)
    # 384 draws of a standard normal: four standard errors.
    assert abs(float(jnp.mean(run.positions))) < 4 / np.sqrt(384)
    assert abs(float(jnp.std(run.positions)) - 1) < 4 / np.sqrt(2 * 384)


def test_places_without_density_are_left():
    def cut(x):
        return jnp.where(x[0] > 0.5, 0.0, -jnp.inf) + 0.0 * x[1]

    run = tempering.temper(cut, jnp.zeros(2), jax.random.key(1), groups=8, particles=64)
    assert float(run.positions[..., 0].min()) > 0.5
    from scipy import stats

    estimates = np.exp(np.asarray(run.log_evidence))
    share = stats.norm.sf(0.5)
    assert abs(estimates.mean() - share) < 4 * np.sqrt(share * (1 - share) / 512)


def test_the_same_key_gives_the_same_particles():
    again = tempering.temper(skewed, jnp.zeros(3), jax.random.key(0), groups=GROUPS, particles=PARTICLES)
    np.testing.assert_array_equal(again.positions, runs()[0].positions)


def test_resampling_takes_every_particle_as_often_as_its_share_says():
    shares = np.random.default_rng(0).dirichlet(np.full(50, 0.3), size=3)
    chosen, after = tempering._resampled(jax.random.key(0), jnp.log(jnp.asarray(shares)), jnp.asarray(True))
    for row, own in zip(np.asarray(chosen), shares, strict=True):
        assert np.abs(np.bincount(row, minlength=50) - 50 * own).max() < 1 + 1e-9
    np.testing.assert_allclose(after, -np.log(50))
