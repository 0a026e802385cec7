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
    r"(?:(?P<mark>[-_/.])(?P<month>\d{1,2})(?:(?P=mark)(?P<day>\d{1,2}))?|(?P<rest>\d{4}))?"
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

    Reads text such as 1850, 1850-12, 1850-12-31, 1850-1-5, 18501231, 1850/12/31 and
    1850-12-31T10:00:00-04:00, whole numbers such as 1850, and the dates of Python and NumPy. The time of day
    and its zone are dropped: a text belongs to the day that it names. Decimal years, as numbers or text, are
    days: 1850.5 is the middle of 1850, and 1850.0 all of it. Text such as 1850.12 may also be a month, and is
    refused.

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
    if isinstance(value, float | np.floating) and np.isfinite(value):
        if value != int(value):
            return _decimal(value, form)
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


_FRACTION = re.compile(r"(?P<year>\d{4})\.(?P<digits>\d+)", re.ASCII)


def _decimal(value, form):
    """The day in a year that is a number with a fraction."""
    if form is not None:
        raise ValueError(
            f"{value!r} is a number, and its last zeros are lost, so that date_format={form!r} may misread "
            "it; write dates as text"
        )
    if not 1000 <= value < 10_000:
        raise ValueError(f"{value!r} is not a date, nor a decimal year of four digits; {_REMEDY}")
    return _day_in_year(value)


def _day_in_year(value):
    first, last = _ends(int(value), None, None)
    day = first.toordinal() - EPOCH + int((value - int(value)) * (last.toordinal() - first.toordinal() + 1))
    return Period(day, day)


def _fraction(year, digits):
    """What a year and the digits after a dot stand for; two digits that may be a month are not guessed."""
    if not int(digits):
        return _read(year, None)
    if len(digits) == 2 and 1 <= int(digits) <= 12:
        raise ValueError(
            f"it may be the month {year}-{digits} or a decimal year: write {year}-{digits} or "
            f"{year}.{digits}0, or pass date_format='%Y.%m' for months"
        )
    return _day_in_year(float(f"{year}.{digits}"))


@functools.lru_cache(maxsize=4096)
def _read(text: str, form: str | None) -> Period:
    try:
        if form is not None:
            return period_of(datetime.datetime.strptime(text.strip(), form))
        if decimal := _FRACTION.fullmatch(text.strip()):
            return _fraction(**decimal.groupdict())
        if re.fullmatch(r"\d{1,3}", text.strip(), re.ASCII):
            raise ValueError(f"years have four digits: write {int(text):04d} if it is one")
        found = _YEAR_FIRST.fullmatch(text.strip())
        # Six digits could be a year and a month or a short date with a day first: not guessed.
        if found is None:
            raise ValueError("it has another form")
        year, month, day, rest = found.group("year", "month", "day", "rest")
        if rest:
            month, day = rest[:2], rest[2:]
        first, last = _ends(*(part and int(part) for part in (year, month, day)))
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


_MONTH, _DAY = r"(?:0?[1-9]|1[0-2])", r"(?:0?[1-9]|[12]\d|3[01])"
_NTH = r"(?:st|[nr]d|th)(?![a-z])"
# Years, months and days may also be folders. There is a month in 1850-12a, but none in 1850-12th and 1850-3D.
_IN_NAME = re.compile(
    r"(?<!\d)(?:"
    rf"(?P<whole>(?:\d{{8}}|\d{{4}}(?P<sign>[-_./]){_MONTH}(?P=sign){_DAY})(?!\d))"
    rf"|(?P<turned>{_DAY}(?P<between>[-_.]){_DAY}(?P=between)\d{{4}}(?!\d))"
    rf"|(?P<month>\d{{4}}(?:[-_.](?:(?:0[1-9]|1[0-2])(?!\d|{_NTH})|[1-9](?![^\W_]))|/{_MONTH}(?=[/.])))"
    r"|\d{4}(?!\d))",
    re.ASCII | re.IGNORECASE,
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
        remedy: What an error advises if there is no date in the name, more than one, or more of one than is
            understood.
    """
    if pattern is not None:
        match = pattern.search(name)
        if match is None:
            raise ValueError(
                f"date_pattern {pattern.pattern!r} finds nothing in the name; change one of them"
            )
        text = match[1] if pattern.groups else match[0]
        return day_of(_dashed(text) if form is None else text, form)
    matches = list(_IN_NAME.finditer(name))
    for match in matches:
        if match["turned"]:
            raise ValueError(_turned(match, remedy))
        if (text := _with_neighbours(match)) != match[0] and _is_plausible(match[0]):
            raise ValueError(_cut(match[0], text, remedy))
    found = {match[0] for match in matches}
    days = {day_of(_dashed(text)) for text in found if _is_plausible(text)}
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


_GAP = r"[-\u2013_., ]"
_NUMBER = r"(?<![^\W_])\d{1,2}"
_NAMED = (
    rf"(?:{_NUMBER}(?:{_NTH})?{_GAP}*)?(?<![a-z])(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?"
    r"|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?![a-z])"
)


def _neighbours(number_before, number_after):
    """Expressions for what may be more of a date before and after it: a number, or a month by its name."""
    before = rf"(?:{_NAMED}(?:{_GAP}*\d{{1,2}}(?:{_NTH})?{_GAP}+|(?:{_GAP}|/)*)|{number_before})\Z"
    after = rf"(?:{_GAP}|/)*{_NAMED}|{number_after}"
    return [re.compile(each, re.ASCII | re.IGNORECASE) for each in (before, after)]


_BESIDE_YEAR = _neighbours(
    rf"(?:{_NUMBER}{_GAP}+)+",
    # Three digits may be the day of the year. In the folder of a year, 05_speech.txt may be any number.
    rf"{_GAP}+(?:\d{{1,2}}(?!\d|{_NTH})|\d{{3}}(?![^\W_]))|/\d{{1,2}}(?:{_GAP}\d{{1,2}}(?!\d)|(?=[/.]))",
)
# Another mark than that before the month parts it from other things, such as the volume in 1850-03_2.txt.
_BESIDE_MONTH = {mark: _neighbours(rf"{_NUMBER}[{mark}]", rf"[{mark}]\d{{1,2}}(?!\d)") for mark in "-_."} | {
    "/": _neighbours("(?!)", r"/\d{1,2}(?!\d)")
}


def _with_neighbours(match):
    """A date in a name, together with what stands beside it and may be more of it."""
    if match["whole"]:
        return match[0]
    before, after = _BESIDE_MONTH[match[0][4]] if match["month"] else _BESIDE_YEAR
    found_before = before.search(match.string, 0, match.start())
    found_after = after.match(match.string, match.end())
    begin = found_before.start() if found_before else match.start()
    end = found_after.end() if found_after else match.end()
    return match.string[begin:end]


def _cut(date, text, remedy):
    """What to say of a date of which only a part is understood: the rest is not dropped."""
    what = f"{text} in the name may be more of a date than {date}"
    if remedy is not REMEDY_OF_NAMES:
        return f"{what}; {remedy}"
    mark = date[4:5].replace(".", r"\.")
    pattern = r"\d{4}" + (rf"{mark}\d+" if mark else "")
    return (
        f"{what}; if {date} is all that counts, pass date_pattern=r'{pattern}'; if not, let the pattern find "
        "all of it and say how to read it, as in date_format='%d %B %Y', or begin the name as in "
        "1850-12-31.txt"
    )


def _dashed(text):
    """A date in a name with dashes: in 1850.12.txt a month is meant, and no decimal year."""
    return text.replace(".", "-")


def _is_plausible(text):
    try:
        _read(_dashed(text), None)
    except ValueError:
        return False
    return True
