"""Dates and lengths of time as arrays that do not wrap around where nanoseconds end, in 1677 and 2262."""

import datetime
from typing import Any

import numpy as np

from driftline.models.unreadable import refuse_unreadable

# Lengths of numpy's units; years and months have none of their own, and these are the Gregorian averages.
NANOSECONDS = {
    "Y": 31_556_952e9, "M": 2_629_746e9, "W": 604_800e9, "D": 86_400e9, "h": 3_600e9, "m": 60e9, "s": 1e9,
    "ms": 1e6, "us": 1e3, "ns": 1.0, "ps": 1e-3, "fs": 1e-6, "as": 1e-9,
}  # fmt: skip

OWN_TIMES = "pass times=..., such as times=range(len(x)) for equal steps"


def as_labels(times: Any) -> np.ndarray:
    """Times of any kind as an array of numbers or dates; dates with a time zone become those of UTC."""
    times = getattr(times, "array", times)  # what a pandas Series or Index holds
    if hasattr(times, "to_timestamp"):  # periods
        times = times.to_timestamp()
    if getattr(times, "tz", None) is not None:
        times = times.tz_convert(None)
    if hasattr(times, "to_numpy"):
        times = times.to_numpy()
    refuse_unreadable("times", np.asarray(times) if isinstance(times, str) else times)
    labels = np.asarray(times)
    if _hold_dates(labels):
        return _without_zones(labels).astype("datetime64[us]")
    if labels.dtype.kind in "US":
        return _read_text(labels)
    if labels.dtype.kind not in "iufM":
        odd = next((time for time in labels.flat if not isinstance(time, datetime.date)), None)
        raise TypeError(f"times must be numbers or dates, got {labels.dtype} such as {odd!r}")
    return labels


def index_times(x: Any) -> np.ndarray | None:
    """The dates or numbers of a pandas index; None if there is no index. Text must be dates."""
    index = getattr(x, "index", None)
    if index is None or callable(index):
        return None
    entries = np.asarray(index)
    if entries.dtype.kind in "iufM" or hasattr(index, "to_timestamp") or _hold_dates(entries):
        return as_labels(index)
    if entries.size and all(isinstance(entry, str) for entry in entries.flat):
        return _dates_of_text(entries)
    odd = entries.flat[0] if entries.size else None
    raise TypeError(
        f"the index of the series holds {type(odd).__name__} such as {odd!r}, neither numbers nor dates; "
        f"{OWN_TIMES}"
    )


def _dates_of_text(entries):
    try:
        return entries.astype(str).astype("datetime64")
    except ValueError:
        for step, entry in enumerate(entries):
            try:
                np.datetime64(entry)
            except ValueError as error:
                raise ValueError(
                    f"the index of the series holds text, and that of step {step}, {entry!r}, is not a date "
                    f"like 2024-05-31; {OWN_TIMES}"
                ) from error
        raise


def gaps_in_nanoseconds(dates: np.ndarray) -> np.ndarray:
    """Differences of neighbouring dates, as floats."""
    if np.datetime_data(dates.dtype)[0] in ("Y", "M"):
        dates = dates.astype("datetime64[D]")  # years and months differ in length
    ticks = dates.astype(np.int64)
    forward = ticks[1:] >= ticks[:-1]
    # Two dates may be further apart than a signed integer reaches, but not further than an unsigned one.
    later, earlier = ticks[1:].astype(np.uint64), ticks[:-1].astype(np.uint64)
    distances = np.where(forward, later - earlier, earlier - later).astype(np.float64)
    return np.where(forward, distances, -distances) * _tick(dates.dtype)


def in_nanoseconds(unit: Any) -> float:
    """A length of time, as users give it for `time_unit`, in nanoseconds."""
    if isinstance(unit, int | np.integer) and not isinstance(unit, np.timedelta64):
        raise _without_unit(unit)  # before NumPy, which warns of such numbers
    try:
        length = np.timedelta64(unit)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f'time_unit must be a length of time such as np.timedelta64(1, "D"), got {unit!r}'
        ) from error
    if np.datetime_data(length.dtype)[0] == "generic":
        raise _without_unit(unit)
    if length.astype(np.int64) <= 0:  # as one that is missing is
        raise ValueError(f"time_unit must be longer than nothing, got {unit!r}")
    return float(length.astype(np.int64)) * _tick(length.dtype)


def _without_unit(unit):
    return TypeError(
        f"time_unit={unit!r} does not say whether these are days or seconds; "
        f'pass a length of time such as np.timedelta64({unit!r}, "D")'
    )


def as_timedelta(nanoseconds: float) -> np.timedelta64:
    """A length of time, in whole nanoseconds, or in whole seconds where those would wrap around."""
    if nanoseconds < 2.0**63:
        return np.timedelta64(round(nanoseconds), "ns")
    return np.timedelta64(round(nanoseconds / 1e9), "s")


def _tick(dtype):
    unit, count = np.datetime_data(dtype)
    return count * NANOSECONDS[unit]


def _hold_dates(entries):
    return (
        entries.dtype == object
        and entries.size > 0
        and all(isinstance(entry, datetime.date) for entry in entries.flat)
    )


def _without_zones(dates):
    """Dates of Python, those with a time zone as the same moments of UTC."""
    zoned = [getattr(date, "tzinfo", None) is not None for date in dates.flat]
    if not any(zoned):
        return dates
    if not all(zoned):
        raise ValueError(
            f"some times have a time zone, but time {zoned.index(False)}, "
            f"{dates.flat[zoned.index(False)]!r}, has none; give one to all of them or to none"
        )
    utc = [date.astimezone(datetime.UTC).replace(tzinfo=None) for date in dates.flat]
    return np.array(utc, dtype=object).reshape(dates.shape)


def _read_text(labels):
    try:
        return labels.astype("datetime64")
    except ValueError as error:
        raise ValueError(
            f"times are neither numbers nor dates: {error}; pass numbers, dates, or text like 2024-05-31"
        ) from error


def median_gap(times: np.ndarray) -> Any:
    """The usual length of a step, in the unit of the times: a gap that occurs, where times are whole."""
    gaps = np.diff(times)
    if len(gaps) == 0:
        return np.timedelta64(1, "D") if times.dtype.kind == "M" else 1
    middle = np.sort(gaps)[(len(gaps) - 1) // 2]
    return middle if times.dtype.kind in "iuM" else float(np.median(gaps))


def median_nanoseconds(gaps: np.ndarray) -> float:
    """The usual length of a step between dates, which may lie between two that occur; a day for one step."""
    return float(np.median(gaps)) if len(gaps) else in_nanoseconds(np.timedelta64(1, "D"))
