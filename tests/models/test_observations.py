import datetime

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import polars
import pytest

import driftline as dl
from driftline.models.observations import as_times, as_values, observe
from driftline.models.padding import pad
from driftline.models.parameters import numbers_of

EXPECTED = [1.0, np.nan, 3.0]


@pytest.mark.parametrize(
    "x",
    [
        [1, None, 3],
        (1.0, float("nan"), 3.0),
        np.array([1.0, np.nan, 3.0], dtype=np.float32),
        np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False]),
        np.ma.masked_array([1, 2, 3], mask=[False, True, False]),
        np.ma.masked_array([1, "two", 3], mask=[False, True, False], dtype=object),
        pandas.Series([1.0, None, 3.0]),
        pandas.Series([1, None, 3], dtype="Int64"),
        polars.Series([1, None, 3]),
    ],
)
def test_series_of_all_kinds_become_the_same_array(x):
    values = as_values(x)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, EXPECTED)


def test_the_caller_s_array_is_not_changed():
    x = np.array([1.0, np.nan, 3.0])
    dl.fit(dl.Model(dl.RandomWalk(), dl.Gaussian()), x, method="exact")
    np.testing.assert_array_equal(x, EXPECTED)


DAYS = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-06"]


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        np.array(DAYS, dtype="datetime64[D]"),
        [datetime.date.fromisoformat(day) for day in DAYS],
        [datetime.datetime.fromisoformat(day) for day in DAYS],
        pandas.to_datetime(DAYS),
        pandas.to_datetime(DAYS).tz_localize("Asia/Tokyo").shift(9, "h"),
        pandas.Series(pandas.to_datetime(DAYS)),
        pandas.Series(pandas.to_datetime(DAYS, utc=True)),
        pandas.PeriodIndex(DAYS, freq="D"),
        [datetime.datetime.fromisoformat(f"{day}T01:00+01:00") for day in DAYS],
        polars.Series(DAYS).str.to_date(),
    ],
)
def test_dates_of_all_kinds_are_measured_in_their_median_gap(times):
    labels, gaps, unit = as_times(times, None, 4)
    np.testing.assert_allclose(gaps, [1.0, 1.0, 3.0])
    assert unit == np.timedelta64(1, "D")
    assert labels.astype("datetime64[D]").tolist()[3] == datetime.date(2024, 1, 6)


def test_the_unit_of_dates_can_be_chosen():
    _, gaps, _ = as_times(DAYS, None, 4, unit=datetime.timedelta(hours=12))
    np.testing.assert_allclose(gaps, [2.0, 2.0, 6.0])


def test_numbers_are_taken_as_they_are_and_nothing_means_equal_steps():
    np.testing.assert_allclose(as_times([0.0, 0.5, 3.0], None, 3)[1], [0.5, 2.5])
    np.testing.assert_allclose(as_times(None, None, 3)[1], [1.0, 1.0])


def test_a_pandas_index_of_dates_is_used_and_kept():
    series = pandas.Series([1.0, 2.0, 4.0, 3.0], index=pandas.to_datetime(DAYS))
    post = dl.fit(dl.Model(dl.RandomWalk(), dl.Gaussian()), series, method="exact")
    by_hand = dl.fit(
        dl.Model(dl.RandomWalk(), dl.Gaussian()), series.to_numpy(), times=[0, 1, 2, 5], method="exact"
    )
    np.testing.assert_allclose(post.mean, by_hand.mean)
    assert list(post.to_frame().index) == list(series.index)


INDICES = {
    "time zone": pandas.to_datetime(DAYS, utc=True).tz_convert("America/New_York"),
    "dates": pandas.Index([datetime.date.fromisoformat(day) for day in DAYS]),
    "periods": pandas.PeriodIndex(DAYS, freq="D"),
}


@pytest.mark.parametrize("name", INDICES)
def test_a_pandas_index_of_any_dates_is_used(name):
    labels, gaps, unit = as_times(None, pandas.Series(np.arange(4.0), index=INDICES[name]), 4)
    np.testing.assert_array_equal(labels, np.array(DAYS, dtype="datetime64"))
    np.testing.assert_allclose(gaps, [1.0, 1.0, 3.0])
    assert unit == np.timedelta64(1, "D")


def test_a_time_zone_that_changes_its_clocks_does_not_change_the_gaps():
    index = pandas.date_range("2024-03-30", periods=3, freq="24h", tz="Europe/Berlin")
    labels, gaps, _ = as_times(None, pandas.Series(np.arange(3.0), index=index), 3)
    np.testing.assert_allclose(gaps, [1.0, 1.0])
    assert labels[0] == np.datetime64("2024-03-29T23:00")


@pytest.mark.parametrize("index", [[7, 8, 10], [0.5, 1.5, 4.0], range(2, 8, 2)])
def test_a_pandas_index_of_numbers_is_used(index):
    labels, gaps, unit = as_times(None, pandas.Series(np.arange(3.0), index=index), 3)
    np.testing.assert_array_equal(labels, list(index))
    np.testing.assert_allclose(gaps, np.diff(list(index)))
    assert unit is None


@pytest.mark.parametrize("dtype", [object, "string"])
def test_a_pandas_index_of_text_is_used_if_it_is_dates(dtype):
    index = pandas.Index(DAYS, dtype=dtype)
    labels, gaps, unit = as_times(None, pandas.Series(np.arange(4.0), index=index), 4)
    np.testing.assert_array_equal(labels, np.array(DAYS, dtype="datetime64"))
    np.testing.assert_allclose(gaps, [1.0, 1.0, 3.0])
    assert unit == np.timedelta64(1, "D")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (["a", "b", "c"], "holds text, and that of step 0, 'a', is not a date .* pass times="),
        (["2024-01-01", "2024-01-02", "total"], "that of step 2, 'total', is not a date"),
        (
            [3, 1, 2],
            "index of the series must increase, but step 1 is at 1 and .* before it at 3.*times=range",
        ),
        ([0, 1, 1], "index of the series must increase, but step 2 is at 1"),
        (pandas.to_datetime(["2024-01-02", "2024-01-01", "2024-01-03"]), "step 1 is at 2024-01-01"),
        (["2024-01-02", "2024-01-02", "2024-01-03"], "step 1 is at 2024-01-02"),
        ([0.0, np.nan, 2.0], "index of the series must be finite, but that of step 1 is nan"),
        ([True, False, True], "holds bool such as .*True.*, neither numbers nor dates"),
        (pandas.MultiIndex.from_tuples([(1, 2), (1, 3), (2, 1)]), "holds tuple such as"),
        (pandas.to_timedelta([1, 2, 3], "D"), "neither numbers nor dates"),
    ],
)
def test_an_index_that_tells_no_time_is_refused_by_name(index, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_times(None, pandas.Series(np.arange(3.0), index=index), 3)


@pytest.mark.parametrize("resolution", ["Y", "M", "D", "s", "us"])
def test_dates_before_and_after_those_of_nanoseconds_do_not_wrap_around(resolution):
    years = np.array(["1066-01-01", "1500-01-01", "2500-01-01"], dtype=f"datetime64[{resolution}]")
    days = np.diff(years.astype("datetime64[D]").astype(int))
    _, gaps, unit = as_times(years, None, 3)
    np.testing.assert_allclose(gaps, days / np.median(days), rtol=1e-12)
    assert abs(unit / np.timedelta64(1, "D") / np.median(days) - 1) < 1e-9
    np.testing.assert_allclose(as_times(years, None, 3, unit)[1], gaps, rtol=1e-9)
    np.testing.assert_allclose(as_times(years, None, 3, np.timedelta64(1, "D"))[1], days, rtol=1e-12)


def test_nanoseconds_far_apart_do_not_wrap_around():
    times = np.array(["1700-01-01", "2200-01-01", "2201-01-01"], dtype="datetime64[ns]")
    _, gaps, _ = as_times(times, None, 3, np.timedelta64(1, "D"))
    np.testing.assert_allclose(gaps, [182_621.0, 365.0])
    with pytest.raises(ValueError, match="times must increase"):
        as_times(times[::-1], None, 3)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (7, r'time_unit=7 does not say .* np.timedelta64\(7, "D"\)'),
        ("a week", "time_unit must be a length of time"),
        (np.timedelta64(0, "D"), "longer than nothing"),
        (np.timedelta64("NaT", "D"), "longer than nothing"),
    ],
)
def test_units_that_are_no_length_of_time_are_refused(unit, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_times(DAYS, None, 4, unit)


def test_missing_values_are_filled_with_something_seen_and_marked():
    observations = observe(np.array([np.nan, 4.0, 2.0]), np.ones(2), dl.Poisson(), ())
    np.testing.assert_array_equal(observations.observed, [False, True, True])
    np.testing.assert_array_equal(observations.values, [4.0, 4.0, 2.0])


def test_single_elements_may_be_missing():
    x = np.array([[1.0, np.nan], [np.nan, np.nan], [0.0, 2.0]])
    model = dl.Model(dl.RandomWalk(shape=(2,)), dl.Gaussian())
    post = dl.fit(model, x, method="exact")
    for element in range(2):
        alone = dl.fit(dl.Model(dl.RandomWalk(), dl.Gaussian()), x[:, element], method="exact")
        np.testing.assert_allclose(post.mean[:, element], alone.mean, rtol=1e-12)
        np.testing.assert_allclose(post.sd[:, element], alone.sd, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([], "the series is empty"),
        (3.0, "the series is one number, 3.0; pass a list"),
        (np.zeros((3, 0)), r"the series is empty \(shape \(3, 0\)\)"),
        (np.array(["2024-01-01"], "datetime64[D]"), "the series holds dates .*dates go into times="),
        (np.array([1j]), "the series holds complex numbers"),
        ([None, np.nan], "all 2 steps of the series are missing"),
        ([1.0, np.inf], "observation inf at step 1 is infinite; put NaN"),
        ([1.0, "two"], "observation 'two' at step 1 is not a number"),
        ([1.0, 2j], "observation 2j at step 1 is not a number"),
        (np.array([1.0, object()], dtype=object), "observation <object .* at step 1 is not a number"),
        ((value for value in (1.0, 2.0)), r"the series is a generator, .* pass list\(...\)"),
        (iter([1.0, 2.0]), "the series is a list_iterator"),
        (map(float, [1, 2]), "the series is a map"),
        ({1: 2.0}.values(), "the series is a dict_values"),
        ({1.0, 2.0}, "the series is a set, which has no order"),
        ("1, 2", "the series is text, '1, 2'"),
        ([[1.0, 2.0], [3.0]], "the series has 2 values at step 0, but 1 values at step 1; .* into a dict"),
        ([1.0, [2.0, 3.0]], "the series has one value at step 0, but 2 values at step 1"),
        ([[[1.0], [2.0]], [[1.0], [2.0, 3.0]]], "step 1 of the series has 1 values at step 0, but 2"),
    ],
)
def test_series_that_cannot_be_used_are_refused(x, message):
    with pytest.raises((TypeError, ValueError), match=message):
        dl.fit(dl.Model(dl.RandomWalk(), dl.Gaussian()), x)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_a_fit_inside_a_transformation_is_refused(transform):
    model = dl.Model(dl.RandomWalk(), dl.Gaussian())
    with pytest.raises(TypeError, match=r"the series is traced by JAX, .* call it outside"):
        transform(lambda x: dl.fit(model, x).mean)(jnp.ones((3, 2)))
    with pytest.raises(TypeError, match=r"times is traced by JAX"):
        transform(lambda times: dl.fit(model, [1.0, 2.0], times=times).mean)(jnp.ones((2, 2)))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0, 1], r"times has shape \(2,\), but the series has 3 steps"),
        ([0, 2, 1], "times must increase, but step 2 is at 1 and the step before it at 2; sort"),
        ([0, 1, 1], "join steps of the same time"),
        ([0, np.nan, 1], "times must be finite, but that of step 1 is nan; give it a time"),
        ([0, 1, np.inf], "that of step 2 is inf"),
        (np.array(["2024-01-01", "NaT", "2024-01-03"], "datetime64[D]"), "that of step 1 is NaT"),
        (["2024-01-01", "yesterday", "2024-01-03"], "neither numbers nor dates"),
        ([True, False, True], "times must be numbers or dates"),
        ((step for step in range(3)), "times is a generator"),
        ({0, 1, 2}, "times is a set, which has no order"),
        ("012", "times is text, '012'"),
        ([0, 1, [2]], "times has one value at step 0, but 1 values at step 2"),
        ([0, 1, 2j], "times must be numbers or dates, got complex128"),
        ([datetime.date(2024, 1, 1), "soon", None], "got object such as 'soon'"),
        (
            [
                datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
                *map(datetime.datetime, (2024,) * 2, (2, 3), (1, 1)),
            ],
            "time 1, .* has none; give one to all",
        ),
    ],
)
def test_times_that_cannot_be_used_are_refused(times, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_times(times, None, 3)


@pytest.mark.parametrize(
    ("likelihood", "shape", "x", "message"),
    [
        (dl.Poisson(), (), [1, -2], "observation -2 at step 1 is impossible: Poisson takes whole numbers"),
        (dl.Poisson(), (), [1, 2.5], "observation 2.5 at step 1"),
        (dl.Bernoulli(), (), [1, 2], "observation 2 at step 1.*Binomial"),
        (dl.Binomial(3), (), [3, 4], "more successes than trials"),
        (
            dl.Binomial([3, 3, 3]),
            (),
            [1, 2],
            r"Binomial\(trials=...\) has shape \(3,\).*series of shape \(2,\)",
        ),
        (dl.Poisson(np.ones(16)), (), [1, 2], r"Poisson\(exposure=...\) has shape \(16,\)"),
        (dl.Poisson(dl.learn(np.ones(3))), (), [1, 2], r"Poisson\(exposure=...\) has shape \(3,\)"),
        (dl.Gaussian(np.ones((2, 1))), (), [1, 2], r"Gaussian\(scale=...\) has shape \(2, 1\)"),
        (dl.Gaussian([1.0, 2.0, 3.0]), (2,), [[1, 2]], r"scale=...\) has shape \(3,\).*\(1, 2\)"),
        (dl.LogVolatility(), (), [0.0, 0.0], "every observation is zero"),
        (dl.Categorical(), (3,), [0, 3], "categories go from 0 to 2"),
        (dl.Categorical(), (), [0, 1], r"pass shape=\(K,\) to the prior"),
        (dl.Gaussian(), (), [[1.0, 2.0]], r"pass shape=\(2,\) to the prior"),
        (dl.Likelihood(lambda x, z: x - z), (2,), [[1.0, 2.0]], r"returns an array of shape \(2,\)"),
        (dl.Likelihood(lambda x, z: 0.0 * z.sum()), (2,), [[1.0, np.nan]], "step 0 is observed in part"),
    ],
)
def test_series_that_do_not_fit_the_model_are_refused(likelihood, shape, x, message):
    values = np.asarray(x, float)
    with pytest.raises(ValueError, match=message):
        observe(values, np.ones(len(values) - 1), likelihood, shape)


@pytest.mark.parametrize("scale", [2.0, [1.0, 2.0], [[1.0], [2.0], [3.0]], np.ones((3, 2))])
def test_numbers_for_all_data_for_elements_for_steps_and_for_single_data_fit(scale):
    assert len(observe(np.ones((3, 2)), np.ones(2), dl.Gaussian(scale), (2,)).values) == 3


PARAMS = {"a": np.ones(2)}
FUNCTION = dl.Likelihood(lambda x, z, p: -jnp.sum(p["a"] * (x - z) ** 2), params=PARAMS)


@pytest.mark.parametrize(
    ("likelihood", "shape", "per_step"),
    [
        (dl.Poisson(np.ones(2)), (), True),
        (dl.Poisson(dl.learn(np.ones(2))), (), True),
        (dl.Poisson(2.0), (), False),
        (dl.Gaussian([0.5, 2.0]), (2,), False),  # as many elements as steps
        (dl.Gaussian([[0.5], [2.0]]), (2,), True),
        (dl.Gaussian([[0.5, 2.0]]), (2,), False),
        (FUNCTION, (2,), False),
    ],
    ids=["exposures", "learnt exposures", "one number", "elements", "steps", "elements in a row", "function"],
)
def test_a_series_is_filled_up_unless_a_number_belongs_to_every_step(likelihood, shape, per_step):
    observations = observe(np.ones((2, *shape)), np.ones(1), likelihood, shape)
    found = [likelihood.is_per_step(leaf, observations.values) for leaf in numbers_of(likelihood)]
    assert any(found) == per_step
    assert len(pad(observations, likelihood).values) == (2 if per_step else 16)
