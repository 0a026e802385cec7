import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, softmax

import driftline as dl

Z = np.array([-1.2, 0.0, 0.4, 2.0])

CASES = {
    "gaussian": (dl.Gaussian(0.7), [0.1, -1.0, 3.0, 2.0], lambda x: stats.norm(Z, 0.7).logpdf(x)),
    "student-t": (dl.StudentT(3.5, 0.7), [0.1, -1.0, 30.0, 2.0], lambda x: stats.t(3.5, Z, 0.7).logpdf(x)),
    "poisson": (dl.Poisson(), [0, 1, 4, 7], lambda x: stats.poisson(np.exp(Z)).logpmf(x)),
    "poisson with exposure": (
        dl.Poisson(exposure=[1.0, 2.0, 3.0, 0.5]),
        [0, 1, 4, 7],
        lambda x: stats.poisson(np.exp(Z) * [1.0, 2.0, 3.0, 0.5]).logpmf(x),
    ),
    "negative binomial": (
        dl.NegativeBinomial(2.5, exposure=2.0),
        [0, 1, 4, 7],
        lambda x: stats.nbinom(2.5, 2.5 / (2.5 + 2.0 * np.exp(Z))).logpmf(x),
    ),
    "bernoulli": (dl.Bernoulli(), [0, 1, 1, 0], lambda x: stats.bernoulli(expit(Z)).logpmf(x)),
    "binomial": (
        dl.Binomial([5, 6, 7, 8]),
        [0, 6, 4, 7],
        lambda x: stats.binom([5, 6, 7, 8], expit(Z)).logpmf(x),
    ),
    "log volatility": (
        dl.LogVolatility(),
        [0.0, 0.3, -2.0, 1.0],
        lambda x: stats.norm(0, np.exp(Z / 2)).logpdf(x),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_terms_equal_scipy(name):
    likelihood, x, oracle = CASES[name]
    terms = likelihood.terms(jnp.asarray(x, float), jnp.asarray(Z))
    np.testing.assert_allclose(terms, oracle(np.asarray(x)), rtol=1e-12, atol=1e-12)


MOMENTS = {  # mean and variance of an observation at path 0.4
    "gaussian": (dl.Gaussian(0.7), 0.4, 0.49),
    "student-t": (dl.StudentT(8.0, 0.7), 0.4, 0.49 * 8 / 6),
    "poisson": (dl.Poisson(exposure=2.0), 2 * np.exp(0.4), 2 * np.exp(0.4)),
    "negative binomial": (dl.NegativeBinomial(2.5), np.exp(0.4), np.exp(0.4) + np.exp(0.8) / 2.5),
    "bernoulli": (dl.Bernoulli(), expit(0.4), expit(0.4) * expit(-0.4)),
    "binomial": (dl.Binomial(5), 5 * expit(0.4), 5 * expit(0.4) * expit(-0.4)),
    "log volatility": (dl.LogVolatility(), 0.0, np.exp(0.4)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_simulated_observations_have_the_right_mean(name, key):
    likelihood, mean, variance = MOMENTS[name]
    num, false_alarm = 100_000, 1e-6
    draws = likelihood.simulate(key, jnp.full(num, 0.4))
    z = (np.mean(draws) - mean) / np.sqrt(variance / num)
    assert abs(z) < stats.norm.isf(false_alarm / 2)


def test_categorical_equals_the_softmax():
    logits = np.random.default_rng(0).normal(size=(5, 2, 3))
    x = np.array([[0, 2], [1, 1], [2, 0], [0, 0], [1, 2]])
    terms = dl.Categorical().terms(jnp.asarray(x, float), jnp.asarray(logits))
    expected = np.log(np.take_along_axis(softmax(logits, axis=-1), x[..., None], -1)[..., 0])
    np.testing.assert_allclose(terms, expected, rtol=1e-12)


def test_categories_are_drawn_in_proportion_to_the_softmax(key):
    num = 50_000
    logits = jnp.broadcast_to(jnp.array([0.0, 1.0, -1.0]), (num, 3))
    draws = np.asarray(dl.Categorical().simulate(key, logits)).astype(int)
    expected = num * softmax([0.0, 1.0, -1.0])
    assert stats.chisquare(np.bincount(draws, minlength=3), expected).pvalue > 1e-6


def test_a_function_sees_the_whole_step_and_its_params():
    likelihood = dl.Likelihood(lambda x, z, p: -p["a"] * jnp.sum((x - z.sum()) ** 2), params={"a": 2.0})
    z, x = np.arange(12.0).reshape(3, 2, 2), np.array([[1.0], [2.0], [3.0]])
    expected = [-2.0 * (x[t, 0] - z[t].sum()) ** 2 for t in range(3)]
    np.testing.assert_allclose(likelihood.terms(jnp.asarray(x), jnp.asarray(z)), expected)


def test_an_elementwise_function_is_called_with_single_numbers():
    likelihood = dl.Likelihood(lambda x, z: jax.scipy.stats.norm.logpdf(x, z), elementwise=True)
    z, x = np.arange(6.0).reshape(3, 2), np.ones((3, 2))
    np.testing.assert_allclose(
        likelihood.terms(jnp.asarray(x), jnp.asarray(z)), stats.norm(z).logpdf(x), rtol=1e-12
    )


def test_a_function_is_simulated_only_when_told_how(key):
    quiet = dl.Likelihood(lambda x, z: -((x - z) ** 2))
    with pytest.raises(ValueError, match="draw=lambda key, z"):
        quiet.simulate(key, jnp.zeros(3))
    loud = dl.Likelihood(lambda x, z: -((x - z) ** 2), draw=lambda key, z: z + 1.0)
    np.testing.assert_array_equal(loud.simulate(key, jnp.zeros(3)), np.ones(3))


@pytest.mark.parametrize(
    "likelihood", [dl.Gaussian(0.7), dl.Poisson(), dl.Poisson(exposure=2.5), dl.LogVolatility()], ids=str
)
def test_expectations_in_closed_form_are_those_of_quadrature(likelihood):
    values, mean, variance = np.array([0.0, 1.0, 4.0]), np.array([-1.0, 0.3, 1.2]), np.array([0.1, 0.5, 0.02])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    paths = mean[:, None] + np.sqrt(variance)[:, None] * nodes
    terms = np.stack([likelihood.terms(jnp.asarray(values), jnp.asarray(path)) for path in paths.T])
    expected = weights @ terms / weights.sum()
    found = likelihood.expected_terms(*map(jnp.asarray, (values, mean, variance)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_other_likelihoods_have_no_closed_form():
    assert dl.Bernoulli().expected_terms(*(jnp.ones(2),) * 3) is None


def test_the_number_of_trials_is_known():
    with pytest.raises(TypeError, match=r"Binomial\(trials=...\) is a known number .* cannot be learnt"):
        dl.Binomial(dl.learn(10.0))
