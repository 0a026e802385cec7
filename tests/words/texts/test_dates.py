import datetime
import re

import numpy as np
import pytest

from driftline.words.texts.dates import day_in_name, day_of, period_of, to_date

DAY = datetime.date(1850, 12, 31)


@pytest.mark.parametrize(
    "value",
    [
        "1850-12-31",
        " 18501231 ",
        "1850/12/31",
        "1850.12.31",
        "1850_12_31",
        "1850-12-31T10:00",
        "1850-12-31 10:00:00.123-04:00",
        "1850-12-31T23:59:59Z",
        18501231,
        DAY,
        np.int64(18501231),
        np.datetime64("1850-12-31T10:00:00.000000000"),
        datetime.datetime(1850, 12, 31, 23, 59),
    ],
)
def test_dates_are_read_in_many_forms(value):
    assert to_date(day_of(value)) == DAY


@pytest.mark.parametrize(
    ("value", "first", "last"),
    [
        (1850, "1850-01-01", "1850-12-31"),
        (1850.0, "1850-01-01", "1850-12-31"),
        ("1850.0", "1850-01-01", "1850-12-31"),
        ("850", None, None),
        ("0850", "0850-01-01", "0850-12-31"),
        ("1852-02", "1852-02-01", "1852-02-29"),
        ("1852-2", "1852-02-01", "1852-02-29"),
        ("1852-02-03", "1852-02-03", "1852-02-03"),
        ("1852-2-3", "1852-02-03", "1852-02-03"),
        ("1852/2/13 10:00", "1852-02-13", "1852-02-13"),
    ],
)
def test_years_and_months_have_two_ends(value, first, last):
    if first is None:
        with pytest.raises(ValueError, match="not a date"):
            period_of(value)
    else:
        assert [to_date(day).isoformat() for day in period_of(value)] == [first, last]


@pytest.mark.parametrize(
    "value",
    [
        "31/12/1850",
        "1850-13",
        "1850-02-30",
        "185012",
        "18505",
        "1850123",
        "1850-12/31",
        "1850-1-005",
        "x",
        None,
        True,
        1.5,
        np.datetime64("NaT"),
    ],
)
def test_what_is_no_date_is_refused_with_a_remedy(value):
    with pytest.raises(ValueError, match=r"is not a date.*date_format='%d/%m/%Y'"):
        day_of(value)


@pytest.mark.parametrize(
    ("value", "day"),
    [
        (1850.5, "1850-07-02"),
        (np.float32(1850.5), "1850-07-02"),
        ("1850.5", "1850-07-02"),
        ("1850.25", "1850-04-02"),
        ("1850.120", "1850-02-13"),
        (1850.12, "1850-02-13"),
        ("0001.5", "0001-07-02"),
        (9999.999, "9999-12-31"),
    ],
)
def test_decimal_years_are_days_of_the_year(value, day):
    assert to_date(day_of(value)).isoformat() == day
    assert period_of(value).first == period_of(value).last


@pytest.mark.parametrize("value", ["1850.12", "1850.05"])
def test_a_decimal_year_that_may_be_a_month_is_refused(value):
    with pytest.raises(ValueError, match=r"may be the month 1850-.. or a decimal year.*date_format='%Y\.%m'"):
        day_of(value)
    assert to_date(day_of(value, "%Y.%m")).isoformat() == f"1850-{value[-2:]}-01"


def test_a_number_with_a_fraction_is_not_read_by_a_format():
    with pytest.raises(ValueError, match=r"1850\.1 is a number, and its last zeros are lost"):
        day_of(1850.1, "%Y.%m")


def test_a_year_of_three_digits_is_explained():
    with pytest.raises(ValueError, match="'850' is not a date .*years have four digits: write 0850"):
        day_of("850")


def test_other_forms_can_be_described():
    assert to_date(day_of("31. 12. 1850", "%d. %m. %Y")) == DAY


@pytest.mark.parametrize(
    "name",
    [
        "1850-12-31.txt",
        "a/18501231-message.txt",
        "speech_1850_12_31.txt",
        "1850.12.31.txt",
        "1850-12-31 1850-12-31.txt",
        "1850/12/31.txt",
        "papers/1850/12/31-morning/p1.txt",
    ],
)
def test_a_name_holds_a_date(name):
    assert to_date(day_in_name(name)) == DAY


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("1850-1-5.txt", "1850-01-05"),
        ("1850-12-5.txt", "1850-12-05"),
        ("a_1850_1_31.txt", "1850-01-31"),
        ("1850.1.05.txt", "1850-01-05"),
        ("1850-1-5_1850-01-05.txt", "1850-01-05"),
        ("1850-1.txt", "1850-01-01"),
        ("1850-3.txt", "1850-03-01"),
        ("a_1850_9_b.txt", "1850-09-01"),
        ("1850.12.txt", "1850-12-01"),
        ("1850-3_5.txt", "1850-03-01"),
        ("1850/3/speech.txt", "1850-03-01"),
        ("1850/3.txt", "1850-03-01"),
        ("1850/3/5.txt", "1850-03-05"),
    ],
)
def test_zeros_before_the_month_and_the_day_may_be_left_out_of_names(name, date):
    assert to_date(day_in_name(name)).isoformat() == date


@pytest.mark.parametrize("name", ["1850-{}.txt", "1850_{}_a.txt", "1850.{}.txt", "1850/{}/a.txt"])
def test_twelve_names_of_months_are_twelve_months(name):
    months = [to_date(day_in_name(name.format(month))).month for month in range(1, 13)]
    assert months == list(range(1, 13))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("12-1851", "{}.txt"),
        ("12_1852", "Lincoln_{}.txt"),
        ("1-1851", "{}.txt"),
        ("31 12 1850", "{}.txt"),
        ("5 March 1850", "{}.txt"),
        ("March 5th, 1850", "{}.txt"),
        ("Dec1850", "{}.txt"),
        ("sept_1850", "speech-{}.txt"),
        ("1850-May", "{}.txt"),
        ("1850 5th Jun", "{}.txt"),
        ("1850/March", "{}/a.txt"),
        ("1850/03 March", "{}/a.txt"),
        ("1850-13", "{}.txt"),
        ("1850-13", "{}-5.txt"),
        ("1850-00", "{}-00.txt"),
        ("1850_3", "{}D.txt"),
        ("1850 12", "{}.txt"),
        ("1850-123", "{}.txt"),  # the day of the year, in ISO 8601
        ("1850/13", "{}.txt"),
        ("1850/05-14", "{}.txt"),
        ("1850-03-45", "{}.txt"),
        ("1850/03/45", "{}.txt"),
        ("12_1850_3", "{}.txt"),
        ("March_1850_2", "{}.txt"),
        ("1850-5-March", "{}.txt"),
    ],
)
def test_a_date_in_a_name_is_not_cut_to_what_is_understood(text, name):
    with pytest.raises(ValueError, match=rf"^{text} in the name .*date_pattern=r'.*date_format="):
        day_in_name(name.format(text))
    with pytest.raises(ValueError, match=f"^{text} in the name .*; do this$"):
        day_in_name(name.format(text), remedy="do this")


@pytest.mark.parametrize(
    ("name", "date"),
    [("12-1851.txt", "1851-01-01"), ("1850.03.45.txt", "1850-03-01"), ("12_1850_3.txt", "1850-03-01")],
)
def test_the_pattern_that_a_refusal_advises_is_accepted(name, date):
    with pytest.raises(ValueError, match="date_pattern=") as refusal:
        day_in_name(name)
    advised = re.search("date_pattern=r'(.*?)'", str(refusal.value))
    assert advised is not None
    assert to_date(day_in_name(name, re.compile(advised[1]))).isoformat() == date


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("1850.txt", "1850-01-01"),
        ("1850_lincoln.txt", "1850-01-01"),
        ("lincoln-1850.txt", "1850-01-01"),
        ("lincoln_1850_speech_2.txt", "1850-01-01"),
        ("01_washington_1850.txt", "1850-01-01"),
        ("vol2_1850.txt", "1850-01-01"),
        ("1850_2nd_inaugural.txt", "1850-01-01"),
        ("1850-12th-congress.txt", "1850-01-01"),
        ("1850 (2).txt", "1850-01-01"),
        ("1850_marx.txt", "1850-01-01"),
        ("march_of_1850.txt", "1850-01-01"),
        ("mag_1850_12345.txt", "1850-01-01"),
        ("12/1850.txt", "1850-01-01"),
        ("12/1850/05/a.txt", "1850-05-01"),
        ("01_1850-12.txt", "1850-12-01"),
        ("1850-12a.txt", "1850-12-01"),
        ("1850-03-123.txt", "1850-03-01"),
        ("12_1850-01-05_7.txt", "1850-01-05"),
        ("may_1850-01-05.txt", "1850-01-05"),
        ("1850/01/1850-01-01.txt", "1850-01-01"),
    ],
)
def test_what_is_no_part_of_a_date_may_stand_beside_it(name, date):
    assert to_date(day_in_name(name)).isoformat() == date


@pytest.mark.parametrize("name", ["31-12-1850.txt", "a/1.2.1850.txt", "x_12_31_1850.txt"])
def test_names_that_end_with_the_year_are_not_guessed(name):
    with pytest.raises(ValueError, match=r"may begin with the day or with the month; .*date_pattern=.*%d"):
        day_in_name(name)
    with pytest.raises(ValueError, match="or with the month; do this"):
        day_in_name(name, remedy="do this")


def test_years_in_names_stand_for_their_first_day():
    assert to_date(day_in_name("1819-Monroe-1.txt")) == datetime.date(1819, 1, 1)
    assert to_date(day_in_name("1819/05/speech.txt")) == datetime.date(1819, 5, 1)
    assert to_date(day_in_name("1819/05_speech.txt")) == datetime.date(1819, 1, 1), "this may be any number"


@pytest.mark.parametrize(
    ("name", "what"),
    [("a.txt", "no date"), ("12345.txt", "no date"), ("page1234_1850.txt", "more than one date")],
)
def test_a_name_without_one_date_is_refused(name, what):
    with pytest.raises(ValueError, match=f"{what}.*date_pattern="):
        day_in_name(name)


def test_a_pattern_says_where_the_date_is():
    pattern = re.compile(r"_(\d+)\.txt")
    assert to_date(day_in_name("page1234_1850.txt", pattern)) == datetime.date(1850, 1, 1)
    assert to_date(day_in_name("311250_.txt", re.compile(r"\d{6}"), "%d%m%y")) == datetime.date(2050, 12, 31)
    with pytest.raises(ValueError, match="finds nothing"):
        day_in_name("page.txt", pattern)
