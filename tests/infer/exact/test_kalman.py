import json

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import driftline as dl
from driftline.infer.bbvi.gradient import estimate
from driftline.models.observations import observe
from support.shared import REFERENCE
from support.smoothing import chain_moments, condition

BROWNIAN = REFERENCE / "brownian_motion_missing_middle.json"
GAPS = np.array([1.0, 0.3, 2.0, 4.0, 0.5, 0.5, 1.0, 3.0])
TIMES = np.append(0.0, np.cumsum(GAPS))
X = np.array([0.3, np.nan, 1.0, -0.5, np.nan, np.nan, 0.2, 2.0, np.nan])


def walk():
    model = dl.Model(dl.RandomWalk(0.8, initial_mean=0.5, initial_scale=3.0), dl.Gaussian(0.4))
    return model, chain_moments(0.5, 3.0, np.ones(8), np.zeros(8), 0.8 * np.sqrt(GAPS))


def returning():
    model = dl.Model(dl.OrnsteinUhlenbeck(mean=1.0, rate=0.2, scale=0.8), dl.Gaussian(0.4))
    lags = np.abs(np.subtract.outer(TIMES, TIMES))
    return model, (np.ones(9), 0.64 / 0.4 * np.exp(-0.2 * lags))


def walk_from_functions():
    def normal(difference, scale):
        return -0.5 * (difference / scale) ** 2 - jnp.log(scale) - 0.5 * jnp.log(2 * jnp.pi)

    prior = dl.MarkovPrior(
        initial=lambda z: normal(z - 0.5, 3.0),
        transition=lambda z, before, dt: normal(z - before, 0.8 * jnp.sqrt(dt)),
    )
    return dl.Model(prior, lambda x, z: normal(x - z, 0.4)), walk()[1]


MODELS = {"random walk": walk, "ornstein-uhlenbeck": returning, "functions": walk_from_functions}


@pytest.mark.parametrize("structure", ["chains", "block"])
@pytest.mark.parametrize("name", MODELS)
def test_exact_equals_dense_conditioning_with_gaps_and_uneven_times(name, structure):
    model, (mean, covariance) = MODELS[name]()
    post = dl.fit(model, X, times=TIMES, method="exact", structure=structure)
    expected_mean, expected_covariance, log_evidence = condition(mean, covariance, X, 0.4)
    np.testing.assert_allclose(post.mean, expected_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(post.sd, np.sqrt(np.diag(expected_covariance)), rtol=1e-9)
    np.testing.assert_allclose(post.q.lag_covariances(), np.diag(expected_covariance, 1), rtol=1e-9)
    np.testing.assert_allclose(post.elbo, log_evidence, rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_one_draw_from_the_exact_posterior_gives_the_log_evidence(name, key):
    model, (mean, covariance) = MODELS[name]()
    post = dl.fit(model, X, times=TIMES, method="exact")
    observations = observe(X, GAPS, model.likelihood, ())
    noise = jr.normal(key, (9, 1))
    elbo, _ = estimate(post.q, lambda path: model.log_joint(path, observations), noise)
    np.testing.assert_allclose(elbo, condition(mean, covariance, X, 0.4)[2], rtol=1e-10)


def test_coupled_components_get_blocks_and_equal_dense_conditioning():
    # Two random walks seen only through their sum and their difference times three.
    rng = np.random.default_rng(0)
    x, loading, noise_sd = rng.normal(size=(6, 2)), np.array([[1.0, 1.0], [3.0, -3.0]]), 0.5
    x[2] = np.nan

    def likelihood(x, z):
        return -0.5 * jnp.sum(((x - loading @ z) / noise_sd) ** 2) - 2 * jnp.log(
            noise_sd * jnp.sqrt(2 * jnp.pi)
        )

    post = dl.fit(dl.Model(dl.RandomWalk(0.7, shape=(2,)), likelihood), x, method="exact")
    assert isinstance(post.q, dl.BlockGaussMarkov)
    _, chain = chain_moments(0.0, 1.0, np.ones(5), np.zeros(5), np.full(5, 0.7))
    covariance = np.kron(chain, np.eye(2))
    seen = ~np.isnan(x.ravel())
    design = np.kron(np.eye(6), loading)[seen]
    gram = design @ covariance @ design.T + noise_sd**2 * np.eye(seen.sum())
    gain = covariance @ design.T @ np.linalg.inv(gram)
    np.testing.assert_allclose(post.mean.ravel(), gain @ x.ravel()[seen], rtol=1e-9, atol=1e-10)
    posterior = covariance - gain @ design @ covariance
    np.testing.assert_allclose(post.sd.ravel() ** 2, np.diag(posterior), rtol=1e-9)
    log_evidence = -0.5 * (
        x.ravel()[seen] @ np.linalg.solve(gram, x.ravel()[seen])
        + np.linalg.slogdet(gram)[1]
        + seen.sum() * np.log(2 * np.pi)
    )
    np.testing.assert_allclose(post.elbo, log_evidence, rtol=1e-9)


def test_one_step_alone():
    post = dl.fit(dl.Model(dl.RandomWalk(initial_scale=2.0), dl.Gaussian(1.0)), [3.0], method="exact")
    np.testing.assert_allclose(post.mean, [3.0 * 4 / 5])
    np.testing.assert_allclose(post.sd**2, [4 / 5])


def test_a_model_that_is_not_linear_and_gaussian_is_refused():
    with pytest.raises(ValueError, match="needs a model that is linear and Gaussian"):
        dl.fit(dl.Model(dl.RandomWalk(), dl.Poisson()), [1, 2, 3], method="exact")


def test_an_improper_posterior_is_refused():
    flat = dl.MarkovPrior(initial=lambda z: 0.0 * z, transition=lambda z, y, dt: -0.5 * (z - y) ** 2)
    growing = dl.Model(flat, lambda x, z: 0.25 * (x - z) ** 2)
    with pytest.raises(ValueError, match="not a proper density.*from step 1 on"):
        dl.fit(growing, [1.0, 2.0], method="exact")


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("structure", ["chains", "block"])
def test_what_is_linear_and_gaussian_does_not_depend_on_the_units(unit, structure):
    x = unit * np.array([0.5, 1.0, np.nan, 3.0, -1.0])
    heavy = dl.Model(dl.RandomWalk(unit), dl.StudentT(4.0, unit))
    with pytest.raises(ValueError, match="curvature of the log joint at step . changes with the path"):
        dl.fit(heavy, x, method="exact", structure=structure)
    gaussian = dl.Model(dl.RandomWalk(unit), lambda x, z: -0.5 * jnp.sum(((x - z) / unit) ** 2))
    post = dl.fit(gaussian, x, method="exact", structure=structure)
    same = dl.fit(dl.Model(dl.RandomWalk(unit), dl.Gaussian(unit)), x, method="exact")
    np.testing.assert_allclose(post.mean, same.mean, rtol=1e-9)
    np.testing.assert_allclose(post.sd, same.sd, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_a_prior_of_any_width_does_not_hide_a_likelihood_that_bends(scale):
    heavy = dl.Model(dl.RandomWalk(scale), dl.StudentT(4.0, 1.0))
    with pytest.raises(ValueError, match="needs a model that is linear and Gaussian"):
        dl.fit(heavy, [0.5, 1.0, np.nan, 3.0, -1.0], method="exact")


@pytest.mark.parametrize("noise", [1e-9, 1e9])
def test_a_likelihood_of_any_width_does_not_hide_a_prior_that_bends(noise):
    bent = dl.MarkovPrior(lambda z: -0.5 * z**2, lambda z, before, dt: -0.5 * (z - jnp.sin(before)) ** 2)
    with pytest.raises(ValueError, match="needs a model that is linear and Gaussian"):
        dl.fit(dl.Model(bent, dl.Gaussian(noise)), [0.5, 1.0, np.nan, 3.0, -1.0], method="exact")


def test_elements_in_very_different_units_are_linear_and_gaussian_together():
    units, mixing = np.array([1e-9, 1e9]), np.array([[1.0, 0.3], [-0.2, 1.0]])

    def likelihood(x, z):
        return -0.5 * jnp.sum((x - mixing @ (z / units)) ** 2)

    prior = dl.RandomWalk(units, initial_scale=units, shape=(2,))
    x = np.random.default_rng(1).normal(size=(5, 2))
    post = dl.fit(dl.Model(prior, likelihood), x, method="exact")
    same = dl.Model(dl.RandomWalk(shape=(2,)), lambda x, z: -0.5 * jnp.sum((x - mixing @ z) ** 2))
    expected = dl.fit(same, x, method="exact")
    np.testing.assert_allclose(post.mean / units, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(post.sd / units, expected.sd, rtol=1e-9)


def test_a_likelihood_that_bends_only_where_the_posterior_would_be_is_found_out():
    def huber(x, z):
        off = jnp.abs(x - z)
        return jnp.where(off < 5.0, -0.5 * off**2, 12.5 - 5.0 * off)

    # A slope of 5 and a variance of 100 take the mean from 0 to 500.
    with pytest.raises(ValueError, match="needs a model that is linear and Gaussian"):
        dl.fit(dl.Model(dl.RandomWalk(initial_scale=10.0), huber), [515.0], method="exact")


def test_paths_of_two_axes_are_compared_element_by_element():
    model = dl.Model(dl.RandomWalk(shape=(3, 3)), dl.StudentT(4.0, 1.0))
    with pytest.raises(ValueError, match="needs a model that is linear and Gaussian"):
        dl.fit(model, np.ones((2, 3, 3)), method="exact")


@pytest.mark.skipif(not BROWNIAN.exists(), reason="the published posterior is not at hand")
def test_the_published_brownian_motion_with_a_gap():
    reference = json.loads(BROWNIAN.read_text())
    model = dl.Model(dl.RandomWalk(0.1, initial_scale=0.1), dl.Gaussian(0.15))
    post = dl.fit(model, reference["x"], method="exact")
    latents = reference["posterior"]["latents"]
    error = np.abs(post.mean - latents["mean"]) / latents["mean_standard_error"]
    assert error.max() < 4.5  # 30 comparisons: one false alarm in five thousand runs
