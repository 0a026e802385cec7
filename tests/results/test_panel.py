"""Many series in one call, against fits of each of them alone."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import driftline as dl

MODEL = dl.Model(dl.AR1(1.0, 0.9, 0.3), dl.Poisson())
PAIRS = dl.Model(dl.RandomWalk(shape=(2,)), dl.Poisson())
TWICE = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"])
LEARNT_EXPOSURE = dl.Model(dl.RandomWalk(0.1), dl.Poisson(dl.learn(np.ones(5))))
EXPOSED = dl.Model(dl.RandomWalk(), dl.Poisson(exposure=[1.0, 2.0]))


def counts(num_steps=40, num_series=7, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.poisson(3.0, (num_steps, num_series)).astype(float)
    x[rng.uniform(size=x.shape) < 0.2] = np.nan
    return x


def assert_same(one, alone, atol=1e-9):
    np.testing.assert_allclose(one.mean, alone.mean, atol=atol)
    np.testing.assert_allclose(one.sd, alone.sd, atol=atol)
    np.testing.assert_allclose(one.elbo, alone.elbo, atol=1e-6)
    np.testing.assert_allclose(one.interval(0.9), alone.interval(0.9), atol=1e-5)  # in single precision
    np.testing.assert_array_equal(one.times, alone.times)
    np.testing.assert_array_equal(one.values, alone.values)


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        dl.Model(dl.OrnsteinUhlenbeck(rate=0.3), dl.StudentT(3.0, 1.0)),
        dl.Model(dl.RandomWalk(0.5), dl.Likelihood(lambda x, z: -((x - z) ** 2), elementwise=True)),
    ],
    ids=["poisson", "student", "function"],
)
def test_a_matrix_is_fitted_as_its_columns_are(model):
    x = counts()
    panel = dl.fit(model, x)
    assert panel.converged
    assert panel.mean.shape == panel.sd.shape == x.shape
    for i in range(x.shape[1]):
        alone = dl.fit(model, x[:, i])
        assert_same(panel[i], alone)
        np.testing.assert_array_equal(panel.mean[:, i], panel[i].mean)
        np.testing.assert_array_equal(panel.interval(0.8)[0][:, i], panel[i].interval(0.8)[0])
    np.testing.assert_allclose(panel.elbo, sum(panel[i].elbo for i in panel))


def test_arrays_that_a_function_takes_are_the_same_for_all_series_and_steps():
    def likelihood(x, z, p):
        return -jnp.sum(p["weights"] * (x - z) ** 2)

    own = dl.Likelihood(likelihood, params={"weights": np.array([0.5, 1.0, 3.0])}, elementwise=True)
    model, x = dl.Model(dl.RandomWalk(0.5), own), counts(3, 2)
    x[np.isnan(x)] = 1.0
    panel = dl.fit(model, x)
    for i in range(2):
        assert_same(
            panel[i],
            dl.fit(
                dl.Model(
                    dl.RandomWalk(0.5), dl.Likelihood(lambda x, z: -4.5 * (x - z) ** 2, elementwise=True)
                ),
                x[:, i],
            ),
        )


def test_more_series_than_one_call_takes():
    x = np.tile(counts(20, 6), (1, 101))  # 606, with the last call going over some twice
    panel = dl.fit(MODEL, x)
    for i in (0, 499, 500, 605):
        assert_same(panel[i], dl.fit(MODEL, x[:, i]))
    np.testing.assert_allclose(panel.mean[:, :6], panel.mean[:, 600:], atol=1e-12)


def test_a_frame_keeps_its_columns_and_dates():
    dates = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05", "2024-01-06"])
    frame = pd.DataFrame({"north": [3, 4, None, 6], "south": [1, None, 2, 2]}, index=dates)
    model = dl.Model(dl.RandomWalk(0.3), dl.Poisson())
    panel = dl.fit(model, frame)
    assert list(panel) == ["north", "south"]
    assert_same(panel["south"], dl.fit(model, frame["south"]))
    table = panel.to_frame(0.8)
    assert table.shape == (8, 5)
    assert table.index.names == ["series", "time"]
    np.testing.assert_allclose(table.loc["south", "mean"], panel["south"].mean)
    np.testing.assert_allclose(table.loc["south", "upper"], panel["south"].interval(0.8)[1])
    assert table.loc[("north", dates[3]), "observed"] == 6
    forecast = panel["north"].forecast(2)
    assert forecast.mean.shape == (2,)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_frame_with_a_time_zone_keeps_its_gaps(zone):
    dates = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05", "2024-01-06"]).tz_localize(zone)
    frame = pd.DataFrame({"north": [3, 4, None, 6], "south": [1, None, 2, 2]}, index=dates)
    panel = dl.fit(MODEL, frame)
    for series in panel.series:
        np.testing.assert_allclose(series.gaps, [1.0, 3.0, 1.0])
        np.testing.assert_array_equal(series.times, dates.tz_convert(None).to_numpy())


def test_dated_series_of_a_panel_have_one_unit_of_time():
    days, weeks = (pd.date_range("2024-01-01", periods=n, freq=f) for n, f in ((9, "D"), (4, "7D")))
    x = {
        "daily": pd.Series(np.arange(9.0), index=days),
        "weekly": pd.Series(np.arange(4.0), index=weeks),
        "single": pd.Series([2.0], index=weeks[:1]),
    }
    model = dl.Model(dl.RandomWalk(0.3), dl.Poisson())
    panel = dl.fit(model, x)
    assert {series.unit for series in panel.series} == {np.timedelta64(1, "D")}  # the median of all gaps
    np.testing.assert_allclose(panel["weekly"].mean, dl.fit(model, np.arange(4.0), times=[0, 7, 14, 21]).mean)
    assert_same(panel["weekly"], dl.fit(model, x["weekly"], time_unit=np.timedelta64(1, "D")))
    chosen = dl.fit(model, x, time_unit=np.timedelta64(7, "D"))
    np.testing.assert_allclose(chosen.series[0].gaps, 1 / 7)
    with pytest.raises(TypeError, match="series 'daily': time_unit=7 does not say"):
        dl.fit(model, x, time_unit=7)


@pytest.mark.parametrize(
    ("names", "levels"),
    [
        ([("north", 1), ("north", 2), ("south", 1)], ["series_0", "series_1", "time"]),
        ([("north", 1), "south", ("south",)], ["series", "time"]),
    ],
)
def test_series_with_tuples_for_names_make_a_frame(names, levels):
    panel = dl.fit(MODEL, dict(zip(names, ([1, 2, 3], [4, 5], [6]), strict=True)))
    table = panel.to_frame()
    assert table.index.names == levels
    assert list(table["observed"]) == [1, 2, 3, 4, 5, 6]
    found = [row[:-1] if len(levels) == 3 else row[0] for row in table.index]
    assert found == [names[i] for i in (0, 0, 0, 1, 1, 2)]


def test_a_frame_with_columns_of_several_levels_makes_a_frame():
    columns = pd.MultiIndex.from_tuples([("north", "a"), ("south", "b")])
    table = dl.fit(MODEL, pd.DataFrame([[1, 2], [3, 4]], columns=columns)).to_frame()
    assert table.loc[("south", "b", 1), "observed"] == 4


def test_series_of_different_length_and_times():
    x = {"long": [3, 1, None, 4, 1, 5], "short": [2, 7], "single": [1]}
    times = {"long": [0.0, 1.0, 1.5, 2.0, 7.0, 9.0], "short": [10.0, 12.5], "single": [0.0]}
    model = dl.Model(dl.RandomWalk(0.3), dl.Poisson())
    panel = dl.fit(model, x, times=times)
    for name in x:
        assert_same(panel[name], dl.fit(model, x[name], times=times[name]))
    assert np.isnan(panel.mean[2:, 1]).all()
    assert panel.to_frame().shape == (9, 5)


@pytest.mark.slow
def test_shared_numbers_are_those_of_one_model_for_all():
    # A path with one element per series is the same model, written by hand.
    x = counts(30, 4, seed=1)
    panel = dl.fit(dl.Model(dl.RandomWalk(dl.learn(0.2, positive=True)), dl.Poisson()), x)
    joint = dl.fit(dl.Model(dl.RandomWalk(dl.learn(0.2, positive=True), shape=(4,)), dl.Poisson()), x)
    one, other = panel.parameters["prior.scale"], joint.parameters["prior.scale"]
    np.testing.assert_allclose(one.mean, other.mean, rtol=0.02)
    np.testing.assert_allclose(one.sd, other.sd, rtol=0.05)
    np.testing.assert_allclose(panel.mean, joint.mean, atol=0.02 * joint.sd.max())
    np.testing.assert_allclose(panel.sd, joint.sd, rtol=0.02)
    np.testing.assert_allclose(panel.quantiles, joint.quantiles, atol=0.05)
    np.testing.assert_array_equal(panel.interval(0.5)[1][:, 2], panel[2].interval(0.5)[1])
    assert panel.shared
    assert panel[2].parameters is panel.parameters
    # More series, a narrower posterior than that of any one alone.
    assert (
        one.sd
        < dl.fit(dl.Model(dl.RandomWalk(dl.learn(0.2)), dl.Poisson()), x[:, 0]).parameters["prior.scale"].sd
    )


@pytest.mark.parametrize("parameters", ["integrate", "maximise"])
def test_numbers_of_their_own_are_those_of_single_fits(parameters):
    model = dl.Model(dl.RandomWalk(dl.learn(0.2, positive=True)), dl.Poisson())
    x = counts(256, 2, seed=2)  # a length that is not filled up, so that the same noise serves both
    panel = dl.fit(model, x, shared=False, parameters=parameters)
    for i in range(2):
        alone = dl.fit(model, x[:, i], parameters=parameters)
        np.testing.assert_allclose(
            panel.parameters[i]["prior.scale"].mean, alone.parameters["prior.scale"].mean
        )
        assert_same(panel[i], alone)
        np.testing.assert_allclose(panel[i].interval(0.5), alone.interval(0.5), atol=1e-5)
        np.testing.assert_array_equal(panel.interval(0.5)[0][:, i], panel[i].interval(0.5)[0])
    assert not panel.shared


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dl.fit(MODEL, counts(), method="bbvi"), "a panel is fitted by method='newton'"),
        (lambda: dl.fit(MODEL, counts(), structure="block"), "one by one for that"),
        (lambda: dl.fit(MODEL, {}), "the panel is empty"),
        (lambda: dl.fit(MODEL, TWICE), "2 series are called 'a'"),
        (lambda: dl.fit(LEARNT_EXPOSURE, counts(5)), "one by one"),
        (lambda: dl.fit(MODEL, {"a": [1], "b": [-1, 2]}), "series 'b'.*Poisson"),
        (lambda: dl.fit(MODEL, {"a": [1], "b": []}), "series 'b': the series is empty"),
        (lambda: dl.fit(MODEL, {"a": [1], "b": [None]}), "series 'b': all 1 steps"),
        (lambda: dl.fit(MODEL, {"a": [1, 2]}, times={"b": [0, 1]}), "no entry for series 'a'"),
        (lambda: dl.fit(MODEL, {"a": [1, 2]}, times={"a": [1, 0]}), "series 'a': times must increase"),
        (lambda: dl.fit(MODEL, np.array([[1.0, np.nan], [2.0, np.nan]])), "series 1 has no observation"),
        (lambda: dl.fit(PAIRS, {"a": [[1, 2]]}), "one number per step"),
        (lambda: dl.fit(EXPOSED, counts(2, 2)), "every step"),
    ],
)  # fmt: skip
def test_bad_panels_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_unknown_name_is_answered_with_the_known_ones():
    panel = dl.fit(MODEL, {"a": [1, 2], "b": [3]})
    with pytest.raises(KeyError, match="no series 'c' in the panel; it has"):
        panel["c"]
    assert "2 series" in repr(panel)
    assert len(panel) == 2


def test_numbers_of_a_series_that_cannot_be_learnt_name_it():
    x = {"fine": [3, 1, 4, 1, 5, 9], "zeros": [0, 0, 0, 0, 0, 0]}
    model = dl.Model(dl.AR1(dl.learn(0.0), 0.9, 0.1), dl.Poisson())
    with pytest.raises(
        ValueError, match=r"series 'zeros': the data do not hold prior.mean: .* give it a prior"
    ):
        dl.fit(model, x, shared=False)


def test_climbs_of_many_series_do_not_depend_on_each_other():
    model = dl.Model(dl.RandomWalk(dl.learn(0.2, positive=True)), dl.Poisson())
    x = counts(32, 5, seed=3)
    x[:, 2] *= 50  # needs many more moves than the others
    together = dl.fit(model, x, shared=False, parameters="maximise")
    for i in range(5):
        alone = dl.fit(model, x[:, [i]], shared=False, parameters="maximise")
        assert together.iterations_each[i] == alone.iterations_each[0]
        np.testing.assert_allclose(
            together.parameters[i]["prior.scale"].mean, alone.parameters[0]["prior.scale"].mean, rtol=1e-6
        )
        np.testing.assert_allclose(together.mean[:, i], alone.mean[:, 0], rtol=1e-6)
    assert len(set(together.iterations_each)) > 1


@pytest.mark.parametrize(("shared", "parameters"), [(True, "integrate"), (False, "maximise")])
def test_a_panel_is_read_back_as_it_was(tmp_path, shared, parameters):
    rng = np.random.default_rng(3)
    series = {"north": rng.poisson(3.0, 30).astype(float), 7: rng.poisson(5.0, 20).astype(float)}
    series["north"][4] = np.nan
    dates = {name: np.datetime64("2020-01-01") + np.arange(len(each)) for name, each in series.items()}
    model = dl.Model(dl.RandomWalk(dl.learn(0.1), initial_mean=1.0), dl.Poisson())
    panel = dl.fit(model, series, times=dates, shared=shared, parameters=parameters, progress=False)
    panel.save(tmp_path / "panel")
    again = dl.load(tmp_path / "panel")
    assert again.names == panel.names
    assert (again.message, again.shared, again.elbo) == (panel.message, panel.shared, panel.elbo)
    for found, wanted in zip(again.interval(0.8), panel.interval(0.8), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    for name in panel:
        one, other = again[name], panel[name]
        np.testing.assert_array_equal(one.times, other.times)
        np.testing.assert_array_equal(
            one.parameters["prior.scale"].values, other.parameters["prior.scale"].values
        )
        np.testing.assert_allclose(one.forecast(2).mean, other.forecast(2).mean, rtol=1e-10)


def test_a_panel_of_fixed_numbers_and_plain_times_is_read_back(tmp_path):
    panel = dl.fit(dl.Model(dl.RandomWalk(0.3), dl.Gaussian(0.5)), np.arange(12.0).reshape(6, 2))
    panel.save(tmp_path / "panel")
    again = dl.load(tmp_path / "panel")
    np.testing.assert_array_equal(again.mean, panel.mean)
    np.testing.assert_array_equal(again[1].times, panel[1].times)


def test_names_that_a_file_does_not_keep_are_refused(tmp_path):
    panel = dl.fit(dl.Model(dl.RandomWalk(0.3), dl.Gaussian(0.5)), {("a", 1): [1.0, 2.0]})
    with pytest.raises(TypeError, match=r"\('a', 1\) has a name that a file does not keep"):
        panel.save(tmp_path / "panel")
    assert list(tmp_path.iterdir()) == []
