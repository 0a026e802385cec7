"""Dates as people write them, read as days: a day is the finest unit of time of a corpus."""

import calendar
import datetime
import functools
import re
from typing import Any, NamedTuple

import numpy as np

EPOCH = datetime.date(1970, 1, 1).toordinal()

_YEAR_FIRST = re.compile(
    r"(?P<year>\d{4})"
    r"(?:(?P<mark>[-/.]?)(?P<month>\d{2})(?:(?P=mark)(?P<day>\d{2}))?)?"
    r"(?:[T ]\d{2}:?\d{2}(?::?\d{2}(?:[.,]\d+)?)? ?(?:Z|[+-]\d{2}:?\d{2}|[+-]\d{2}|UTC)?)?",
    re.ASCII,
)


class Period(NamedTuple):
    """A day, month or year, as its first and its last day, counted from 1970-01-01."""

    first: int
    last: int


def day_of(value: Any, form: str | None = None) -> int:
    """The first day of a date, month or year, counted from 1970-01-01; see `period_of`."""
    return period_of(value, form).first


def period_of(value: Any, form: str | None = None) -> Period:
    """The days that a date, a month or a year stands for.

    Reads text such as 1850, 1850-12, 1850-12-31, 18501231, 1850/12/31 and 1850-12-31T10:00:00-04:00, whole
    numbers such as 1850, and the dates of Python and NumPy. The time of day and its zone are dropped: a text
    belongs to the day that it names.

    Args:
        value: What was found.
        form: How text is to be read, in the notation of `datetime.strptime`, if it is none of the above.
    """
    if isinstance(value, str):
        return _read(value, form)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[D]").item()
    if isinstance(value, datetime.datetime):
        value = value.date()
    if isinstance(value, datetime.date):
        day = value.toordinal() - EPOCH
        return Period(day, day)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return _read(f"{value:04d}", form)
    raise ValueError(f"{value!r} is not a date; {_REMEDY}")


def to_date(day: int) -> datetime.date:
    """A day counted from 1970-01-01 as a date."""
    return datetime.date.fromordinal(day + EPOCH)


_REMEDY = (
    "write dates like 1850, 1850-12 or 1850-12-31, or say how to read them, as in date_format='%d/%m/%Y'"
)


@functools.lru_cache(maxsize=4096)
def _read(text: str, form: str | None) -> Period:
    try:
        if form is not None:
            return period_of(datetime.datetime.strptime(text.strip(), form))
        found = _YEAR_FIRST.fullmatch(text.strip())
        # Six digits could be a year and a month or a short date with a day first: not guessed.
        if found is None or (found["mark"] == "" and found["day"] is None):
            raise ValueError("it has another form")
        first, last = _ends(*(found[part] and int(found[part]) for part in ("year", "month", "day")))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a date that can be read ({error}); {_REMEDY}") from None
    return Period(first.toordinal() - EPOCH, last.toordinal() - EPOCH)


def _ends(year, month, day):
    if month is None:
        return datetime.date(year, 1, 1), datetime.date(year, 12, 31)
    if day is None:
        first = datetime.date(year, month, 1)
        return first, first.replace(day=calendar.monthrange(year, month)[1])
    return datetime.date(year, month, day), datetime.date(year, month, day)


_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_IN_NAME = re.compile(
    # Folders of years, months and perhaps days; or a date as it is written in one name, where zeros before
    # a month and a day may be left out if both are there.
    rf"(?<!\d)\d{{4}}/{_MONTH}(?:/{_DAY}(?!\d)|(?=[/.]))"
    rf"|(?<!\d)\d{{4}}(?P<sign>[-_.])(?:{_MONTH}|[1-9])(?P=sign)(?:{_DAY}|[1-9])(?!\d)"
    rf"|(?<!\d)\d{{4}}(?:(?P<mark>[-_.]?){_MONTH}(?:(?P=mark){_DAY})?)?(?!\d)"
    rf"|(?P<turned>(?<!\d)(?:{_DAY}|[1-9])(?P<between>[-_.])(?:{_DAY}|[1-9])(?P=between)\d{{4}}(?!\d))",
    re.ASCII,
)
REMEDY_OF_NAMES = (
    "put one into it, as in 1850-12-31.txt, say where it is with "
    r"date_pattern=r'_(\d{4})\.txt', or list files and dates in a table and pass table="
)


def day_in_name(
    name: str,
    pattern: re.Pattern[str] | None = None,
    form: str | None = None,
    remedy: str = REMEDY_OF_NAMES,
) -> int:
    """The day in the name of a file.

    Args:
        name: Such as 1850-12-31.txt, 1850-1-5.txt, speech_1850.txt, 18501231-message.txt or 1850/12/31.txt.
        pattern: A regular expression whose first group, or whole match, is the date.
        form: How what the pattern finds is to be read, in the notation of `datetime.strptime`.
        remedy: What an error advises if there is no date in the name, or more than one.
    """
    if pattern is not None:
        match = pattern.search(name)
        if match is None:
            raise ValueError(
                f"date_pattern {pattern.pattern!r} finds nothing in the name; change one of them"
            )
        return day_of(match[1] if pattern.groups else match[0], form)
    matches = list(_IN_NAME.finditer(name))
    for match in matches:
        if match["turned"]:
            raise ValueError(_turned(match, remedy))
    found = {match[0] for match in matches}
    days = {day_of(_padded(text)) for text in found if _is_plausible(text)}
    if len(days) == 1:
        return days.pop()
    what = "no date" if not days else f"more than one date ({', '.join(sorted(found))})"
    raise ValueError(f"{what} in the name; {remedy}")


def _turned(match, remedy):
    """What to say of a date that ends with the year: whether the day or the month is first is not guessed."""
    mark = match["between"]
    what = f"{match[0]} in the name may begin with the day or with the month"
    if remedy is not REMEDY_OF_NAMES:
        return f"{what}; {remedy}"
    escaped = r"\." if mark == "." else mark
    return (
        rf"{what}; say which with date_pattern=r'\d+{escaped}\d+{escaped}\d{{4}}' and "
        f"date_format='%d{mark}%m{mark}%Y' or '%m{mark}%d{mark}%Y', or begin the name with the year"
    )


def _padded(text):
    """A date in a name as `_read` takes it: 1850_1_5 as 1850-01-05."""
    return "-".join(part.zfill(2) for part in re.split("[-_.]", text))


def _is_plausible(text):
    try:
        _read(_padded(text), None)
    except ValueError:
        return False
    return True
