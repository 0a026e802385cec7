"""From what users have (lists, frames, dates, gaps) to checked arrays that a model can be fitted to."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.dates import (
    as_labels,
    as_timedelta,
    gaps_in_nanoseconds,
    in_nanoseconds,
    index_times,
    median_nanoseconds,
)
from driftline.models.unreadable import refuse_unreadable

SAME_TIME = 1e-9  # of a median gap, within which two times are one


class Observations(eqx.Module):
    """A series as a model sees it.

    Attributes:
        values: What was seen; where nothing was, some value that was seen elsewhere.
        observed: Which data were seen.
        spacing: Lengths of time between neighbouring steps, or one number if all are equal: what depends on
            time alone is then a number for the compiler too, not an array to be read at every step of a fit.
    """

    values: Float[Array, " T *event"]
    observed: Bool[Array, " T *data"]
    spacing: Float[Array, "..."]

    @property
    def gaps(self) -> Float[Array, " T-1"]:
        """Lengths of time between neighbouring steps."""
        return jnp.broadcast_to(self.spacing, (len(self.values) - 1,))


def as_values(x: Any) -> np.ndarray:
    """A series of any kind as a float64 array with time first and NaN where nothing was observed."""
    values = as_numbers(x)
    if values.size == 0:
        raise ValueError(f"the series is empty (shape {values.shape}); it needs at least one step")
    if np.isnan(values).all():
        raise ValueError(f"all {len(values)} steps of the series are missing; at least one must be observed")
    return values


def as_numbers(x: Any) -> np.ndarray:
    """Observations of any kind as a float64 array with time first, NaN where there are none."""
    refuse_unreadable("the series", x)
    if hasattr(x, "to_numpy"):
        x = x.to_numpy()
    if np.ma.isMaskedArray(x):
        x = np.ma.filled(x.astype(np.float64 if x.dtype.kind in "biuf" else object), np.nan)
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    if kind in ("M", "m", "c"):
        what = "complex numbers" if kind == "c" else "dates or lengths of time"
        raise TypeError(f"the series holds {what} ({x.dtype}); it needs real numbers, dates go into times=")
    try:
        values = np.array(x, dtype=np.float64)
    except (TypeError, ValueError) as error:
        values = _numbers_one_by_one(x, error)
    if values.ndim == 0:
        raise TypeError(f"the series is one number, {values}; pass a list or an array with time first")
    if np.isinf(values).any():
        place = tuple(int(i) for i in np.argwhere(np.isinf(values))[0])
        raise ValueError(
            f"observation {values[place]} at step {place[0] if len(place) == 1 else place} is infinite; "
            "put NaN where nothing was observed"
        )
    return values


def as_times(
    times: Any, x: Any, num_steps: int, unit: Any = None
) -> tuple[np.ndarray, np.ndarray, np.timedelta64 | None]:
    """Labels of the steps, the gaps between them, and the unit of the gaps if the labels are dates.

    Plain numbers are taken as they are. Dates are measured in `unit`, or, if none is given, in their median
    gap, so that the prior's numbers are per typical step.

    Args:
        times: Numbers or dates, or None for those of a pandas index or else 0, 1, 2, …
        x: The series, looked at for a pandas index.
        num_steps: Number of steps in the series.
        unit: Length of one unit of time, such as `np.timedelta64(1, "D")` or `datetime.timedelta(days=7)`.
    """
    what = "times"
    if times is None:
        what, times = "the index of the series", index_times(x)
    if times is None:
        return np.arange(num_steps), np.ones(num_steps - 1), None
    refuse_unreadable(what, times)
    labels = as_labels(times)
    if labels.shape != (num_steps,):
        raise ValueError(
            f"times has shape {labels.shape}, but the series has {num_steps} steps; pass one time per step"
        )
    dates = labels.dtype.kind == "M"
    gaps = gaps_in_nanoseconds(labels) if dates else np.diff(labels.astype(np.float64))
    check_finite(labels, what)
    _check_increasing(labels, gaps, what)
    if not dates:
        if unit is not None:
            raise ValueError(
                f"time_unit={unit!r} is for dates, but times are numbers; divide the numbers instead"
            )
        return labels, gaps, None
    length = median_nanoseconds(gaps) if unit is None else in_nanoseconds(unit)
    return labels, gaps / length, as_timedelta(length)


def observe(
    values: np.ndarray, gaps: np.ndarray, likelihood: AbstractLikelihood, shape: tuple[int, ...]
) -> Observations:
    """Check a series against the model that it is meant for, and mark what is missing."""
    event = likelihood.event_shape(shape)
    if event is not None and values.shape[1:] != event:
        raise ValueError(
            f"each step of the series has shape {values.shape[1:]}, but the prior has shape {shape} and "
            f"{type(likelihood).__name__} then takes observations of shape {event}; "
            f"pass shape={values.shape[1:]} to the prior, or change the series"
        )
    likelihood.check_series(values, shape)
    missing = likelihood.missing(values)
    even = len(gaps) > 0 and np.ptp(gaps) <= 1e-12 * gaps[0]  # times such as 0.1 t are even to rounding only
    spacing = gaps[0] if even else gaps
    # device_put, because jnp.asarray compiles a program for every new length.
    return Observations(
        *map(jax.device_put, (_filled(values, missing), ~missing, np.asarray(spacing, float)))
    )


def merged(times: np.ndarray, new_times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All times in order, and the place of each; those that differ by rounding only are one."""
    both = np.concatenate([times, new_times])
    if both.dtype.kind != "f" or len(times) < 2:
        return np.unique(both, return_inverse=True)
    gaps = np.diff(times)
    tolerance = min(SAME_TIME * np.median(gaps), 0.25 * gaps.min())
    order = np.argsort(both, kind="stable")
    begins = np.append(True, np.diff(both[order]) > tolerance)
    places = np.empty(len(both), int)
    places[order] = np.cumsum(begins) - 1
    return both[order][begins], places


def _numbers_one_by_one(x, error):
    """Convert entry by entry, for missing values that numpy does not know and to name what is wrong."""
    entries = np.asarray(x, dtype=object)
    values = np.empty(entries.shape)
    for place, entry in np.ndenumerate(entries):
        try:
            values[place] = np.nan if entry is None or str(entry) == "<NA>" else float(entry)
        except (TypeError, ValueError):
            raise TypeError(
                f"observation {entry!r} at step {place[0]} is not a number; "
                "a series holds numbers, with NaN or None where nothing was observed"
            ) from error
    return values


def check_finite(labels: np.ndarray, what: str) -> None:
    """Refuse times that are not a date or a finite number."""
    odd = np.isnat(labels) if labels.dtype.kind == "M" else ~np.isfinite(labels.astype(np.float64))
    if odd.any():
        step = int(np.argmax(odd))
        raise ValueError(
            f"{what} must be finite, but that of step {step} is {labels[step]}; give it a time, or leave the "
            "step out"
        )


def _check_increasing(labels, gaps, what):
    if (gaps <= 0).any():
        step = int(np.argmax(gaps <= 0)) + 1
        remedy = "" if what == "times" else ", or pass times=range(len(x)) if the index says nothing of time"
        raise ValueError(
            f"{what} must increase, but step {step} is at {labels[step]} and the step before it at "
            f"{labels[step - 1]}; sort the series by time and join steps of the same time{remedy}"
        )


def _filled(values, missing):
    if missing.ndim < values.ndim:
        return np.where(_wide(missing, values), values[np.argmin(missing)], values)
    return np.where(missing, values[~missing][0], values)


def _wide(missing, values):
    return missing.reshape(len(missing), *(1 for _ in values.shape[1:]))
