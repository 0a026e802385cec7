import datetime

import numpy as np
import pandas
import polars
import pytest

import driftline as dl
from driftline.models.observations import as_times, as_values, observe

EXPECTED = [1.0, np.nan, 3.0]


@pytest.mark.parametrize(
    "x",
    [
        [1, None, 3],
        (1.0, float("nan"), 3.0),
        np.array([1.0, np.nan, 3.0], dtype=np.float32),
        np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False]),
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
        (3.0, "the series is empty"),
        ([None, np.nan], "all 2 steps of the series are missing"),
        ([1.0, np.inf], "observation inf at step 1 is infinite; put NaN"),
        ([1.0, "two"], "observation 'two' at step 1 is not a number"),
    ],
)
def test_series_that_cannot_be_used_are_refused(x, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_values(x)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0, 1], r"times has shape \(2,\), but the series has 3 steps"),
        ([0, 2, 1], "times must increase, but step 2 is at 1 and the step before it at 2; sort"),
        ([0, 1, 1], "join steps of the same time"),
        ([0, np.nan, 1], "times must be finite"),
        (["2024-01-01", "yesterday", "2024-01-03"], "neither numbers nor dates"),
        ([True, False, True], "times must be numbers or dates"),
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
