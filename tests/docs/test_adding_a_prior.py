"""The page for authors of priors does what it says."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import driftline as dl
from support import pages
from support.smoothing import chain_moments


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("prior"))
        yield pages.run_as_module("develop/adding-a-prior.md", "walks")


def test_the_linear_prior_is_a_walk_with_a_trend(page):
    gaps = np.array([1.0, 0.5, 2.0])
    prior, path = page.DriftingWalk(drift=0.7, scale=0.4), np.array([0.1, 1.0, 0.8, 3.0])
    mean, covariance = chain_moments(0.0, 1.0, np.ones(3), 0.7 * gaps, 0.4 * np.sqrt(gaps))
    np.testing.assert_allclose(prior.mean_path(jnp.asarray(gaps)), mean, rtol=1e-12)
    expected = stats.multivariate_normal(mean, covariance).logpdf(path)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(path), jnp.asarray(gaps)), expected, rtol=1e-11)
    assert prior.in_continuous_time


def test_the_fit_is_the_one_that_was_saved(page):
    assert page.post.converged
    np.testing.assert_array_equal(page.again.mean, page.post.mean)
    assert type(page.again.model.prior) is page.DriftingWalk
    assert page.again.at([0.5, 39.5]).mean.shape == (2,)


def test_the_stepwise_prior_has_steps_of_student_s_t(page):
    path, ones = np.array([0.1, 1.0, 0.8]), jnp.ones(2)
    expected = stats.norm.logpdf(0.1) + stats.t(4, scale=0.3).logpdf(np.diff(path)).sum()
    prior = page.JumpingWalk(scale=0.3)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(path), ones), expected, rtol=1e-12)


def test_the_stepwise_prior_is_fitted_saved_and_loaded_as_its_functions_are(page, tmp_path):
    x = np.array([0.2, -0.1, 4.0, 4.2])
    post = dl.fit(dl.Model(page.JumpingWalk(scale=0.3), dl.Gaussian(0.5)), x)
    prior = page.JumpingWalk(scale=0.3)
    functions = dl.MarkovPrior(prior.initial_log_prob, prior.transition_log_prob)
    np.testing.assert_allclose(dl.fit(dl.Model(functions, dl.Gaussian(0.5)), x).mean, post.mean, rtol=1e-9)
    post.save(tmp_path / "jumps.driftline")
    again = dl.load(tmp_path / "jumps.driftline")
    np.testing.assert_array_equal(again.mean, post.mean)
    assert type(again.model.prior) is page.JumpingWalk
