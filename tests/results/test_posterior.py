import dataclasses

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from scipy import stats

import driftline as dl
from driftline.results.posterior import KIND
from driftline.storage import checked_files as files

DATES = np.array(["2024-01-01", "2024-01-02", "2024-01-05", "2024-01-06"], dtype="datetime64[D]")


@pytest.fixture(scope="module")
def post():
    model = dl.Model(dl.RandomWalk(0.5), dl.Gaussian(0.3))
    return dl.fit(model, [1.0, np.nan, 2.0, 1.5], times=DATES, method="exact")


def test_intervals_are_normal_quantiles(post):
    assert post.quantiles is None
    lower, upper = post.interval(0.8)
    np.testing.assert_allclose(lower, stats.norm(post.mean, post.sd).ppf(0.1))
    np.testing.assert_allclose(upper, stats.norm(post.mean, post.sd).ppf(0.9))
    with pytest.raises(ValueError, match="lies between 0 and 1, got 90"):
        post.interval(90)


def test_samples_are_paths_with_the_posterior_s_covariance(post):
    num, false_alarm = 40_000, 1e-6
    paths = post.sample(num, seed=1)
    assert paths.shape == (num, 4)
    white = np.asarray(post.q.precision()[0])  # keep the dense matrix out of the package's hands
    diag, off = np.asarray(post.q.precision()[0]), np.asarray(post.q.precision()[1])
    precision = np.diag(diag) + np.diag(off, 1) + np.diag(off, -1)
    white = (paths - post.mean) @ np.linalg.cholesky(precision)
    z = (white.T @ white / num - np.eye(4)) * np.sqrt(num) / np.where(np.eye(4) == 1, np.sqrt(2), 1)
    assert np.abs(z).max() < stats.norm.isf(false_alarm / 20)
    np.testing.assert_array_equal(paths[:3], post.sample(num, seed=1)[:3])
    with pytest.raises(ValueError, match="at least one path"):
        post.sample(0)


def test_a_frame_keeps_the_dates(post):
    frame = post.to_frame(0.5)
    assert list(frame.columns) == ["observed", "mean", "sd", "lower", "upper"]
    assert list(frame.index) == list(pandas.to_datetime(DATES))
    np.testing.assert_array_equal(frame["lower"], post.interval(0.5)[0])
    assert np.isnan(frame["observed"].iloc[1])


def test_a_frame_of_several_elements_has_a_row_for_each():
    model = dl.Model(dl.RandomWalk(shape=(2, 3)), dl.Gaussian())
    post = dl.fit(model, np.arange(24.0).reshape(4, 2, 3), method="exact")
    frame = post.to_frame()
    assert frame.index.names == ["time", "element_0", "element_1"]
    assert frame.loc[(2, 1, 0), "mean"] == post.mean[2, 1, 0]


def test_a_saved_posterior_comes_back_the_same(post, tmp_path):
    post.save(tmp_path / "nile.dl")
    again = dl.load(tmp_path / "nile.dl")
    for name in ("mean", "sd", "values", "times"):
        np.testing.assert_array_equal(getattr(again, name), getattr(post, name))
    assert again.times.dtype == post.times.dtype
    for name in ("elbo", "converged", "iterations", "message", "method", "time_unit"):
        assert getattr(again, name) == getattr(post, name)
    np.testing.assert_array_equal(again.sample(3), post.sample(3))
    assert type(again.model.prior) is dl.RandomWalk
    assert again.model.prior.scale == 0.5
    refit = dl.fit(again.model, again.values, times=again.times, method="exact")
    np.testing.assert_array_equal(refit.mean, post.mean)


@pytest.mark.parametrize("resolution", ["Y", "D", "s", "us"])
def test_dates_that_nanoseconds_do_not_reach_are_saved(resolution, tmp_path):
    times = np.array(["1066-01-01", "1500-01-01", "2500-01-01"], dtype=f"datetime64[{resolution}]")
    post = dl.fit(dl.Model(dl.RandomWalk(), dl.Gaussian()), [1.0, 2.0, 4.0], times=times, method="exact")
    post.save(tmp_path / "post")
    again = dl.load(tmp_path / "post")
    np.testing.assert_array_equal(again.times, times)
    assert again.times.dtype == times.dtype
    assert again.time_unit == post.time_unit > np.timedelta64(1, "D")


def test_files_with_dates_in_nanoseconds_are_still_read(post, tmp_path):
    post.save(tmp_path / "new")
    arrays, facts = files.read(tmp_path / "new", KIND)
    arrays["times"] = post.times.astype("datetime64[ns]").astype(np.int64)
    facts |= {"dates": facts.pop("times"), "time_unit_ns": facts.pop("time_unit")[0]}
    files.write(tmp_path / "old", KIND, arrays, facts)
    again = dl.load(tmp_path / "old")
    np.testing.assert_array_equal(again.times, post.times)
    assert again.times.dtype == post.times.dtype
    assert again.time_unit == post.time_unit


@pytest.mark.parametrize(
    ("family", "options"),
    [
        (dl.GaussMarkov, {"method": "bbvi"}),
        (dl.BlockGaussMarkov, {"method": "bbvi", "structure": "block"}),
        (dl.MeanField, {"method": "mean-field"}),
        (dl.FullRank, {"method": "bbvi"}),
    ],
)
def test_history_and_every_family_are_saved(family, options, tmp_path):
    model = dl.Model(dl.RandomWalk(shape=(2,)), lambda x, z: -jnp.sum((x - z) ** 2))
    post = dl.fit(model, np.ones((3, 2)), max_iterations=100, **options)
    if family is dl.FullRank:  # no method fits one, but it is a posterior as good as any
        factor = np.eye(6) + np.triu(np.full((6, 6), 0.3), 1)
        post = dataclasses.replace(post, q=dl.FullRank(post.q.mean, jnp.asarray(factor)))
    post.save(tmp_path / "post")
    again = dl.load(tmp_path / "post")
    assert type(again.q) is family
    for name in ("mean", "sd"):
        np.testing.assert_array_equal(getattr(again, name), getattr(post, name))
    np.testing.assert_array_equal(again.sample(3), post.sample(3))
    np.testing.assert_array_equal(again.history["elbo"], post.history["elbo"])
    assert again.model is None  # functions are not written to files


def test_the_plot_shows_mean_band_and_data(post):
    import matplotlib as mpl

    mpl.use("Agg")
    ax = post.plot(0.9, label="level")
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["level"].get_ydata(), post.mean)
    np.testing.assert_array_equal(lines["observed"].get_ydata(), post.values)
    band = ax.collections[0].get_datalim(ax.transData)
    np.testing.assert_allclose([band.y0, band.y1], [post.interval()[0].min(), post.interval()[1].max()])
    doubled = post.plot(transform=lambda z: 2 * z, show_observed=False).get_lines()
    np.testing.assert_array_equal(doubled[0].get_ydata(), 2 * post.mean)


def test_the_repr_says_what_happened(post):
    assert repr(post).startswith("Posterior(4 by exact, ELBO ")
