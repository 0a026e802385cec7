import datetime

import numpy as np
import pytest

from driftline.words.atlas.asked_dates import length_of_steps, step_of

DATES = np.array(["1900-03-01", "1901-12-01", "1902-01-15", "1910-06-01"], "datetime64[D]")
DECADES = np.array(["1890-01-01", "1900-01-01", "1910-01-01"], "datetime64[D]")


@pytest.mark.parametrize(
    ("when", "step"),
    [
        (1900, 0),
        ("1900", 0),
        ("1901-12-20", 1),
        (np.datetime64("1902-01-01"), 2),
        (datetime.date(1910, 6, 1), 3),
        ("1902-01", 2),
        (1907, 3),
        (1904, 2),
        (1899, 0),
        (1912, 3),
    ],
)
def test_the_nearest_step_is_taken(when, step):
    assert step_of(DATES, when) == step


def test_of_two_steps_in_a_year_the_first_is_taken():
    dates = np.array(["1953-01-02", "1953-11-30"], "datetime64[D]")
    assert step_of(dates, 1953) == 0
    assert step_of(dates, "1953-11") == 1


def test_a_year_belongs_to_its_decade_and_a_day_to_its_days():
    assert step_of(DECADES, 1909, "decade") == 1
    assert step_of(DECADES, 1909) == 2
    days = np.array(["2000-01-01", "2000-01-31"], "datetime64[D]")
    assert step_of(days, "2000-01-30", 30) == 0
    assert step_of(days, "2000-01-31", 30) == 1


def test_dates_far_outside_are_refused():
    with pytest.raises(ValueError, match="1885 .* nearest step, 1900-03-01; the steps go from 1900-03-01 to"):
        step_of(DATES, 1885)
    with pytest.raises(ValueError, match="2000 is .* days from the nearest step, 1910-06-01"):
        step_of(DATES, 2000)
    # One gap of eight years does not let everything in that is eight years away: the median is 640 days.
    with pytest.raises(ValueError, match="1915 is 1,675 days .* the steps go from 1900-03-01 to 1910-06-01"):
        step_of(DATES, 1915)
    with pytest.raises(ValueError, match="'soon' is not a date .* the steps go from 1900-03-01"):
        step_of(DATES, "soon")
    assert step_of(DATES[:1], 1901) == 0
    with pytest.raises(ValueError, match="1903 is"):
        step_of(DATES[:1], 1903)


def test_how_far_outside_a_date_may_be_follows_from_the_length_of_a_step():
    months = np.array(["2000-01-01", "2000-02-01", "2000-03-01"], "datetime64[D]")
    assert step_of(months, "2000-04-15", "month") == 2
    with pytest.raises(ValueError, match="2000-07-01"):
        step_of(months, "2000-07-01", "month")
    assert step_of(DECADES, 1925, "decade") == 2
    with pytest.raises(ValueError, match="1935"):
        step_of(DECADES, 1935, "decade")


@pytest.mark.parametrize(
    ("provenance", "length"),
    [
        ({"options": {"step": "decade"}}, "decade"),
        ({"options": {"step": 30}}, 30),
        ({"options": {"step": "week"}}, "document"),
        ({"options": None}, "document"),
        ({}, "document"),
    ],
)
def test_the_length_of_steps_is_what_counting_noted(provenance, length):
    assert length_of_steps(provenance) == length
