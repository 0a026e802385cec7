"""The times that a posterior is asked for, and times as files keep them."""

import re
from typing import Any

import numpy as np

from driftline.models.dates import median_gap
from driftline.models.model import Model
from driftline.models.observations import as_labels, check_finite


def times_ahead(model: Model, own: np.ndarray, steps: int | None, times: Any) -> np.ndarray:
    """The times of a forecast.

    Args:
        model: The model.
        own: Times of the series.
        steps: Number of steps ahead, each as long as the median gap of the series; or
        times: the times themselves, after the last one, for a prior that knows time.
    """
    if (steps is None) == (times is None):
        raise ValueError("forecast takes either a number of steps or times=...")
    if steps is not None:
        if not _is_whole(steps):
            raise TypeError(f"forecast takes a whole number of steps, got {steps!r}; or pass times=...")
        if steps < 1:
            raise ValueError(f"forecast looks at least one step ahead, got {steps}")
        return own[-1] + np.arange(1, steps + 1) * median_gap(own)
    _check_knows_time(model)
    ahead = _new_times(own, times)
    if not np.all(ahead > own[-1]):
        raise ValueError(f"forecast looks ahead of {own[-1]}; use post.at(times) before it")
    return ahead


def times_between(model: Model, own: np.ndarray, times: Any) -> np.ndarray:
    """Any times, if the prior knows of them.

    Args:
        model: The model.
        own: Times of the series.
        times: In any order.
    """
    _check_knows_time(model)
    new_times = _new_times(own, times)
    if not model.prior.stationary and np.any(new_times < own[0]):
        raise ValueError(
            f"{type(model.prior).__name__} begins at the first step, {own[0]}, and says nothing of "
            f"{new_times.min()}; ask for later times, or use OrnsteinUhlenbeck"
        )
    return new_times


def stored(times: np.ndarray, unit: np.timedelta64 | None) -> tuple[np.ndarray, dict[str, Any]]:
    """Times as numbers, and what turns them back."""
    dates = times.dtype.kind == "M"
    return times.astype(np.int64) if dates else times, {
        "times": str(times.dtype) if dates else None,
        "time_unit": None if unit is None else [int(unit.astype(np.int64)), str(unit.dtype)],
    }


def restored(times: np.ndarray, facts: dict[str, Any]) -> tuple[np.ndarray, np.timedelta64 | None]:
    """The times of the steps and their unit; early files have all dates in nanoseconds."""
    if "time_unit_ns" not in facts:
        return _checked_times(times, facts["times"], facts["time_unit"])
    dates, nanoseconds = facts["dates"], facts["time_unit_ns"]
    unit = None if nanoseconds is None else [nanoseconds, "timedelta64[ns]"]
    times, unit = _checked_times(times, None if dates is None else "datetime64[ns]", unit)
    if dates is not None:
        _check_type(dates, "datetime64", "dates")
        times = times.astype(dates)
    return times, unit


def _checked_times(times: np.ndarray, dates: Any, unit: Any) -> tuple[np.ndarray, np.timedelta64 | None]:
    """The times of the steps and their unit, from numbers and the names of their types."""
    if dates is not None:
        _check_type(dates, "datetime64", "times")
        _must(times.dtype == np.int64, f"times has dtype {times.dtype}")
        times = times.astype(dates)
    _must(times.dtype.kind in "iufM", f"times has dtype {times.dtype}")
    if unit is None:
        return times, None
    _must(isinstance(unit, list), f"time_unit is {unit!r}")
    _must(len(unit) == 2, f"time_unit is {unit!r}")
    number, name = unit
    _check_type(name, "timedelta64", "time_unit")
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    _must(is_whole and 0 < number < 2**63, f"time_unit is {number!r} of {name}")
    return times, np.array([number], np.int64).view(name)[0]


def _check_type(name: Any, kind: str, what: str) -> None:
    """Refuse what is not the name of a type of dates or of lengths of time, such as "datetime64[D]"."""
    units = "Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as"
    known = isinstance(name, str) and re.fullmatch(rf"{kind}\[\d{{0,9}}({units})\]", name)
    _must(known, f"the type of {what} is {name!r}")


def _must(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _is_whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _check_knows_time(model: Model) -> None:
    if not model.prior.in_continuous_time:
        raise ValueError(
            f"{type(model.prior).__name__} counts steps and does not know times between them; use a prior in "
            "continuous time, such as OrnsteinUhlenbeck, or forecast whole steps"
        )


def _new_times(own: np.ndarray, times: Any) -> np.ndarray:
    """Times to predict at, of the same kind as those of the series."""
    new_times = np.atleast_1d(as_labels(times))
    dates = own.dtype.kind == "M"
    if (new_times.dtype.kind == "M") != dates:
        kind, other = ("dates", "numbers") if dates else ("numbers", "dates")
        raise TypeError(
            f"the series has {kind} such as {own[-1]}, but {other} such as {new_times.flat[0]} are asked "
            f"for; ask for {kind}"
        )
    if new_times.ndim != 1 or not new_times.size:
        raise ValueError(f"times to predict at are one list of them, got shape {new_times.shape}")
    check_finite(new_times, "times")
    return new_times
