import dataclasses
import json
import os

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import driftline as dl
from driftline.infer import newton
from driftline.infer.learning import cover_points, covering, heights, integration, mixture
from driftline.infer.learning.problem import LearningProblem
from driftline.infer.mixture_quantiles import SCORES
from driftline.infer.number_vector import Layout
from driftline.models.observations import observe
from driftline.models.parameters import Support
from support.calibration import fit_replicate
from support.shared import REFERENCE
from support.smoothing import chain_moments, condition


@pytest.fixture(scope="module")
def walk():
    """A short random walk with unknown step and noise, and its exact log evidence on a grid, in NumPy."""
    _, x = dl.Model(dl.RandomWalk(0.5), dl.Gaussian(0.8)).simulate(40, seed=5)
    x = np.where(np.arange(40) % 9 == 4, np.nan, x)
    steps, noises = np.linspace(0.02, 2.2, 110), np.linspace(0.25, 1.7, 100)
    log_evidence = np.empty((110, 100))
    means, seconds = np.empty((110, 100, 40)), np.empty((110, 100, 40))
    for i, step in enumerate(steps):
        moments = chain_moments(0.0, 1.0, np.ones(39), np.zeros(39), np.full(39, step))
        for j, noise in enumerate(noises):
            mean, covariance, log_evidence[i, j] = condition(*moments, x, noise)
            means[i, j], seconds[i, j] = mean, np.diag(covariance) + mean**2
    return x, steps, noises, log_evidence, means, seconds


def learning_model(prior=None):
    return dl.Model(dl.RandomWalk(dl.learn(0.2, prior=prior)), dl.Gaussian(dl.learn(0.5, positive=True)))


def test_the_posterior_of_learnt_numbers_equals_a_dense_grid(walk):
    # The ELBO is the log evidence here, so a grid in NumPy is an exact oracle; flat priors.
    x, steps, noises, log_evidence, means, seconds = walk
    post = dl.fit(learning_model(), x)
    weights = np.exp(log_evidence - log_evidence.max())
    weights /= weights.sum()
    for place, grid, marginal in (
        ("prior.scale", steps, weights.sum(1)),
        ("likelihood.scale", noises, weights.sum(0)),
    ):
        mean = marginal @ grid
        sd = np.sqrt(marginal @ (grid - mean) ** 2)
        number = post.parameters[place]
        assert abs(number.mean - mean) < 0.1 * sd
        assert abs(number.sd / sd - 1) < 0.1
        lower, upper = np.interp([0.05, 0.95], np.cumsum(marginal), grid)
        np.testing.assert_allclose(number.interval(0.9), [lower, upper], atol=0.2 * sd)
    mean = np.einsum("ij,ijt->t", weights, means)
    sd = np.sqrt(np.einsum("ij,ijt->t", weights, seconds) - mean**2)
    assert np.abs((post.mean - mean) / sd).max() < 0.05
    assert np.abs(post.sd / sd - 1).max() < 0.05
    cell = (steps[1] - steps[0]) * (noises[1] - noises[0])
    integral = np.log(np.exp(log_evidence - log_evidence.max()).sum() * cell) + log_evidence.max()
    assert abs(post.elbo - integral) < 0.05
    assert post.converged, post.message


@pytest.mark.parametrize("probability", [0.5, 0.9])
def test_intervals_of_the_path_are_those_of_the_mixture_on_a_dense_grid(walk, probability):
    x, _, _, log_evidence, means, seconds = walk
    post = dl.fit(learning_model(), x)
    weights = np.exp(log_evidence - log_evidence.max())
    weights /= weights.sum()
    sds = np.sqrt(seconds - means**2)

    def exact(step, share):
        def below(z):
            return np.sum(weights * stats.norm.cdf((z - means[..., step]) / sds[..., step])) - share

        return optimize.brentq(below, *(post.mean[step] + post.sd[step] * np.array([-5, 5])))

    steps, tail = np.array([0, 4, 21, 39]), 0.5 * (1 - probability)
    ends = np.array([[exact(step, share) for step in steps] for share in (tail, 1 - tail)])
    found = np.array(post.interval(probability))[:, steps]
    assert np.abs((found - ends) / post.sd[steps]).max() < 0.05


def test_maximising_finds_the_top_of_the_evidence(walk):
    x, steps, noises, log_evidence, _, _ = walk
    post = dl.fit(learning_model(), x, parameters="maximise")
    i, j = np.unravel_index(np.argmax(log_evidence), log_evidence.shape)
    assert abs(post.parameters["prior.scale"].mean - steps[i]) < steps[1] - steps[0]
    assert abs(post.parameters["likelihood.scale"].mean - noises[j]) < noises[1] - noises[0]
    assert log_evidence.max() <= post.elbo < log_evidence.max() + 0.05
    assert post.parameters["prior.scale"].sd == 0
    fixed = dl.Model(
        dl.RandomWalk(post.parameters["prior.scale"].mean),
        dl.Gaussian(post.parameters["likelihood.scale"].mean),
    )
    np.testing.assert_allclose(post.elbo, dl.fit(fixed, x, method="exact").elbo, rtol=1e-9)


def test_a_prior_moves_the_posterior_by_its_density(walk):
    x, steps, _, log_evidence, _, _ = walk
    post = dl.fit(learning_model(lambda v: -20.0 * v), x)
    log_weights = log_evidence - 20.0 * steps[:, None]
    weights = np.exp(log_weights - log_weights.max())
    marginal = weights.sum(1) / weights.sum()
    mean = marginal @ steps
    sd = np.sqrt(marginal @ (steps - mean) ** 2)
    assert abs(post.parameters["prior.scale"].mean - mean) < 0.1 * sd


def test_points_have_the_density_they_claim():
    center, covariance = np.array([1.0, -2.0]), np.array([[0.5, 0.2], [0.2, 0.3]])
    frame = cover_points.Frame.of(center, covariance, np.ones(2), np.ones(2))
    drawn = cover_points.drawn(4096, np.array([[1.0, 0.7], [1.5, 1.2]]))
    raws, log_density = frame.place(drawn.apart), drawn.log_density - frame.log_volume
    target = (
        -0.5 * np.einsum("pi,ij,pj->p", raws - center, np.linalg.inv(covariance), raws - center)
        - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    weights = np.exp(target - log_density)
    np.testing.assert_allclose(weights.mean(), 1.0, atol=0.02)
    mean = weights @ raws / len(raws)
    np.testing.assert_allclose(mean, center, atol=0.03)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_grid_integrates_a_density_to_its_tails(dim):
    # A skewed density with an exponential tail: that of the logarithm of a gamma variable.
    def log_density(apart):
        return np.sum(2.0 * apart - np.exp(apart), axis=1)  # integrates to gamma(2) = 1 along every axis

    frame = cover_points.Frame(np.zeros(dim), np.eye(dim), np.ones(dim), np.ones(dim))
    found = cover_points.reach(frame, float(log_density(np.zeros((1, dim)))[0]), log_density)
    laid = cover_points.grid(found.end, np.ones(dim))
    total = np.mean(np.exp(log_density(laid.apart) - laid.log_density))
    np.testing.assert_allclose(total, 1.0, rtol=2e-4)
    # gamma(1): an expectation that lies in the lower tail, as far as that is followed.
    lower = np.mean(np.exp(log_density(laid.apart) - laid.apart[:, 0] - laid.log_density))
    np.testing.assert_allclose(lower, 1.0, atol=0.01)


def test_a_posterior_without_end_has_no_end():
    frame = cover_points.Frame(np.zeros(1), np.eye(1), np.ones(1), np.ones(1))
    found = cover_points.reach(frame, 0.0, lambda raws: np.minimum(raws[:, 0], 0.0))
    assert np.isinf(found.end[1, 0])
    assert found.end[0, 0] >= cover_points.FALLEN


def test_a_layout_puts_numbers_of_any_shape_into_one_vector():
    layout = Layout(
        ("a", "b"), (Support(0.0, np.inf, None), Support(-1.0, 1.0, lambda v: -v)), ((2, 2), ()), flat=False
    )
    raw = jnp.arange(5.0) / 5
    values = layout.values(raw)
    np.testing.assert_allclose(values["a"], np.exp(raw[:4]).reshape(2, 2))
    np.testing.assert_allclose(values["b"], np.tanh(0.4), rtol=1e-12)
    stretch = raw[:4].sum() + np.log(0.5 * (1 - np.tanh(0.4) ** 2))
    np.testing.assert_allclose(layout.log_prior(raw), stretch - np.tanh(0.4), rtol=1e-10)


def test_a_saved_posterior_keeps_the_quantiles_of_its_mixture(walk, tmp_path):
    post = dl.fit(learning_model(), walk[0])
    post.save(tmp_path / "post")
    again = dl.load(tmp_path / "post")
    np.testing.assert_array_equal(again.quantiles, post.quantiles)
    np.testing.assert_array_equal(again.interval(0.5), post.interval(0.5))
    # A file from before quantiles were kept: intervals are normal, as they were.
    older = dataclasses.replace(post, quantiles=None)
    older.save(tmp_path / "older")
    np.testing.assert_allclose(
        dl.load(tmp_path / "older").interval(0.5)[1], stats.norm(post.mean, post.sd).ppf(0.75)
    )


def test_most_probable_values_leave_the_intervals_normal(walk):
    post = dl.fit(learning_model(), walk[0], parameters="maximise")
    assert post.quantiles is None
    np.testing.assert_allclose(post.interval(0.5)[1], stats.norm(post.mean, post.sd).ppf(0.75))
    ahead = post.forecast(3)
    np.testing.assert_allclose(ahead.interval(0.5)[1], stats.norm(ahead.mean, ahead.sd).ppf(0.75))


def test_a_saved_posterior_keeps_its_learnt_numbers(walk, tmp_path):
    post = dl.fit(learning_model(), walk[0], parameters="maximise")
    post.save(tmp_path / "post")
    again = dl.load(tmp_path / "post")
    assert again.parameters.keys() == post.parameters.keys() == {"prior.scale", "likelihood.scale"}
    assert again.parameters["prior.scale"].mean == post.parameters["prior.scale"].mean
    assert again.model.prior.scale == post.parameters["prior.scale"].mean


@pytest.mark.parametrize("structure", ["chains", "block"])
def test_several_elements_share_what_is_learnt(structure):
    truth = dl.Model(dl.RandomWalk(0.5, shape=(2,)), dl.Gaussian(0.3))
    _, x = truth.simulate(60, seed=1)
    model = dl.Model(dl.RandomWalk(dl.learn(0.1), shape=(2,)), dl.Gaussian(dl.learn(1.0)))
    post = dl.fit(model, x, structure=structure, parameters="maximise")
    assert post.mean.shape == (60, 2)
    assert abs(post.parameters["prior.scale"].mean - 0.5) < 0.15
    assert abs(post.parameters["likelihood.scale"].mean - 0.3) < 0.15


def test_other_methods_do_not_learn():
    with pytest.raises(
        ValueError, match="method 'bbvi' cannot learn prior.scale, likelihood.scale; use method"
    ):
        dl.fit(learning_model(), [1.0, 2.0], method="bbvi")
    with pytest.raises(ValueError, match="parameters must be 'integrate' or 'maximise'"):
        dl.fit(learning_model(), [1.0, 2.0], parameters="guess")


@pytest.mark.skipif(not REFERENCE.exists(), reason="the published posteriors are not at hand")
@pytest.mark.parametrize("name", ["stochastic_volatility_log_sp500_small", "stochastic_volatility_log_sp500"])
def test_the_published_stochastic_volatility_posteriors(name):
    # Long MCMC runs of T = 100 and T = 2516 with all three parameters unknown.
    reference = json.loads((REFERENCE / f"{name}.json").read_text())
    post = dl.fit(dl.StochasticVolatility(), reference["x"])
    published = reference["posterior"]
    for place, key in (
        ("prior.mean", "mean_log_volatility"),
        ("prior.decay", "persistence_of_volatility"),
        ("prior.scale", "white_noise_shock_scale"),
    ):
        mean, sd = published[key]["mean"], published[key]["standard_deviation"]
        assert abs(post.parameters[place].mean - mean) <= 0.25 * sd
        assert 0.8 <= post.parameters[place].sd / sd <= 1.25
    mean, sd = (
        np.array(published["log_volatility"]["mean"]),
        np.array(published["log_volatility"]["standard_deviation"]),
    )
    error = np.abs(post.mean - mean) / sd
    assert np.median(error) <= 0.05
    assert error.max() <= 0.2
    assert (post.sd / sd).min() >= 0.9
    assert (post.sd / sd).max() <= 1.1


@pytest.mark.parametrize(
    ("model", "x", "place"),
    [
        (dl.Model(dl.RandomWalk(0.5), dl.Gaussian(dl.learn(0.5))), [1.0], "likelihood.scale"),
        (dl.Model(dl.AR1(dl.learn(0.0), 0.9, 0.1), dl.Poisson()), [0, 0, 0, 0, 0, 0], "prior.mean"),
    ],
)
def test_numbers_that_the_data_do_not_hold_are_named(model, x, place):
    with pytest.raises(ValueError, match=f"the data do not hold {place}: .* give it a prior"):
        dl.fit(model, x)


@pytest.mark.parametrize("shape", [(2,), (1, 2)])
@pytest.mark.parametrize("structure", ["chains", "block"])
def test_the_mixture_has_the_moments_of_its_fits(structure, shape, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)  # three points in two parts, which overlap
    scales, weights = (0.1, 0.4, 1.5), np.array([0.3, 0.1, 0.6])
    x = [3.0, 9.0, 1.0, 0.0, 12.0]
    model = dl.Model(dl.RandomWalk(dl.learn(0.2, positive=True), shape=shape), dl.Gaussian(2.0))
    data = np.array([x, x[::-1]]).T.reshape(5, *shape)
    fits = [
        dl.fit(
            dl.Model(dl.RandomWalk(scale, shape=shape), dl.Gaussian(2.0)),
            data,
            structure=structure,
            tolerance=1e-12,
        )
        for scale in scales
    ]
    observations = observe(data, np.ones(4), model.likelihood, shape)
    number = model.prior.scale
    raws = np.array([number.support.to_raw(scale) for scale in scales]).reshape(-1, 1)
    settings = newton.Settings(max_iterations=100, tolerance=1e-12)
    problem = LearningProblem.of(model, observations, settings, flat=False, is_panel=False)
    mixed, quantiles = mixture.mixed(raws, weights, fits[0].q, problem)
    means = np.array([fit.mean for fit in fits])
    mean = np.tensordot(weights, means, 1)
    assert np.abs(mean - means[0]).max() > 0.3
    variances = np.array([fit.q.variances() for fit in fits]) + (means - mean) ** 2
    lags = (
        np.array([fit.q.lag_covariances() for fit in fits]) + (means - mean)[:, :-1] * (means - mean)[:, 1:]
    )
    np.testing.assert_allclose(mixed.mean, mean, atol=1e-6)
    np.testing.assert_allclose(mixed.variances(), np.tensordot(weights, variances, 1), rtol=1e-6)
    np.testing.assert_allclose(mixed.lag_covariances(), np.tensordot(weights, lags, 1), atol=1e-6)
    sd = np.sqrt(np.tensordot(weights, variances, 1))
    sds = np.array([fit.sd for fit in fits])
    for score, quantile in zip(SCORES[4:-4], np.asarray(quantiles)[4:-4], strict=True):
        below = np.tensordot(weights, stats.norm.cdf((mean + sd * quantile - means) / sds), 1)
        np.testing.assert_allclose(below, stats.norm.cdf(score), atol=0.005)


@pytest.mark.slow
def test_gaps_that_are_not_there_do_not_count():
    # At points with a tiny scale of Student-t noise, half the variance of the log weight is a thousand nats.
    truth, _, post = fit_replicate("level", 106)
    assert post.converged
    for place, value in truth.items():
        assert abs(post.parameters[place].mean - value) < 3 * post.parameters[place].sd


@pytest.mark.parametrize("parameters", ["integrate", "maximise"])
def test_a_number_without_bounds_is_learnt_the_same_in_any_unit(parameters):
    _, x = dl.Model(dl.AR1(3.0, 0.8, 0.5), dl.Gaussian(0.7)).simulate(30, seed=1)

    def level(unit):
        model = dl.Model(dl.AR1(dl.learn(0.0), 0.8, 0.5 * unit), dl.Gaussian(0.7 * unit))
        post = dl.fit(model, unit * x, parameters=parameters)
        assert post.converged
        return np.array([post.parameters["prior.mean"].mean, post.parameters["prior.mean"].sd]) / unit

    usual = level(1.0)
    for unit in (1e-6, 1e-3, 1e3, 1e6):
        np.testing.assert_allclose(level(unit), usual, rtol=1e-4)


@pytest.mark.slow
def test_a_wide_level_of_a_heavy_volatility_is_not_taken_for_improper():
    truth, _, post = fit_replicate("volatility, all defaults", 52)
    assert truth["prior.scale"] > 20  # so that the level is known to about a hundred
    assert post.converged, post.message
    for place, value in truth.items():
        assert abs(post.parameters[place].mean - value) < 3 * post.parameters[place].sd


def test_many_numbers_are_not_taken_for_improper():
    # Forty standard deviations add up to more than four, though none of the numbers is far out.
    model = dl.Model(dl.RandomWalk(dl.learn(np.full(40, 0.5)), shape=(40,)), dl.Gaussian(0.2))
    _, x = dl.Model(dl.RandomWalk(0.5, shape=(40,)), dl.Gaussian(0.2)).simulate(30, seed=0)
    found = dl.fit(model, x).parameters["prior.scale"]
    assert found.mean.shape == (40,)
    assert np.abs((found.mean - 0.5) / found.sd).max() < 4.5


def test_a_number_for_every_step_can_be_learnt():
    likelihood = dl.Poisson(exposure=dl.learn(np.ones(5), prior=lambda v: -50.0 * (v - 1.0) ** 2))
    post = dl.fit(dl.Model(dl.RandomWalk(0.1, initial_mean=1.0), likelihood), [3, 5, 4, 6, 2])
    assert post.mean.shape == post.parameters["likelihood.exposure"].mean.shape == (5,)


def test_ctrl_c_returns_the_most_probable_numbers_so_far():
    model = dl.Model(dl.RandomWalk(dl.learn(0.01), initial_mean=1.0), dl.Poisson())
    x = np.random.default_rng(0).poisson(4.0, 40)

    def stop(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    post = dl.fit(model, x, progress=stop)
    assert not post.converged
    assert post.message == "interrupted after 2 moves of the learnt numbers, not averaged over them"
    assert post.parameters["prior.scale"].mean > 0.01
    assert post.parameters["prior.scale"].sd == 0.0


@pytest.mark.parametrize("shared", [True, False])
def test_ctrl_c_while_averaging_returns_modes(monkeypatch, shared):
    model = dl.Model(dl.RandomWalk(dl.learn(0.2), initial_mean=1.0), dl.Poisson())
    x = np.random.default_rng(0).poisson(4.0, (40, 3))
    averaged, calls = integration._averaged, []

    def tired(*arguments):
        calls.append(arguments)
        if len(calls) == 1 + (not shared):
            raise KeyboardInterrupt
        return averaged(*arguments)

    monkeypatch.setattr(integration, "_averaged", tired)
    panel = dl.fit(model, x, shared=shared)
    left = [0, 1, 2] if shared else [1, 2]
    assert not panel.converged_each[left].any()
    assert len(calls) == 1 + (not shared)
    for series in left:
        number = panel[series].parameters["prior.scale"]
        assert number.sd == 0.0
        fixed = dl.Model(dl.RandomWalk(number.mean, initial_mean=1.0), dl.Poisson())
        np.testing.assert_allclose(panel.mean[:, series], dl.fit(fixed, x[:, series]).mean, rtol=1e-5)
    if not shared:
        assert panel.converged_each[0]
        assert panel.parameters[0]["prior.scale"].sd > 0.0


def test_numbers_around_which_every_fit_fails_are_refused(monkeypatch):
    model = dl.Model(dl.RandomWalk(dl.learn(0.2)), dl.Poisson())
    failed = lambda raws, *_: (np.full(len(raws), -np.inf), np.zeros(len(raws)))  # noqa: E731
    monkeypatch.setattr(covering, "known_heights", failed)
    with pytest.raises(ValueError, match="none of .* fits of the path .* parameters='maximise'"):
        dl.fit(model, [3, 5, 4])


@pytest.mark.slow
def test_the_gap_is_that_of_a_diagnosis():
    model = dl.Model(dl.AR1(-1.0, 0.95, 0.3), dl.LogVolatility())
    _, x = model.simulate(1000, seed=1)
    post = dl.fit(model, x)
    gap = float(heights._gap(model, post.q, observe(x, np.ones(999), model.likelihood, ()))[0])
    found = post.diagnose()
    assert found.gap > 10 * found.gap_error
    # Eq. (30) takes each step by itself; steps go together here, and that makes about half of the gap.
    assert 0.4 * found.gap < gap < found.gap + found.gap_error
