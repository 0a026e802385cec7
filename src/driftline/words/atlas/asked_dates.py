"""Which time step a date, a month or a year belongs to."""

from typing import Any

import numpy as np

from driftline.words.counts.time_steps import NAMES, Step, make_steps
from driftline.words.texts.dates import period_of, to_date

YEAR = 366  # days by which a date may miss an atlas of one step
DAYS = {"document": 0, "day": 1, "month": 31, "year": YEAR, "decade": 10 * YEAR}  # at most, of a step


def step_of(dates: np.ndarray, when: Any, length: Step = "document") -> int:
    """The step that holds a date, or else the nearest.

    Of the steps inside a month or a year that is asked for, the first is taken. What lies outside the span of
    all steps by more than the length of a step, or the median gap between two if that is larger, is refused.

    Args:
        dates: When each step begins, increasing.
        when: A date, a year, a month, as text, as a number or as a date of Python or NumPy.
        length: What a step is, as `words.count` was told.
    """
    days = dates.astype(np.int64)
    try:
        period = period_of(when)
    except ValueError as error:
        raise ValueError(f"{error}; the steps go from {dates[0]} to {dates[-1]}") from None
    # A day in a decade belongs to the step that begins with it, even if the next begins sooner after.
    holding = _beginning(period.first, days[0], length)
    if holding in days:
        return int(np.searchsorted(days, holding))
    distance = np.maximum(np.maximum(period.first - days, days - period.last), 0)
    nearest = int(distance.argmin())
    days_of_step = length if isinstance(length, int) else DAYS[length]
    outside = max(days[0] - period.last, period.first - (days[-1] + days_of_step))
    gap = np.median(np.diff(days)) if len(days) > 1 else YEAR
    if outside > max(days_of_step, gap):
        raise ValueError(
            f"{when!r} is {distance[nearest]:,} days from the nearest step, {to_date(int(days[nearest]))}; "
            f"the steps go from {dates[0]} to {dates[-1]}: choose a date in this span"
        )
    return nearest


def length_of_steps(provenance: dict[str, Any]) -> Step:
    """What a step is, as `words.count` noted it; "document" if that is not known."""
    options = provenance.get("options")
    length = options.get("step") if isinstance(options, dict) else None
    is_known = length in NAMES if isinstance(length, str) else isinstance(length, int) and length >= 1
    return length if is_known else "document"  # pyright: ignore[reportReturnType]


def _beginning(day, first, length):
    """First day of the period that a day is in."""
    if length == "document":
        return day
    if not isinstance(length, int):
        return int(make_steps(np.array([day]), length).dates.astype(np.int64)[0])
    return first + (day - first) // length * length
