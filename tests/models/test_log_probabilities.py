"""Densities keep their digits where they tend to simpler ones, and so do their derivatives."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import driftline as dl
from driftline.models.count_draws import LARGE, draw_counts
from support import golden_likelihoods as golden

EVERYTHING = json.loads(Path(__file__).with_name("golden_likelihoods.json").read_text())
GOLDEN = {name: EVERYTHING[name] for name in ("student", "negative binomial")}
STEPS = range(golden.NUM_STEPS)
PATH = np.array([golden.path_at(step) for step in STEPS])
WEIGHTS = np.array([golden.weight_at(step) for step in STEPS])
COUNTS = np.array([golden.count_at(step) for step in STEPS], float)
REALS = PATH + np.array([golden.distance_at(step) for step in STEPS])


def filled(likelihood, **numbers):
    """A likelihood with numbers that may be traced."""
    return jax.tree.unflatten(jax.tree.structure(likelihood), list(numbers.values()))


def total_of(name, dtype):
    """The sum over the series as a function of a shift of the path, the size and the scale."""
    path, weights = jnp.asarray(PATH, dtype), jnp.asarray(WEIGHTS, dtype)

    def student(shift, size, scale):
        likelihood = filled(dl.StudentT(1.0, 1.0), df=size, scale=scale)
        return jnp.sum(likelihood.terms(jnp.asarray(REALS, dtype), path + shift * weights))

    def negative_binomial(shift, size, scale):
        likelihood = filled(dl.NegativeBinomial(1.0, 1.0), concentration=size, exposure=scale)
        return jnp.sum(likelihood.terms(jnp.asarray(COUNTS, dtype), path + shift * weights))

    return {"student": student, "negative binomial": negative_binomial}[name]


EACH = pytest.mark.parametrize(("name", "size"), [(name, size) for name in GOLDEN for size in golden.SIZES])


@EACH
def test_the_sum_over_a_series_is_right_to_a_hundred_millionth(name, size):
    found = total_of(name, jnp.float64)(0.0, jnp.asarray(float(size)), jnp.asarray(golden.SCALE))
    np.testing.assert_allclose(float(found), float(GOLDEN[name][size]["total"]), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.parametrize(("argument", "what"), list(enumerate(["path", "size", "scale"])))
def test_first_and_second_derivatives_are_right_to_nine_digits(name, argument, what):
    total = total_of(name, jnp.float64)
    first = jax.grad(total, argument)
    both = jax.jit(jax.value_and_grad(lambda *at: first(*at), argument))
    for size in golden.SIZES:
        found = both(jnp.zeros(()), jnp.asarray(float(size)), jnp.asarray(golden.SCALE))
        expected = np.array(GOLDEN[name][size][what], float)
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-9, err_msg=size)


@EACH
def test_single_precision_keeps_its_digits(name, size):
    one, other = (jnp.asarray(number, jnp.float32) for number in (float(size), golden.SCALE))
    found = total_of(name, jnp.float32)(jnp.zeros((), jnp.float32), one, other)
    np.testing.assert_allclose(float(found), float(GOLDEN[name][size]["total"]), rtol=3e-5)


def test_counts_keep_their_digits_however_large_they_are():
    counts, log_rates = map(jnp.asarray, np.array(golden.COUNTS).T)
    found = dl.Poisson().terms(counts, log_rates)
    # A rounding of the logarithm of the rate moves the answer by its distance from the count.
    rounding = np.finfo(float).eps * np.abs(log_rates * (counts - np.exp(log_rates)))
    expected = np.array(EVERYTHING["poisson"], float)
    assert np.all(np.abs(found - expected) < 4e-14 * (1 + np.abs(expected)) + 4 * rounding)


def test_successes_keep_their_digits_however_many_trials_there_are():
    successes, trials, log_odds = np.array(golden.SUCCESSES).T
    found = dl.Binomial(trials).terms(jnp.asarray(successes), jnp.asarray(log_odds))
    # Either rounding of the log odds, or of the terms of first order, which cancel near the top.
    apart = log_odds - np.log(np.maximum(successes, 0.5) / np.maximum(trials - successes, 0.5))
    first_order = np.minimum(successes, trials - successes) * np.abs(apart)
    rounding = np.abs(log_odds * (successes - trials * expit(log_odds))) + first_order
    rounding *= np.finfo(float).eps
    expected = np.array(EVERYTHING["binomial"], float)
    assert np.all(np.abs(found - expected) < 4e-14 * (1 + np.abs(expected)) + 4 * rounding)


LIMITS = {
    "negative binomial": (dl.NegativeBinomial(1e16), dl.Poisson(), COUNTS),
    "student": (dl.StudentT(1e16, 0.75), dl.Gaussian(0.75), REALS),
}


@pytest.mark.parametrize("name", LIMITS)
def test_derivatives_are_those_of_the_simpler_density_where_it_is_reached(name):
    *parts, values = LIMITS[name]
    slopes = [jax.grad(lambda z, part=part: part.terms(jnp.asarray(values), z).sum())(PATH) for part in parts]
    np.testing.assert_allclose(*slopes, rtol=1e-11, atol=1e-11)


DRAWS = {  # mean and variance of an observation at path 0.5
    "student-t": (dl.StudentT(1e16, 0.7), 0.5, 0.49),
    "negative binomial": (dl.NegativeBinomial(1e16, exposure=4.0), *(4 * np.exp(0.5),) * 2),
    "negative binomial with a huge mean": (
        dl.NegativeBinomial(1e12, exposure=1e10),
        1e10 * np.exp(0.5),
        1e10 * np.exp(0.5) * (1 + 1e-2 * np.exp(0.5)),
    ),
    "poisson": (dl.Poisson(exposure=1e5), *(1e5 * np.exp(0.5),) * 2),
    "poisson with a huge mean": (dl.Poisson(exposure=1e14), *(1e14 * np.exp(0.5),) * 2),
    "binomial": (dl.Binomial(1e12), 1e12 * expit(0.5), 1e12 * expit(0.5) * expit(-0.5)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_moments_of_the_limit(name, key):
    likelihood, mean, variance = DRAWS[name]
    num, false_alarm = 40_000, 1e-6
    white = (np.asarray(likelihood.simulate(key, jnp.full(num, 0.5))) - mean) / np.sqrt(variance)
    assert abs(white.mean()) * np.sqrt(num) < stats.norm.isf(false_alarm / 2)
    kurtosis = 3.0 + 1.0 / min(variance, 4.0)  # of a Poisson variable with a mean of 4 or more
    assert abs(white.var() - 1.0) * np.sqrt(num / (kurtosis - 1)) < stats.norm.isf(false_alarm / 2)


@pytest.mark.parametrize("rate", [0.9 * LARGE, 1.1 * LARGE])
def test_counts_have_the_distribution_of_counts_on_both_sides_of_the_change_of_method(rate, key):
    draws = np.asarray(draw_counts(key, jnp.full(200_000, rate)))
    np.testing.assert_array_equal(draws, np.round(draws))
    edges = np.floor(stats.poisson(rate).ppf(np.linspace(0, 1, 41)[1:-1]))
    shares = np.diff([0.0, *stats.poisson(rate).cdf(edges), 1.0])
    found = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=40)
    assert stats.chisquare(found, shares * len(draws)).pvalue > 1e-6
