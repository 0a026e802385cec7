import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from scipy import stats

import driftline as dl
from support.smoothing import condition

TIMES = np.array([0.0, 1.0, 1.5, 4.0, 5.0])
X = np.array([0.3, 1.0, np.nan, -0.5, 0.4])
NEW = np.array([-1.0, 0.5, 1.5, 4.5, 7.0])


@pytest.fixture(scope="module")
def returning():
    """An Ornstein-Uhlenbeck posterior, and the dense conditional at new times by NumPy."""
    model = dl.Model(dl.OrnsteinUhlenbeck(mean=0.5, rate=0.4, scale=0.9), dl.Gaussian(0.3))
    everything = np.unique(np.concatenate([TIMES, NEW]))
    lags = np.abs(np.subtract.outer(everything, everything))
    x = np.full(len(everything), np.nan)
    x[np.searchsorted(everything, TIMES)] = X
    mean, covariance, _ = condition(np.full(len(x), 0.5), 0.81 / 0.8 * np.exp(-0.4 * lags), x, 0.3)
    return dl.fit(model, X, times=TIMES), everything, mean, covariance


def test_any_time_equals_dense_conditioning(returning):
    post, everything, mean, covariance = returning
    steps = np.searchsorted(everything, NEW)
    there = post.at(NEW)
    np.testing.assert_allclose(there.mean, mean[steps], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(there.sd, np.sqrt(np.diag(covariance))[steps], rtol=1e-9)
    lower, upper = there.interval(0.5)
    np.testing.assert_allclose(upper - lower, 2 * stats.norm.ppf(0.75) * there.sd)
    np.testing.assert_allclose(post.at(TIMES).mean, post.mean, rtol=1e-9)


def test_times_keep_their_order_and_may_repeat(returning):
    post, *_ = returning
    there, back = post.at(NEW), post.at([*NEW[::-1], NEW[2]])
    np.testing.assert_array_equal(back.mean, [*there.mean[::-1], there.mean[2]])
    np.testing.assert_array_equal(back.times, [*NEW[::-1], NEW[2]])
    np.testing.assert_array_equal(back.sample(2)[:, 2], back.sample(2)[:, 5])
    assert post.at(0.5).mean == there.mean[1]


def test_times_that_differ_by_rounding_are_the_same():
    times, again = np.linspace(0, 1, 11), np.arange(11) / 10
    assert (times != again).any()
    post = dl.fit(dl.Model(dl.RandomWalk(1.0), dl.Gaussian(0.1)), np.sin(times), times=times)
    np.testing.assert_allclose(post.at(again).mean, post.mean, rtol=1e-9)
    np.testing.assert_allclose(post.at(again).sd, post.sd, rtol=1e-9)
    close = dl.fit(post.model, [1.0, 2.0, 3.0], times=[0.0, 1e-12, 1.0])
    np.testing.assert_allclose(close.at([0.0, 1e-12]).mean, close.mean[:2], rtol=1e-6)


def test_a_path_that_begins_somewhere_says_nothing_of_earlier_times():
    for prior in (
        dl.RandomWalk(0.2),
        dl.MarkovPrior(lambda z: -(z**2), lambda z, y, dt: -((z - y) ** 2) / dt),
    ):
        post = dl.fit(dl.Model(prior, dl.Gaussian(0.3)), X, times=TIMES)
        with pytest.raises(
            ValueError, match=rf"{type(prior).__name__} begins at the first step, 0.0, .* -1.0"
        ):
            post.at([2.0, -1.0])


def test_a_far_forecast_of_counts_still_knows_the_data():
    post = dl.fit(dl.Model(dl.RandomWalk(1.0), dl.Poisson()), [20, 25, 22])
    ahead = post.forecast(1600)  # where a variance of 1,600 makes the expected rate overflow
    np.testing.assert_allclose(ahead.mean, post.mean[-1], rtol=1e-6)
    np.testing.assert_allclose(ahead.sd[-1] ** 2, post.sd[-1] ** 2 + 1600, rtol=1e-6)


def test_a_prediction_that_cannot_be_fitted_is_refused():
    # Quadrature reaches below zero, where this likelihood has no value.
    model = dl.Model(dl.RandomWalk(0.5, initial_mean=4.0, initial_scale=2.0), lambda x, z: x * jnp.log(z) - z)
    post = dl.fit(model, [3.0, 5.0, 4.0], method="bbvi", max_iterations=50)
    with pytest.raises(ValueError, match="its ELBO is not finite.*method='bbvi'"):
        post.forecast(3)


def test_paths_can_be_drawn_without_a_way_to_draw_observations():
    post = dl.fit(dl.Model(dl.RandomWalk(), lambda x, z: -((x - z) ** 2)), [1.0, 2.0])
    assert post.forecast(3).sample(4).shape == (4, 3)


def test_a_function_of_single_numbers_has_a_density():
    own = dl.Model(
        dl.RandomWalk(), lambda x, z: -0.5 * ((x - z) / 0.1) ** 2 - jnp.log(0.1 * jnp.sqrt(2 * jnp.pi))
    )
    ours = dl.Model(dl.RandomWalk(), dl.Gaussian(0.1))
    one, other = (dl.fit(model, [1.0, 2.0]).forecast(2).log_density([1.5, 0.0]) for model in (own, ours))
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_likelihood_of_whole_steps_has_no_density_for_each_number():
    model = dl.Model(dl.RandomWalk(shape=(2,)), lambda x, z: -jnp.sum((x - z) ** 2))
    with pytest.raises(ValueError, match="Likelihood sees a step as a whole"):
        dl.fit(model, np.ones((4, 2))).forecast(1).log_density(np.ones((1, 2)))


def test_the_predictive_density_is_the_gaussian_of_path_and_noise(returning):
    post, everything, mean, covariance = returning
    steps = np.searchsorted(everything, NEW)
    held_out = np.array([0.1, np.nan, 2.0, -1.0, 0.5])
    sd = np.sqrt(np.diag(covariance)[steps] + 0.09)
    expected = stats.norm(mean[steps], sd).logpdf(held_out)
    np.testing.assert_allclose(post.at(NEW).log_density(held_out), expected, rtol=1e-6)
    assert np.isnan(post.at(NEW).log_density(np.full(5, np.nan))).all()
    with pytest.raises(ValueError, match="one number for each of"):
        post.at(NEW).log_density([1.0])


def test_draws_of_path_and_observations_have_the_right_spread(returning):
    post, everything, mean, covariance = returning
    steps = np.searchsorted(everything, NEW)
    num, false_alarm = 20_000, 1e-6
    paths = post.at(NEW).sample(num, seed=1)
    assert paths.shape == (num, 5)
    white = (paths - mean[steps]) @ np.linalg.inv(np.linalg.cholesky(covariance[np.ix_(steps, steps)])).T
    z = (white.T @ white / num - np.eye(5)) * np.sqrt(num) / np.where(np.eye(5) == 1, np.sqrt(2), 1)
    assert np.abs(z).max() < stats.norm.isf(false_alarm / 30)
    data = post.at(NEW).observations(num, seed=1)
    ratio = data.var(axis=0) / (np.diag(covariance)[steps] + 0.09) - 1
    assert np.abs(ratio * np.sqrt(num / 2)).max() < stats.norm.isf(false_alarm / 10)


def test_a_forecast_of_steps_goes_on_at_the_pace_of_the_series():
    dates = pandas.date_range("2024-01-01", periods=30, freq="W")
    model = dl.Model(dl.RandomWalk(0.2), dl.Poisson())
    _, x = model.simulate(30, seed=0)
    post = dl.fit(model, x, times=dates)
    ahead = post.forecast(4)
    assert list(pandas.to_datetime(ahead.times)) == list(
        dates[-1] + pandas.to_timedelta([7, 14, 21, 28], "D")
    )
    # A random walk stays where it is and gathers variance.
    np.testing.assert_allclose(ahead.mean, post.mean[-1], rtol=1e-4)
    np.testing.assert_allclose(ahead.sd**2, post.sd[-1] ** 2 + 0.04 * np.arange(1, 5), rtol=1e-4)
    same = post.forecast(times=ahead.times)
    np.testing.assert_array_equal(same.mean, ahead.mean)
    assert ahead.observations(50).min() >= 0


def test_an_ar1_forecasts_steps_but_knows_no_time_between_them():
    post = dl.fit(dl.Model(dl.AR1(mean=2.0, decay=0.5, scale=0.3), dl.Gaussian(0.1)), [1.0, 3.0, 2.5])
    ahead = post.forecast(2)
    expected = 2.0 + (post.mean[-1] - 2.0) * np.array([0.5, 0.25])
    np.testing.assert_allclose(ahead.mean, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="AR1 counts steps and does not know times between them"):
        post.at([0.5])
    with pytest.raises(ValueError, match="AR1 counts steps"):
        post.forecast(times=[12.0])


def test_learnt_numbers_widen_a_forecast():
    truth = dl.Model(dl.RandomWalk(0.3), dl.Gaussian(0.5))
    _, x = truth.simulate(40, seed=3)
    model = dl.Model(dl.RandomWalk(dl.learn(0.3)), dl.Gaussian(dl.learn(0.5)))
    integrated = dl.fit(model, x)
    maximised = dl.fit(model, x, parameters="maximise")
    np.testing.assert_allclose(integrated.at(np.arange(40)).mean, integrated.mean, atol=0.02)
    np.testing.assert_allclose(integrated.at(np.arange(40)).sd, integrated.sd, rtol=0.02)
    np.testing.assert_allclose(
        integrated.at(np.arange(40)).interval(0.5), integrated.interval(0.5), atol=0.05 * integrated.sd.max()
    )
    fixed = dl.Model(
        dl.RandomWalk(maximised.parameters["prior.scale"].mean),
        dl.Gaussian(maximised.parameters["likelihood.scale"].mean),
    )
    np.testing.assert_allclose(maximised.forecast(3).sd, dl.fit(fixed, x).forecast(3).sd, rtol=1e-6)
    assert np.all(integrated.forecast(3).sd > dl.fit(fixed, x).forecast(3).sd)
    assert integrated.forecast(3).observations(7).shape == (7, 3)


def test_intervals_of_a_forecast_are_those_of_its_draws():
    # Far ahead of few data, where the size of a step is uncertain: heavy tails, and a narrow middle.
    _, x = dl.Model(dl.RandomWalk(0.3), dl.Gaussian(0.5)).simulate(15, seed=3)
    scale = dl.learn(0.3, positive=True, prior=lambda v: -jnp.log(v) - 0.5 * jnp.log(v / 0.3) ** 2)
    ahead = dl.fit(dl.Model(dl.RandomWalk(scale), dl.Gaussian(0.5)), x).forecast(10)
    num, false_alarm = 40_000, 1e-6
    paths = ahead.sample(num, seed=1)
    for probability in (0.5, 0.9):
        lower, upper = ahead.interval(probability)
        covered = np.mean((lower < paths) & (paths < upper), axis=0)
        error = np.sqrt(probability * (1 - probability) / num)
        assert np.abs(covered - probability).max() < stats.norm.isf(false_alarm / 40) * error
    normal = stats.norm.ppf(0.75) * ahead.sd[-1]
    assert ahead.interval(0.5)[1][-1] - ahead.mean[-1] < 0.95 * normal


def test_what_cannot_be_predicted_is_said(tmp_path):
    model = dl.Model(dl.RandomWalk(), lambda x, z: -((x - z) ** 2))
    post = dl.fit(model, [1.0, 2.0])
    with pytest.raises(ValueError, match="told how"):
        post.forecast(2).observations(3)
    post.save(tmp_path / "post")
    with pytest.raises(ValueError, match="does not keep functions"):
        dl.load(tmp_path / "post").forecast(2)
    with pytest.raises(ValueError, match="either a number of steps or times"):
        post.forecast()
    with pytest.raises(ValueError, match="at least one step ahead"):
        post.forecast(0)
    with pytest.raises(ValueError, match="forecast looks ahead of 1"):
        post.forecast(times=[0.5])
    exposed = dl.fit(dl.Model(dl.RandomWalk(), dl.Poisson(exposure=[1.0, 2.0])), [1, 2])
    with pytest.raises(ValueError, match="such as an exposure"):
        exposed.forecast(1)


@pytest.mark.parametrize(
    ("likelihood", "x", "message"),
    [
        (dl.Poisson(), [-1.0, 2.0], "observation -1 at step 0 is impossible: Poisson takes whole numbers"),
        (dl.Poisson(), [1.0, 2.5], "observation 2.5 at step 1 is impossible"),
        (dl.Poisson(), [1.0, np.inf], "observation inf at step 1 is infinite"),
        (dl.Poisson(), [1.0, "two"], "observation 'two' at step 1 is not a number"),
        (dl.Binomial(3), [1.0, 4.0], "more successes than trials"),
    ],
)
def test_what_cannot_be_observed_has_no_density(likelihood, x, message):
    ahead = dl.fit(dl.Model(dl.RandomWalk(), likelihood), [1, 2, 3]).forecast(2)
    with pytest.raises((TypeError, ValueError), match=message):
        ahead.log_density(x)


def test_a_return_of_nothing_has_a_density():
    ahead = dl.fit(dl.Model(dl.RandomWalk(), dl.LogVolatility()), [0.1, -0.2, 0.3]).forecast(1)
    draws = ahead.sample(200_000)[:, 0]
    terms = stats.norm(0, np.exp(draws / 2)).pdf(0.0)
    found = np.exp(ahead.log_density([0.0])[0])
    assert abs(found - terms.mean()) < 5 * terms.std() / np.sqrt(len(terms))


@pytest.mark.parametrize("steps", [2.5, True, "3", 2.0])
def test_a_number_of_steps_is_whole(returning, steps):
    with pytest.raises(TypeError, match="forecast takes a whole number of steps, got"):
        returning[0].forecast(steps)


def test_times_are_asked_for_as_the_series_has_them(returning):
    model = dl.Model(dl.RandomWalk(), dl.Gaussian())
    dated = dl.fit(model, [1.0, 2.0], times=["2024-01-01", "2024-01-02"])
    for ask in (dated.at, lambda times: dated.forecast(times=times)):
        with pytest.raises(
            TypeError, match="has dates such as 2024-01-02, but numbers such as 5 are asked for"
        ):
            ask([5])
    with pytest.raises(
        TypeError, match="has numbers such as 5.0, but dates such as 2024-01-01 are asked for"
    ):
        returning[0].at(["2024-01-01"])
    with pytest.raises(ValueError, match="times must be finite, but that of step 1 is nan"):
        returning[0].at([1.0, np.nan])
    with pytest.raises(TypeError, match="times is a generator"):
        returning[0].at(time for time in (1.0, 2.0))
    assert dated.at("2024-01-03").mean.shape == (1,)


def test_only_the_steps_that_are_asked_for_are_kept(returning):
    post, *_ = returning
    # A lone step keeps a neighbour, so that arrays over gaps are not empty.
    for asked, kept in (([7.0], 2), ([0.5, 0.5, -1.0], 2), ([0.5, 7.0, -1.0], 3)):
        leaves = jax.tree.leaves(post.at(asked)._members)
        assert max(leaf.shape[1] for leaf in leaves) == kept


def test_blocks_are_predicted_as_blocks():
    turn = np.array([[0.9, 0.3], [-0.3, 0.9]])
    prior = dl.MarkovPrior(
        initial=lambda z: -0.5 * jnp.sum(z**2),
        transition=lambda z, y, dt: (
            -0.5 * jnp.sum((z - jnp.array([[0.9, 0.3], [-0.3, 0.9]]) @ y) ** 2) / 0.04
        ),
        shape=(2,),
    )
    model = dl.Model(prior, lambda x, z: -0.5 * (x - z[0]) ** 2 / 0.01)
    post = dl.fit(model, np.cos(0.32 * np.arange(20)), structure="block")
    ahead = post.forecast(1)
    np.testing.assert_allclose(ahead.mean[0], turn @ post.mean[-1], atol=1e-6)


@pytest.mark.parametrize("learnt", [True, False])
def test_a_single_time_is_predicted_as_among_others(learnt):
    model = dl.Model(dl.RandomWalk(dl.learn(0.1) if learnt else 0.1, initial_mean=1.0), dl.Poisson())
    post = dl.fit(model, [3.0, 5.0, 2.0, 4.0, 6.0, 3.0], progress=False)
    one, two = post.forecast(1), post.forecast(2)
    np.testing.assert_allclose(one.mean, two.mean[:1], rtol=1e-6)
    np.testing.assert_allclose(one.interval(0.9), np.array(two.interval(0.9))[:, :1], rtol=1e-5)
    np.testing.assert_allclose(one.log_density([4.0]), two.log_density([4.0, 1.0])[:1], rtol=1e-6)
    assert one.sample(3).shape == one.observations(3).shape == (3, 1)
    inside = post.at([2])
    np.testing.assert_allclose(inside.mean, post.at([2, 4]).mean[:1], rtol=1e-6)
