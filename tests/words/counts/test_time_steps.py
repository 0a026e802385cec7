import numpy as np
import pytest

from driftline.words.counts.time_steps import check_step, make_steps

DATES = np.array(["1849-12-31", "1850-01-01", "1850-01-07", "1850-02-01", "1861-02-01"], "datetime64[D]")
DAYS = DATES.astype(np.int64)
CASES = {
    ("document", 0): (
        [0, 1, 2, 3, 4],
        ["1849-12-31", "1850-01-01", "1850-01-07", "1850-02-01", "1861-02-01"],
    ),
    ("document", 1): (
        [0, 1, 2, 3, 4],
        ["1849-12-31", "1850-01-01", "1850-01-07", "1850-02-01", "1861-02-01"],
    ),
    ("document", 2): ([0, 0, 1, 2, 3], ["1849-12-31", "1850-01-07", "1850-02-01", "1861-02-01"]),
    ("document", 6): ([0, 0, 1, 2, 3], ["1849-12-31", "1850-01-07", "1850-02-01", "1861-02-01"]),
    ("document", 7): ([0, 0, 0, 1, 2], ["1849-12-31", "1850-02-01", "1861-02-01"]),
    ("day", 0): ([0, 1, 2, 3, 4], ["1849-12-31", "1850-01-01", "1850-01-07", "1850-02-01", "1861-02-01"]),
    ("month", 0): ([0, 1, 1, 2, 3], ["1849-12-01", "1850-01-01", "1850-02-01", "1861-02-01"]),
    ("year", 0): ([0, 1, 1, 1, 2], ["1849-01-01", "1850-01-01", "1861-01-01"]),
    ("decade", 0): ([0, 1, 1, 1, 2], ["1840-01-01", "1850-01-01", "1860-01-01"]),
    (7, 0): ([0, 0, 1, 2, 3], ["1849-12-31", "1850-01-07", "1850-01-28", "1861-01-28"]),
}


def test_the_first_decade_begins_with_the_first_year():
    days = np.array(["0001-03-01", "0009-01-01", "0010-01-01"], "datetime64[D]").astype(np.int64)
    steps = make_steps(days, "decade")
    assert [str(date) for date in steps.dates] == ["0001-01-01", "0010-01-01"]
    assert steps.of_day.tolist() == [0, 0, 1]


@pytest.mark.parametrize(("step", "join"), CASES)
def test_days_fall_into_steps(step, join):
    labels, dates = CASES[step, join]
    steps = make_steps(DAYS, step, join)
    np.testing.assert_array_equal(steps.of_day, labels)
    np.testing.assert_array_equal(steps.dates, np.array(dates, "datetime64[D]"))
    np.testing.assert_array_equal(steps.of(DAYS[::-1]), labels[::-1])


@pytest.mark.parametrize("step", ["week", 0, -1, 1.5, True, None])
def test_what_is_no_step_is_refused(step):
    with pytest.raises(ValueError, match="step="):
        check_step(step, 0)


@pytest.mark.parametrize("join_days", [-1, 6.5, "7", None])
def test_what_is_no_number_of_days_is_refused(join_days):
    with pytest.raises(ValueError, match="join_days=.*a whole number of days"):
        check_step("document", join_days)


def test_only_documents_are_joined():
    with pytest.raises(ValueError, match="join_days=7 is for step='document'"):
        check_step("year", 7)
