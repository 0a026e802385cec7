"""Chains over the knots against dense Gaussians over all steps."""

import jax.numpy as jnp
import numpy as np
import pytest

from driftline.words.atlas import drift
from driftline.words.atlas.knots import Knots
from driftline.words.embedding import chains

TIMES = np.array([0.0, 1.0, 1.1, 4.0, 4.5, 9.0])
PRIORS = {"diffusion": drift.diffusion, "stationary": drift.stationary}


def dense_covariance(name, rate=0.3, scale=0.8):
    """Covariance of the whole path, from the definition of the prior."""
    size = len(TIMES)
    gained = rate * np.diff(TIMES)
    if name == "diffusion":
        precision = np.eye(size) / scale**2
        for t, gain in enumerate(gained):
            precision[t, t] += 1 / gain
            precision[t + 1, t + 1] += 1 / gain
            precision[t, t + 1] -= 1 / gain
            precision[t + 1, t] -= 1 / gain
        return np.linalg.inv(precision)
    # z_1 = scale e_1 and z_{t+1} = a z_t + sqrt(a gain) e: the path is a matrix times noise.
    factor = np.zeros((size, size))
    factor[0, 0] = scale
    for t, gain in enumerate(gained):
        slope = scale**2 / (scale**2 + gain)
        factor[t + 1] = slope * factor[t]
        factor[t + 1, t + 1] = np.sqrt(slope * gain)
    return factor @ factor.T


@pytest.mark.parametrize("name", PRIORS)
def test_priors_have_the_covariance_of_their_definition(name):
    covariance = dense_covariance(name)
    prior = PRIORS[name](TIMES, 0.3, 0.8)
    first, second = np.triu_indices(len(TIMES))
    np.testing.assert_allclose(prior.covariance(first, second), covariance[first, second], rtol=1e-12)
    ones = np.ones(len(TIMES))
    np.testing.assert_allclose(prior.constant(), ones @ np.linalg.solve(covariance, ones), rtol=1e-10)


@pytest.mark.parametrize("name", PRIORS)
def test_chains_with_gaps_have_the_marginals_of_the_whole_path(name):
    covariance = dense_covariance(name)
    prior = PRIORS[name](TIMES, 0.3, 0.8)
    knots = Knots(3, len(TIMES), np.array([0, 0, 0, 1, 2, 2]), np.array([0, 2, 5, 3, 1, 4]))
    made = chains.prior_chains(knots, prior, np.float64)
    curvature = np.random.default_rng(0).uniform(0.0, 3.0, (6, 2))
    found = chains.spread(made, jnp.asarray(curvature))
    divergence = 0.0
    for rows in ([0, 1, 2], [3], [4, 5]):
        steps = knots.step[rows]
        marginal = covariance[np.ix_(steps, steps)]
        for k in range(2):
            posterior = np.linalg.inv(np.linalg.inv(marginal) + np.diag(curvature[rows, k]))
            np.testing.assert_allclose(found.variances[np.array(rows), k], np.diag(posterior), rtol=1e-10)
            lags = np.asarray(found.lag_covariances)[rows[:-1], k]
            np.testing.assert_allclose(lags, np.diag(posterior, 1), rtol=1e-10)
            divergence += 0.5 * (
                np.trace(np.linalg.solve(marginal, posterior))
                - len(rows)
                + np.linalg.slogdet(marginal)[1]
                - np.linalg.slogdet(posterior)[1]
            )
    np.testing.assert_allclose(found.divergence, divergence, rtol=1e-10)
    path = jnp.asarray(np.random.default_rng(1).normal(size=(6, 2)))
    natural = chains.to_natural(made, path)
    np.testing.assert_allclose(chains.from_natural(made, natural), path, rtol=1e-10)
    square = 0.0
    for rows in ([0, 1, 2], [3], [4, 5]):
        here, marginal = path[np.array(rows)], covariance[np.ix_(knots.step[rows], knots.step[rows])]
        square += float(np.sum(here * np.linalg.solve(marginal, here)))
    np.testing.assert_allclose(jnp.sum(natural**2), square, rtol=1e-10)


@pytest.mark.parametrize("rate", [1e-3, 1e-5])
@pytest.mark.parametrize("name", PRIORS)
def test_daily_steps_keep_the_pull_towards_zero_in_single_precision(name, rate):
    size = 2000
    prior = PRIORS[name](np.arange(size) / 365.25, rate, 0.3)
    knots = Knots(1, size, np.zeros(size, int), np.arange(size))
    single, double = (chains.prior_chains(knots, prior, dtype) for dtype in (np.float32, np.float64))
    rng = np.random.default_rng(0)
    natural, slopes = rng.normal(size=(2, size, 2))
    for function, array in ((chains.from_natural, natural), (chains.natural_gradient, slopes)):
        expected = function(double, jnp.asarray(array))
        found = function(single, jnp.asarray(array, jnp.float32))
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    curvature = rng.uniform(0.0, 0.1, (size, 2)) * (np.arange(size) % 100 == 0)[:, None]
    expected = chains.spread(double, jnp.asarray(curvature))
    found = chains.spread(single, jnp.asarray(curvature, jnp.float32))
    assert found.variances.dtype == jnp.float32
    for part in chains.Spread._fields:
        np.testing.assert_allclose(getattr(found, part), getattr(expected, part), rtol=2e-3)


def test_a_drift_of_nothing_is_refused():
    prior = drift.stationary(np.arange(5) / 365.25, 1e-15, 0.3)
    with pytest.raises(ValueError, match="between steps 0 and 1 .* take a larger drift= or longer steps"):
        prior.factor(np.arange(5), np.ones(4, bool))


@pytest.mark.parametrize("name", ["diffusion", "stationary"])
def test_filter_is_the_kalman_filter_and_ends_where_the_smoother_does(name):
    """With Gaussian observations in place of counts, both are exact."""
    rng = np.random.default_rng(3)
    size = len(TIMES)
    observed, noise = rng.normal(size=size), rng.uniform(0.2, 2.0, size)
    mean, variance = np.zeros(1), np.full(1, 0.8**2)
    for t in range(size):
        if t:
            mean, variance = drift.carry(name, mean, variance, 0.3 * (TIMES[t] - TIMES[t - 1]), 0.8)
        precision = 1 / variance + 1 / noise[t]
        mean, variance = (mean / variance + observed[t] / noise[t]) / precision, 1 / precision
        # The exact posterior of step t given steps up to t, under the prior over these steps.
        so_far = slice(0, t + 1)
        prior = getattr(drift, name)(TIMES[so_far], 0.3, 0.8)
        first, second = np.meshgrid(np.arange(t + 1), np.arange(t + 1), indexing="ij")
        covariance = prior.covariance(np.minimum(first, second), np.maximum(first, second))
        exact = np.linalg.inv(np.linalg.inv(covariance) + np.diag(1 / noise[so_far]))
        np.testing.assert_allclose(variance, exact[t, t], rtol=1e-10)
        np.testing.assert_allclose(mean, (exact @ (observed / noise)[so_far])[t], rtol=1e-10)
    made = chains.prior_chains(Knots(1, size, np.zeros(size, int), np.arange(size)), prior, np.float64)
    smoothed = chains.spread(made, jnp.asarray(1 / noise)[:, None])
    np.testing.assert_allclose(smoothed.variances[-1, 0], variance[0], rtol=1e-10)
