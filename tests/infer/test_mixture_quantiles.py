"""Quantiles of mixtures against root finding on their distribution functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from driftline.infer import mixture_quantiles
from driftline.infer.mixture_quantiles import SCORES
from driftline.results.intervals import central


def exact_quantile(means, sds, weights, probability):
    """Of one mixture of normals, by root finding in double precision."""
    reach = 50 * np.max(sds) + np.abs(means).max()
    return optimize.brentq(
        lambda z: weights @ stats.norm.cdf((z - means) / sds) - probability, -reach, reach, xtol=1e-12
    )


def mixtures(num_members, num_steps, mean_spread, log_sd_spread, seed):
    """Mixtures of normals, one for each step, with a mean and a standard deviation for every member."""
    rng = np.random.default_rng(seed)
    means = 3.0 + 0.2 * mean_spread * rng.exponential(size=(num_members, num_steps))
    sds = 0.2 * np.exp(log_sd_spread * rng.normal(size=(num_members, num_steps)))
    weights = rng.dirichlet(np.ones(num_members))
    mean = weights @ means
    return means, sds, weights, mean, np.sqrt(weights @ (sds**2 + (means - mean) ** 2))


def table(means, sds, weights, mean, sd):
    return np.asarray(mixture_quantiles.mixture_quantiles(*map(jnp.asarray, (means, sds, weights, mean, sd))))


@pytest.mark.parametrize(
    ("mean_spread", "log_sd_spread", "atol"),
    [(0.0, 0.0, 1e-5), (0.3, 0.2, 0.005), (0.0, 0.5, 0.02), (0.7, 0.4, 0.02)],
    ids=["normal", "typical", "wide and narrow", "skewed"],
)
@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.99])
def test_intervals_end_at_the_quantiles_of_the_mixture(mean_spread, log_sd_spread, atol, probability):
    # Tolerances in standard deviations: interpolation is linear, on the grid and between scores.
    mixture = mixtures(200, 5, mean_spread, log_sd_spread, seed=1)
    means, sds, weights, mean, sd = mixture
    found = np.array(central(mean, sd, probability, table(*mixture)))
    tail = 0.5 * (1 - probability)
    exact = np.array(
        [[exact_quantile(m, s, weights, p) for m, s in zip(means.T, sds.T, strict=True)]
         for p in (tail, 1 - tail)]
    )  # fmt: skip
    np.testing.assert_allclose(found / sd, exact / sd, atol=atol * (2 if probability > 0.95 else 1))


def test_a_grid_around_another_member_finds_the_same_quantiles():
    means, sds, weights, mean, sd = mixtures(100, 4, 0.3, 0.3, seed=2)
    middle, unit = mean + sd, jnp.asarray(0.5 * sd)
    total = sum(
        jnp.float32(weight) * mixture_quantiles.tails(jnp.asarray(m - middle), jnp.asarray(s), unit)
        for m, s, weight in zip(means, sds, weights, strict=True)
    )
    elsewhere = mixture_quantiles.quantiles(total, unit, jnp.asarray(mean - middle), jnp.asarray(sd))
    inner = np.abs(SCORES) < 3
    np.testing.assert_allclose(
        np.asarray(elsewhere)[inner], table(means, sds, weights, mean, sd)[inner], atol=0.02
    )


def test_quantiles_rise_and_far_ones_are_extrapolated():
    mixture = mixtures(50, 3, 1.5, 0.7, seed=3)
    found = table(*mixture)
    assert found.dtype == np.float32
    assert np.all(np.diff(found, axis=0) > 0)
    widths = [np.diff(central(*mixture[3:], p, found), axis=0) for p in (0.99999, 0.999999, 0.9999999)]
    assert np.all(np.diff(widths, axis=0) > 0)


def test_members_are_added_up_without_an_array_of_all_their_tails():
    members, mixture = jnp.ones((61, 97)), jnp.ones(97)
    weights = jnp.full(61, 1 / 61)
    jaxpr = str(
        jax.make_jaxpr(mixture_quantiles.mixture_quantiles)(members, members, weights, mixture, mixture)
    )
    assert "49,97" in jaxpr
    assert "61,49" not in jaxpr
    assert "49,61" not in jaxpr
