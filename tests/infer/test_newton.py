import jax
import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl
from driftline import datasets
from support.smoothing import chain_moments, condition

LOG_2PI = np.log(2 * np.pi)


def normal(difference, scale):
    return -0.5 * (difference / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI


def bent_transition():
    prior = dl.MarkovPrior(
        initial=lambda z: normal(z, 1.0),
        transition=lambda z, before, dt: normal(z - before - 0.4 * jnp.tanh(before), 0.5),
        draw_initial=lambda key: jax.random.normal(key),
        draw_transition=lambda key, z, dt: z + 0.4 * jnp.tanh(z) + 0.5 * jax.random.normal(key),
    )
    return dl.Model(prior, dl.Gaussian(0.7))


MODELS = {
    "gaussian": lambda: dl.Model(dl.OrnsteinUhlenbeck(rate=0.3), dl.Gaussian(0.5)),
    "poisson": lambda: dl.Model(dl.AR1(mean=1.0, decay=0.9, scale=0.3), dl.Poisson()),
    "bernoulli": lambda: dl.Model(dl.AR1(decay=0.9, scale=0.5), dl.Bernoulli()),
    "student-t": lambda: dl.Model(dl.RandomWalk(0.3), dl.StudentT(4.0, 0.5)),
    "log volatility": lambda: dl.Model(dl.AR1(mean=-1.0, decay=0.95, scale=0.3), dl.LogVolatility()),
    "non-linear transition": bent_transition,
}


@pytest.mark.parametrize("name", MODELS)
def test_newton_and_a_long_bbvi_run_agree(name):
    model = MODELS[name]()
    _, x = model.simulate(60, seed=4)
    x = np.where(np.arange(60) % 11 == 3, np.nan, x)
    newton = dl.fit(model, x, method="newton")
    bbvi = dl.fit(model, x, method="bbvi", samples=32, estimator="sticking-the-landing", tolerance=2e-5)
    assert newton.converged, newton.message
    assert bbvi.converged, bbvi.message
    assert abs(newton.elbo - bbvi.elbo) <= 0.05 + 4 * bbvi.elbo_error
    assert np.abs((newton.mean - bbvi.mean) / newton.sd).max() <= 0.02
    assert np.abs(newton.sd / bbvi.sd - 1).max() <= 0.02


@pytest.mark.parametrize("structure", ["chains", "block"])
def test_one_step_is_exact_for_a_linear_gaussian_model(structure):
    gaps = np.array([1.0, 0.3, 2.0, 4.0])
    x = np.array([0.3, np.nan, 1.0, -0.5, 2.0])
    model = dl.Model(dl.RandomWalk(0.8, initial_mean=0.5, initial_scale=3.0), dl.Gaussian(0.4))
    moments = chain_moments(0.5, 3.0, np.ones(4), np.zeros(4), 0.8 * np.sqrt(gaps))
    mean, covariance, log_evidence = condition(*moments, x, 0.4)
    times = np.append(0.0, np.cumsum(gaps))
    post = dl.fit(model, x, times=times, structure=structure, max_iterations=1)
    np.testing.assert_allclose(post.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(post.sd, np.sqrt(np.diag(covariance)), rtol=1e-9)
    np.testing.assert_allclose(post.elbo, log_evidence, rtol=1e-9)


def test_one_step_is_exact_for_coupled_functions():
    loading = np.array([[1.0, 1.0], [3.0, -3.0], [0.5, 0.0]])
    prior = dl.MarkovPrior(
        initial=lambda z: jnp.sum(normal(z, 1.0)),
        transition=lambda z, y, dt: jnp.sum(normal(z - jnp.array([[0.9, 0.2], [-0.2, 0.9]]) @ y, 0.7)),
        shape=(2,),
    )
    model = dl.Model(prior, lambda x, z: jnp.sum(normal(x - loading @ z, 0.5)))
    x = np.random.default_rng(0).normal(size=(6, 3))
    exact = dl.fit(model, x, method="exact")
    post = dl.fit(model, x, structure="block", max_iterations=1)
    np.testing.assert_allclose(post.mean, exact.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(post.sd, exact.sd, rtol=1e-8)
    np.testing.assert_allclose(post.elbo, exact.elbo, rtol=1e-9)


def test_the_elbo_never_falls_and_outliers_do_not_break_it():
    model = dl.Model(dl.RandomWalk(0.2), dl.StudentT(2.0, 0.3))
    _, x = model.simulate(200, seed=1)
    x = x + 15.0 * (np.arange(200) % 20 == 7)
    elbos = [dl.fit(model, x, max_iterations=n).elbo for n in range(1, 16)]
    assert np.all(np.diff(elbos) >= -1e-9)
    post = dl.fit(model, x)
    assert post.converged, post.message
    assert np.isfinite(post.sd).all()


def test_a_far_start_is_reached_by_halved_steps():
    # exp(12) counts from a start at rate one: a full first step overflows.
    post = dl.fit(dl.Model(dl.RandomWalk(0.1, initial_scale=10.0), dl.Poisson()), np.full(30, 160_000))
    assert post.converged, post.message
    np.testing.assert_allclose(post.mean, np.log(160_000), atol=1e-3)


def test_the_result_does_not_depend_on_the_seed():
    model = MODELS["poisson"]()
    _, x = model.simulate(50, seed=2)
    np.testing.assert_array_equal(dl.fit(model, x, seed=0).mean, dl.fit(model, x, seed=1).mean)


PRIORS = {
    "random walk": lambda: dl.RandomWalk(0.3),
    "ornstein-uhlenbeck": lambda: dl.OrnsteinUhlenbeck(rate=0.3),
    "diffusion": lambda: dl.Diffusion(0.3),
    "functions": lambda: bent_transition().prior,
}


@pytest.mark.parametrize("name", PRIORS)
def test_filling_up_to_a_power_of_two_changes_nothing(name):
    # An exposure for every step keeps a series from being filled up: the same model with and without.
    x = np.array([1.0, 0.0, 3.0, 2.0, np.nan, 4.0, 6.0])
    padded = dl.fit(dl.Model(PRIORS[name](), dl.Poisson()), x)
    plain = dl.fit(dl.Model(PRIORS[name](), dl.Poisson(exposure=np.ones(7))), x)
    assert padded.mean.shape == (7,)
    assert padded.q.upper.shape == (6,)
    np.testing.assert_allclose(padded.mean, plain.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(padded.sd, plain.sd, rtol=1e-9)
    np.testing.assert_allclose(padded.elbo, plain.elbo, rtol=1e-10)


def test_series_of_similar_length_share_one_program():
    traces = []

    def likelihood(x, z):
        traces.append(None)
        return normal(x - z, 0.5)

    model = dl.Model(dl.RandomWalk(0.3), likelihood)
    dl.fit(model, np.zeros(100))
    first = len(traces)
    dl.fit(model, np.arange(100.0) / 50)
    dl.fit(model, np.arange(70.0) / 50)
    # observe() looks at the shape that the function returns, once per fit; nothing else may run it.
    assert len(traces) - first <= 2


def test_interrupting_returns_the_best_state_so_far():
    def interrupt(progress):
        raise KeyboardInterrupt

    years, flow = datasets.nile()
    model = dl.Model(dl.RandomWalk(38.0, initial_mean=1000.0, initial_scale=500.0), dl.StudentT(4.0, 100.0))
    post = dl.fit(model, flow, times=years, progress=interrupt)
    assert post.message.startswith("interrupted after")
    assert not post.converged
    assert np.isfinite(post.elbo)


def test_a_model_that_is_not_finite_around_its_start_is_refused():
    model = dl.Model(dl.RandomWalk(1.0), lambda x, z: jnp.where(jnp.abs(z) < 0.5, -((x - z) ** 2), -jnp.inf))
    with pytest.raises(ValueError, match="the expected log joint is -inf where the fit begins"):
        dl.fit(model, [0.0, 0.1])


def test_a_likelihood_that_outgrows_the_prior_is_named_by_step():
    model = dl.Model(dl.RandomWalk(), lambda x, z: jnp.where(x > 2, z**4, -((x - z) ** 2)))
    with pytest.raises(ValueError, match="curves upwards at step 2 .* the path has no posterior"):
        dl.fit(model, [0.0, 1.0, 3.0, 1.0])


def test_a_curvature_that_is_nan_away_from_the_start_is_named_by_step():
    # Finite at the starting path, but not at all points of the quadrature.
    model = dl.Model(dl.RandomWalk(), lambda x, z: jnp.log(z + 100.0 / (1.0 + x) ** 4))
    with pytest.raises(ValueError, match="curvature is not finite at step 2"):
        dl.fit(model, [0.0, 0.0, 3.0, 0.0])
