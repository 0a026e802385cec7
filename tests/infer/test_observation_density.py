"""Predictive densities against closed forms and adaptive integration by SciPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import driftline as dl
from driftline.infer.observation_density import log_marginal


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.02, 0.1, 1.0, 30.0])
def test_noise_of_any_width_adds_to_that_of_the_path(noise):
    mean, sd = jnp.array([-3.0, 0.0, 5.0]), jnp.array([0.5, 1.0, 2.0])
    for away in (0.0, 0.3137, -4.0, 60.0):
        x = mean + away * sd
        found = log_marginal(lambda path, x=x: dl.Gaussian(noise).terms(x, path), mean, sd)
        expected = stats.norm(mean, np.hypot(sd, noise)).logpdf(x)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "x", "log_terms"),
    [
        (dl.Poisson(), 10_137.0, lambda x, z: x * z - np.exp(z) - special.gammaln(x + 1)),
        (dl.Poisson(), 0.0, lambda x, z: -np.exp(z)),
        (dl.Bernoulli(), 1.0, lambda x, z: -np.logaddexp(0.0, -z)),
        (dl.StudentT(3.0, 0.02), 12.6, lambda x, z: stats.t(3.0, z, 0.02).logpdf(x)),
        (dl.StudentT(3.0, 0.02), 40.0, lambda x, z: stats.t(3.0, z, 0.02).logpdf(x)),
        (dl.LogVolatility(), 0.3, lambda x, z: stats.norm(0.0, np.exp(0.5 * z)).logpdf(x)),
    ],
)
def test_likelihoods_agree_with_adaptive_integration(likelihood, x, log_terms):
    mean, sd = 9.0, 0.8

    def integrand(z):
        return np.exp(log_terms(x, z)) * stats.norm(mean, sd).pdf(z)

    marks = np.unique([mean, np.clip(x, 0, 45), np.log(max(x, 1.0)), *np.linspace(-3, 45, 97)])
    pieces = zip(marks[:-1], marks[1:], strict=True)
    value = sum(integrate.quad(integrand, *ends, epsabs=0, limit=200)[0] for ends in pieces)
    found = log_marginal(
        lambda path: likelihood.terms(jnp.array([x]), path), jnp.array([mean]), jnp.array([sd])
    )
    np.testing.assert_allclose(found, np.log(value), rtol=1e-6, atol=1e-6)


def test_a_likelihood_without_values_for_some_paths_has_no_density_there():
    found = log_marginal(lambda path: jnp.log(path), jnp.array([2.0]), jnp.array([1.0]))
    value, _ = integrate.quad(lambda z: z * stats.norm(2.0, 1.0).pdf(z), 0.0, 15.0)
    np.testing.assert_allclose(found, np.log(value), atol=1e-3)  # it ends with a kink at zero
