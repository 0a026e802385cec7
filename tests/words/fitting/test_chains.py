"""Chains over the knots against dense Gaussians over all steps."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from driftline.words.fitting import chains
from driftline.words.paths import priors
from driftline.words.paths.knots import Knots

TIMES = np.array([0.0, 1.0, 1.1, 4.0, 4.5, 9.0])
PRIORS = ("diffusion", "stationary")


def law(name, times, rate, scale, num_words=1):
    """The prior at one pace, which all words have."""
    chain = getattr(priors, name)(times, rate, scale)
    return priors.Drift(*(part[None] for part in chain), np.zeros(num_words, np.int32))


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
    prior = law(name, TIMES, 0.3, 0.8)
    first, second = np.triu_indices(len(TIMES))
    np.testing.assert_allclose(prior.covariance(0, first, second), covariance[first, second], rtol=1e-12)
    np.testing.assert_allclose(
        prior.displacement_variance(4, 1),
        [covariance[4, 4] + covariance[1, 1] - 2 * covariance[1, 4]],
        rtol=1e-12,
    )
    ones = np.ones(len(TIMES))
    np.testing.assert_allclose(prior.constant(), ones @ np.linalg.solve(covariance, ones), rtol=1e-10)


@pytest.mark.parametrize("name", PRIORS)
def test_chains_with_gaps_have_the_marginals_of_the_whole_path(name):
    covariance = dense_covariance(name)
    prior = law(name, TIMES, 0.3, 0.8, num_words=3)
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
    prior = law(name, np.arange(size) / 365.25, rate, 0.3)
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
    prior = law("stationary", np.arange(5) / 365.25, 1e-15, 0.3)
    with pytest.raises(ValueError, match="between steps 0 and 1 .* take a larger drift= or longer steps"):
        prior.factor(np.zeros(5, int), np.arange(5), np.ones(4, bool))


@pytest.mark.parametrize("name", ["diffusion", "stationary"])
def test_filter_is_the_kalman_filter_and_ends_where_the_smoother_does(name):
    """With Gaussian observations in place of counts, both are exact."""
    rng = np.random.default_rng(3)
    size = len(TIMES)
    observed, noise = rng.normal(size=size), rng.uniform(0.2, 2.0, size)
    mean, variance = np.zeros(1), np.full(1, 0.8**2)
    for t in range(size):
        if t:
            mean, variance = priors.carry(name, mean, variance, 0.3 * (TIMES[t] - TIMES[t - 1]), 0.8)
        precision = 1 / variance + 1 / noise[t]
        mean, variance = (mean / variance + observed[t] / noise[t]) / precision, 1 / precision
        # The exact posterior of step t given steps up to t, under the prior over these steps.
        so_far = slice(0, t + 1)
        prior = law(name, TIMES[so_far], 0.3, 0.8)
        first, second = np.meshgrid(np.arange(t + 1), np.arange(t + 1), indexing="ij")
        covariance = prior.covariance(0, np.minimum(first, second), np.maximum(first, second))
        exact = np.linalg.inv(np.linalg.inv(covariance) + np.diag(1 / noise[so_far]))
        np.testing.assert_allclose(variance, exact[t, t], rtol=1e-10)
        np.testing.assert_allclose(mean, (exact @ (observed / noise)[so_far])[t], rtol=1e-10)
    made = chains.prior_chains(Knots(1, size, np.zeros(size, int), np.arange(size)), prior, np.float64)
    smoothed = chains.spread(made, jnp.asarray(1 / noise)[:, None])
    np.testing.assert_allclose(smoothed.variances[-1, 0], variance[0], rtol=1e-10)


PACES = (0.1, 1.0, 30.0)


@pytest.mark.parametrize("name", PRIORS)
def test_each_word_drifts_at_its_own_pace(name):
    """Against a prior made for that pace alone."""
    dates = np.datetime64("1900-01-01", "D") + (365.25 * TIMES).astype("timedelta64[D]")
    pace = np.array([2, 0, 1], np.int32)
    prior = priors.make(name, dates, 0.3, 0.8, paces=PACES, pace=pace)
    steps = np.arange(len(TIMES))
    first, second = (grid.ravel() for grid in np.meshgrid(steps, steps, indexing="ij"))
    low, high = np.minimum(first, second), np.maximum(first, second)
    for word in range(3):
        alone = law(name, priors.years(dates), 0.3 * PACES[pace[word]], 0.8)
        words = np.full(len(low), word)
        np.testing.assert_allclose(
            prior.covariance(words, low, high), alone.covariance(0, low, high), rtol=1e-12
        )
        np.testing.assert_allclose(
            prior.variance_of(np.full(6, word), steps), np.diag(dense(alone)), rtol=1e-12
        )
        linked = np.ones(5, bool)
        for found, expected in zip(
            prior.factor(np.full(6, word), steps, linked),
            alone.factor(np.zeros(6, int), steps, linked),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-9)
        spread = prior.displacement_variance(1, 4)[pace[word]]
        np.testing.assert_allclose(spread, alone.displacement_variance(4, 1)[0], rtol=1e-9)


def dense(prior):
    steps = np.arange(prior.variance.shape[1])
    return prior.covariance(0, np.minimum.outer(steps, steps), np.maximum.outer(steps, steps))


def data_of(seed=3):
    """Three words with gaps, at different paces, and Gaussian data of them."""
    knots = Knots(3, len(TIMES), np.array([0, 0, 0, 1, 2, 2]), np.array([0, 2, 5, 3, 1, 4]))
    dates = np.datetime64("1900-01-01", "D") + (365.25 * TIMES).astype("timedelta64[D]")
    prior = priors.make("stationary", dates, 0.3, 0.8, paces=PACES, pace=np.array([2, 0, 1], np.int32))
    rng = np.random.default_rng(seed)
    return knots, prior, rng.uniform(0.2, 3.0, (6, 2)), rng.normal(size=(6, 2))


def marginal(prior, word, steps):
    return prior.covariance(
        np.full((len(steps), len(steps)), word),
        np.minimum.outer(steps, steps),
        np.maximum.outer(steps, steps),
    )


def test_evidence_is_that_of_a_dense_normal_distribution():
    """Up to the density of the data about the path, which the prior has no part in."""
    knots, prior, precision, value = data_of()
    made = chains.prior_chains(knots, prior, np.float64)
    found = np.asarray(chains.log_evidence(made, jnp.asarray(precision), jnp.asarray(precision * value)))
    for word, rows in enumerate(([0, 1, 2], [3], [4, 5])):
        covariance = marginal(prior, word, knots.step[rows])
        expected = 0.0
        for k in range(2):
            noise = 1 / precision[rows, k]
            expected += multivariate_normal(cov=covariance + np.diag(noise)).logpdf(value[rows, k])
            expected -= norm(0, np.sqrt(noise)).logpdf(value[rows, k]).sum()
        assert found[rows].sum() == pytest.approx(expected, rel=1e-9)


def test_smoothed_means_and_preconditioned_slopes_are_those_of_dense_matrices():
    knots, prior, precision, value = data_of(seed=4)
    made = chains.prior_chains(knots, prior, np.float64)
    found = chains.smoothed(made, jnp.asarray(precision), jnp.asarray(precision * value))
    slopes = np.random.default_rng(5).normal(size=(6, 2))
    turned = chains.precondition(made, jnp.asarray(precision), jnp.asarray(slopes))
    # B as a matrix, column by column.
    unit = [np.asarray(chains.to_natural(made, jnp.eye(6)[:, [i]]))[:, 0] for i in range(6)]
    factor = np.stack(unit, 1)
    for k in range(2):
        total = factor.T @ factor + np.diag(precision[:, k])
        np.testing.assert_allclose(
            found[:, k], np.linalg.solve(total, precision[:, k] * value[:, k]), rtol=1e-9
        )
        back = np.linalg.inv(factor)
        curvature = np.eye(6) + back.T @ np.diag(precision[:, k]) @ back
        np.testing.assert_allclose(turned[:, k], np.linalg.solve(curvature, slopes[:, k]), rtol=1e-9)
