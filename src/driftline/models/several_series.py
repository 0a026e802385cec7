"""Many series at once: from a matrix, a frame or a dict of series to one padded set of observations."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from driftline.linalg.lengths import panel_length
from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.dates import as_timedelta, in_nanoseconds, median_nanoseconds
from driftline.models.observations import Observations, as_times, as_values
from driftline.models.unreadable import refuse_unreadable


class Series(NamedTuple):
    """One series of a panel: its name, values, times, and the unit of time if these are dates."""

    name: Any
    values: np.ndarray
    times: np.ndarray
    gaps: np.ndarray
    unit: np.timedelta64 | None


def is_panel(x: Any, likelihood: AbstractLikelihood, shape: tuple[int, ...]) -> bool:
    """Whether data hold several series for a model of one.

    A dict always does. A matrix or a frame does if the model's path and observations are single numbers.
    """
    if isinstance(x, Mapping):
        return True
    refuse_unreadable("the series", x)
    return shape == () and likelihood.event_shape(()) == () and np.ndim(x) == 2


def as_panel(x: Any, times: Any, unit: Any) -> list[Series]:
    """The series of a panel.

    Args:
        x: A matrix (T, N) or a frame with a column for each series, with common times; or a dict of series,
            which may differ in length and in their times.
        times: Common times, or a dict of them with the same keys; None for those of a pandas index, or for
            0, 1, 2, …
        unit: Length of one unit of time, for dates; None for the median of all gaps between them, the same
            for all series, so that a number that they share means the same to each.
    """
    if isinstance(x, Mapping):
        panel = [_one(name, series, _times_of(name, times), unit) for name, series in x.items()]
        return _in_one_unit(panel) if unit is None else panel
    names = list(getattr(x, "columns", range(np.shape(x)[1])))
    values = as_values(x)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{names.count(repeated[0])} series are called {repeated[0]!r}; give each its own name"
        )
    empty = np.isnan(values).all(axis=0)
    if empty.any():
        raise ValueError(f"series {names[int(np.argmax(empty))]!r} has no observation; leave it out")
    labels, gaps, unit = as_times(times, x, len(values), unit)
    return [Series(name, values[:, i], labels, gaps, unit) for i, name in enumerate(names)]


def _one(name, x, times, unit):
    try:
        values = as_values(x)
        if values.ndim != 1:
            raise ValueError(f"it has shape {values.shape}; a series of a panel has one number per step")
        labels, gaps, unit = as_times(times, x, len(values), unit)
    except (TypeError, ValueError) as error:
        raise type(error)(f"series {name!r}: {error}") from error
    return Series(name, values, labels, gaps, unit)


def _in_one_unit(panel):
    """The series with their dates measured in the median of all gaps of the panel."""
    dated = [series for series in panel if series.unit is not None]
    gaps = [series.gaps * in_nanoseconds(series.unit) for series in dated]
    if not sum(map(len, gaps)):
        return panel
    unit = as_timedelta(median_nanoseconds(np.concatenate(gaps)))
    return [
        series if series.unit is None else _one(series.name, series.values, series.times, unit)
        for series in panel
    ]


def _times_of(name, times):
    if not isinstance(times, Mapping):
        return times
    if name not in times:
        raise ValueError(f"times has no entry for series {name!r}; pass a dict with the same keys as x")
    return times[name]


def observe_panel(
    panel: list[Series], likelihood: AbstractLikelihood, shape: tuple[int, ...]
) -> Observations:
    """All series, with a leading axis for them, filled up to a common length.

    Steps that fill up are cut off by an infinite gap and not observed, so that they take no part.
    """
    if not panel:
        raise ValueError("the panel is empty; it needs at least one series")
    event = likelihood.event_shape(shape)
    if shape != () or event != ():
        raise ValueError(
            "a panel takes a model of one number per step, with a likelihood of this package or "
            f"Likelihood(function, elementwise=True); this one has shape {shape}; fit the series one by one"
        )
    if likelihood.has_arrays():
        raise ValueError(
            "a panel cannot use a likelihood with a number for every step; fit the series one by one"
        )
    longest = max(len(series.values) for series in panel)
    length = panel_length(longest)
    values = np.full((len(panel), length), np.nan)
    gaps = np.full((len(panel), length - 1), np.inf)
    for i, series in enumerate(panel):
        values[i, : len(series.values)] = series.values
        gaps[i, : len(series.gaps)] = series.gaps
    _check(panel, values, likelihood)
    missing = np.isnan(values)
    seen = np.take_along_axis(values, np.argmin(missing, axis=1)[:, None], axis=1)
    return Observations(*map(jax.device_put, (np.where(missing, seen, values), ~missing, gaps)))


def _check(panel, values, likelihood):
    try:
        likelihood.check_series(values, ())
    except ValueError:
        for series in panel:  # find out whose it is
            try:
                likelihood.check_series(series.values, ())
            except ValueError as error:
                raise ValueError(f"series {series.name!r}: {error}") from error
        raise
