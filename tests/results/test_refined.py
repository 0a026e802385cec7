"""Draws of the posterior itself: against closed forms, dense grids, published posteriors; and their face."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl
from driftline.infer.sampling import mixing
from driftline.infer.sampling.nuts import AT_ONCE
from driftline.results import refining
from support.shared import REFERENCE
from support.smoothing import chain_moments, condition

TIMES = np.array([0.0, 1.0, 1.2, 3.0, 5.5, 6.0])
X = np.array([0.3, np.nan, 1.0, -0.4, 2.0, 1.1])
LINEAR = dl.Model(dl.OrnsteinUhlenbeck(rate=0.5), dl.Gaussian(0.7))
FEW = {"draws": 50, "warmup": 25, "progress": False}


@pytest.fixture(scope="module")
def exact():
    return dl.fit(LINEAR, X, times=TIMES, method="exact")


@pytest.fixture(scope="module")
def fit():
    return dl.fit(LINEAR, X, times=TIMES)


@pytest.fixture(scope="module")
def found(fit):
    return fit.refine(progress=False)


def scores(draws, mean, sd):
    """By how many standard errors means and variances of draws, (chains, draws, ...), are off."""
    squares = (draws - mean) ** 2
    return np.stack(
        [
            (draws.mean(axis=(0, 1)) - mean) / mixing.error_of_mean(draws),
            (squares.mean(axis=(0, 1)) - sd**2) / mixing.error_of_mean(squares),
        ]
    )


def in_chains(draws, like):
    return draws.reshape(*like.draws.shape[:2], *draws.shape[1:])


def test_draws_have_the_moments_of_the_exact_posterior(found, exact):
    # Twelve scores beyond four in one of 1,300 runs; the seed is fixed.
    assert np.abs(scores(found.draws, exact.mean, exact.sd)).max() < 4
    steps = np.asarray(found.draws)
    together = (steps[..., 1:] - exact.mean[1:]) * (steps[..., :-1] - exact.mean[:-1])
    covariance = np.asarray(jnp.linalg.inv(_dense_precision(exact)))
    lagged = np.diagonal(covariance, 1)
    assert np.abs((together.mean(axis=(0, 1)) - lagged) / mixing.error_of_mean(together)).max() < 4


def _dense_precision(post):
    diag, off = (np.asarray(part) for part in post.q.precision())
    return np.diag(diag) + np.diag(off[: len(diag) - 1], 1) + np.diag(off[: len(diag) - 1], -1)


def test_draws_of_a_normal_posterior_are_good_and_say_so(found):
    assert found.converged
    assert not found.flagged
    assert found.divergences == 0
    assert found.verdict.startswith("good")
    assert found.r_hat < 1.01
    assert found.ess > 400
    assert set(found.r_hats) == set(found.sizes) == {"path"}
    assert "4 chains of 1000 draws" in repr(found)
    assert found.verdict == found.message


def test_mean_sd_intervals_and_samples_are_those_of_the_draws(found):
    flat = found.draws.reshape(-1, len(X))
    np.testing.assert_allclose(found.mean, flat.mean(axis=0))
    np.testing.assert_allclose(found.sd, flat.std(axis=0, ddof=1))
    lower, upper = found.interval(0.8)
    np.testing.assert_allclose(((flat >= lower) & (flat <= upper)).mean(axis=0), 0.8, atol=1e-3)
    some = found.sample(7, seed=3)
    assert some.shape == (7, len(X))
    assert (some[:, None] == flat[None]).all(axis=2).any(axis=1).all()
    assert len(np.unique(found.sample(len(flat))[:, 0])) == len(np.unique(flat[:, 0]))
    np.testing.assert_array_equal(some, found.sample(7, seed=3))
    assert found.sample(2 * len(flat)).shape == (2 * len(flat), len(X))
    with pytest.raises(ValueError, match="at least one path, got n=0"):
        found.sample(0)


def test_tables_and_plots_have_the_moments_of_the_draws(found):
    frame = found.to_frame(0.5)
    np.testing.assert_allclose(frame["mean"], found.mean)
    np.testing.assert_allclose(frame["upper"], found.interval(0.5)[1])
    np.testing.assert_allclose(frame.index, TIMES)
    axes = found.plot(0.9)
    drawn = [line.get_ydata() for line in axes.lines]
    assert any(np.array_equal(line, found.mean) for line in drawn)


def test_arviz_gets_all_draws_chain_by_chain(found):
    pytest.importorskip("arviz_base")
    path = found.to_arviz()["posterior"]["path"]
    assert path.dims == ("chain", "draw", "time")
    np.testing.assert_array_equal(path.values, found.draws)
    np.testing.assert_array_equal(path["time"], TIMES)


def test_forecasts_of_a_linear_prior_are_the_closed_form(found, exact):
    ahead, expected = found.forecast(3), exact.forecast(3)
    np.testing.assert_allclose(ahead.times, expected.times)
    assert np.abs(scores(in_chains(ahead.paths, found), expected.mean, expected.sd)).max() < 4
    at = found.forecast(times=[6.5, 30.0])
    expected = exact.forecast(times=[6.5, 30.0])
    assert np.abs(scores(in_chains(at.paths, found), expected.mean, expected.sd)).max() < 4
    np.testing.assert_array_equal(at.paths, found.forecast(times=[6.5, 30.0]).paths)
    observed = at.observations(4000, seed=2)
    spread = np.sqrt(expected.sd**2 + 0.7**2)
    assert np.abs((observed.mean(axis=0) - expected.mean) / spread).max() < 4 / np.sqrt(2000)
    density = at.log_density(np.array([0.3, np.nan]))
    assert np.isnan(density[1])
    exact_density = -0.5 * ((0.3 - expected.mean[0]) / spread[0]) ** 2 - np.log(
        spread[0] * np.sqrt(2 * np.pi)
    )
    assert abs(density[0] - exact_density) < 0.05


def test_times_between_are_drawn_anew(found, exact):
    between, expected = found.at([2.0]), exact.at([2.0])
    assert np.abs(scores(in_chains(between.paths, found), expected.mean, expected.sd)).max() < 4


def test_the_same_seed_gives_the_same_draws(fit):
    one, same, other = (fit.refine(seed=seed, **FEW) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.draws, same.draws)
    assert np.abs(one.draws - other.draws).max() > 0.1


def test_few_draws_are_flagged(fit):
    few = fit.refine(**FEW)
    assert few.flagged
    assert few.verdict.startswith("doubtful")
    assert "draw more" in few.verdict


def test_files_keep_everything_but_drawing_anew(found, tmp_path):
    found.save(tmp_path / "draws")
    loaded = dl.load(tmp_path / "draws")
    for name in ("draws", "values", "times", "mean", "sd"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(found, name))
    assert loaded.verdict == found.verdict
    np.testing.assert_array_equal(loaded.forecast(2).paths, found.forecast(2).paths)
    with pytest.raises(ValueError, match="does not keep what sampling again needs"):
        loaded.at([2.0])


def test_files_with_numbers_that_the_model_does_not_have_are_refused(found, tmp_path):
    some = np.zeros((4, 1000))
    with_numbers = dataclasses.replace(found, numbers={"prior.nothing": some})
    with_numbers.save(tmp_path / "nothing")
    with pytest.raises(ValueError, match="nothing does not hold sound draws .*prior.nothing"):
        dl.load(tmp_path / "nothing")
    dataclasses.replace(found, numbers={"prior.rate": np.zeros((4, 1000, 2))}).save(tmp_path / "shape")
    with pytest.raises(ValueError, match="shape does not hold sound draws .*prior.rate"):
        dl.load(tmp_path / "shape")


def interrupting(left):
    """Ctrl-C when so many draws are left."""

    def progress(state):
        if state.total - state.draws <= left:
            raise KeyboardInterrupt

    return progress


def test_an_interruption_keeps_the_draws_so_far(fit):
    options = {"draws": 4 * AT_ONCE, "warmup": 25, "seed": 5}
    stopped = fit.refine(**options, progress=interrupting(AT_ONCE))
    whole = fit.refine(**options, progress=False)
    assert stopped.interrupted
    assert not whole.interrupted
    assert "interrupted" in stopped.verdict
    # The part at whose end Ctrl-C came is lost.
    np.testing.assert_array_equal(stopped.draws, whole.draws[:, : 2 * AT_ONCE])


@pytest.mark.parametrize("left", [3 * AT_ONCE, 4 * AT_ONCE, 1000])
def test_an_interruption_before_the_first_draw_is_passed_on(fit, left):
    with pytest.raises(KeyboardInterrupt):
        fit.refine(draws=4 * AT_ONCE, warmup=50, progress=interrupting(left))


def test_an_interruption_ends_the_line_of_progress(fit, monkeypatch):
    closed = []
    monkeypatch.setattr(refining.DrawReporter, "close", lambda self: closed.append(True))
    with pytest.raises(KeyboardInterrupt):
        fit.refine(draws=4 * AT_ONCE, warmup=50, progress=interrupting(1000))
    assert closed == [True]


@pytest.mark.parametrize("warmup", [0, 1, 25, 100])
def test_progress_ends_with_as_many_draws_as_it_announced(fit, warmup):
    told = []
    fit.refine(draws=30, warmup=warmup, progress=told.append)
    assert told[-1].draws == told[-1].total
    assert told[-1].seconds_left == 0


def test_who_has_no_blackjax_is_told_which_extra_has_it(fit, monkeypatch):
    monkeypatch.setattr(refining, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"BlackJAX: pip install 'driftline\[mcmc\]'"):
        fit.refine()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 0}, r"refine\(draws=...\) takes a whole number from 4 on, got 0"),
        ({"draws": 10.0}, r"refine\(draws=...\) .* got 10.0"),
        ({"draws": True}, r"refine\(draws=...\) .* got True"),
        ({"chains": 0}, r"refine\(chains=...\) takes a whole number from 1 on, got 0"),
        ({"warmup": -1}, r"refine\(warmup=...\) takes a whole number from 0 on, got -1"),
        ({"draws": 10**9}, r"4 chains of 1,000,000,000 draws .* 192 GB; ask for at most draws=11184810"),
    ],
)
def test_options_that_make_no_sense_are_refused(fit, options, message):
    with pytest.raises(ValueError, match=message):
        fit.refine(**options)


STEP, NOISE = np.linspace(0.01, 4.0, 130), np.linspace(0.01, 3.0, 120)
WALK = np.array([0.2, 0.9, 0.4, 1.8, 1.5, 2.9, 2.4, 3.6])
LEARNING = dl.Model(
    dl.RandomWalk(dl.learn(0.5, prior=lambda v: -2.0 * v)),
    dl.Gaussian(dl.learn(0.5, prior=lambda v: -2.0 * v)),
)


@pytest.fixture(scope="module")
def learning():
    return dl.fit(LEARNING, WALK)


def on_a_grid():
    """Weights of both scales, and moments of the path given them, by dense conditioning."""
    log_weights = np.empty((len(STEP), len(NOISE)))
    means, seconds = np.empty((2, *log_weights.shape, len(WALK)))
    for i, step in enumerate(STEP):
        prior = chain_moments(0.0, 1.0, np.ones(7), np.zeros(7), np.full(7, step))
        for j, noise in enumerate(NOISE):
            mean, covariance, log_evidence = condition(*prior, WALK, noise)
            log_weights[i, j] = log_evidence - 2.0 * step - 2.0 * noise
            means[i, j], seconds[i, j] = mean, np.diag(covariance) + mean**2
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum(), means, seconds


def test_learnt_numbers_and_path_are_those_of_a_dense_grid(learning, tmp_path):
    found = learning.refine(progress=False)
    weights, means, seconds = on_a_grid()
    places = {"prior.scale": (STEP, weights.sum(1)), "likelihood.scale": (NOISE, weights.sum(0))}
    assert set(found.parameters) == set(places)
    for place, (grid, marginal) in places.items():
        mean = marginal @ grid
        sd = np.sqrt(marginal @ (grid - mean) ** 2)
        # A cell is a thirtieth of a standard deviation, and its error far less.
        assert np.abs(scores(found.numbers[place], mean, sd)).max() < 4
        assert found.parameters[place].mean == pytest.approx(found.numbers[place].mean())
    mean = np.einsum("ij,ijt->t", weights, means)
    sd = np.sqrt(np.einsum("ij,ijt->t", weights, seconds) - mean**2)
    assert np.abs(scores(found.draws, mean, sd)).max() < 4
    found.save(tmp_path / "draws")
    loaded = dl.load(tmp_path / "draws")
    for place in places:
        np.testing.assert_array_equal(loaded.numbers[place], found.numbers[place])
    # The variance of a step ahead is that of the last step and of a step of unknown size.
    ahead = found.forecast(1).paths[:, 0]
    last = found.draws[..., -1].reshape(-1)
    expected = last.var() + np.mean(found.numbers["prior.scale"] ** 2)
    assert abs(ahead.var() / expected - 1) < 0.15


def test_fits_that_know_too_little_of_their_numbers_are_refused(learning, tmp_path):
    learning.save(tmp_path / "fit")
    with pytest.raises(
        ValueError, match="priors of the learnt numbers are not known .* fit the series on its"
    ):
        dl.load(tmp_path / "fit").refine()
    top = dl.fit(LEARNING, WALK, parameters="maximise")
    with pytest.raises(ValueError, match="only the most probable values .* parameters='integrate'"):
        top.refine()


def walking_prior():
    """A random walk with steps of 0.5 as a `MarkovPrior`, which is not known to be linear."""
    return dl.MarkovPrior(
        initial=lambda z: -0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi),
        transition=lambda z, before, dt: (
            -0.5 * ((z - before) / 0.5) ** 2 - jnp.log(0.5 * jnp.sqrt(2 * jnp.pi))
        ),
        draw_initial=lambda key: jax.random.normal(key),
        draw_transition=lambda key, before, dt: before + 0.5 * jax.random.normal(key),
    )


@pytest.mark.slow
def test_forecasts_of_a_markov_prior_are_drawn_anew(tmp_path):
    found = dl.fit(dl.Model(walking_prior(), dl.Gaussian(0.7)), WALK[:5]).refine(draws=500, progress=False)
    exact = dl.fit(dl.Model(dl.RandomWalk(0.5), dl.Gaussian(0.7)), WALK[:5], method="exact")
    assert np.abs(scores(found.draws, exact.mean, exact.sd)).max() < 4
    expected = exact.forecast(1)
    ahead = in_chains(found.forecast(1).paths, found)
    assert np.abs(scores(ahead, expected.mean, expected.sd)).max() < 4
    found.save(tmp_path / "draws")  # without its functions
    with pytest.raises(ValueError, match="does not keep functions, so its model is not known"):
        dl.load(tmp_path / "draws").forecast(1)


PUBLISHED = {
    "prior.mean": "mean_log_volatility",
    "prior.decay": "persistence_of_volatility",
    "prior.scale": "white_noise_shock_scale",
}


@pytest.mark.skipif(not REFERENCE.exists(), reason="the published posteriors are not at hand")
@pytest.mark.parametrize(
    "name",
    [
        "stochastic_volatility_log_sp500_small",
        pytest.param("stochastic_volatility_log_sp500", marks=pytest.mark.slow),
    ],
)
def test_the_published_posteriors_of_stochastic_volatility(name):
    reference = json.loads((REFERENCE / f"{name}.json").read_text())
    found = dl.fit(dl.StochasticVolatility(), reference["x"]).refine(progress=False)
    assert found.converged, found.verdict
    everything = {key: found.numbers[place] for place, key in PUBLISHED.items()} | {
        "log_volatility": found.draws
    }
    for key, draws in everything.items():
        published = {what: np.array(value) for what, value in reference["posterior"][key].items()}
        error = np.hypot(mixing.error_of_mean(draws), published["mean_standard_error"])
        score = np.abs(draws.mean(axis=(0, 1)) - published["mean"]) / error
        assert score.max() < 5, key
