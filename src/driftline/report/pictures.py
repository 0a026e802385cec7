"""Pictures that are written to files."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftline.storage import checked_files as files
from driftline.storage.explained_errors import explained

YEAR = 365.2425  # days
MARGIN = 0.2  # share of the time from first to last that a picture may go beyond them
CALENDAR = np.array(["0001-01-01", "9999-12-31"], "datetime64[D]").astype(np.int64)


def new_figure() -> tuple[Any, Any]:
    """A figure and its axes, for files only."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.01)
    return figure, ax


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure as a picture of the kind that its name says, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=path.suffix[1:] or "png")
    try:
        with files.replacing(path) as file:
            file.write(content.getvalue())
    except OSError as error:
        raise explained(error, f"could not write {path}", "choose another place") from error


def axis_of(*dates: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """What turns dates into places on the axis: dates, or years as numbers near the ends of the calendar.

    Matplotlib looks for ticks a little beyond the data, and has no dates before the year 1 or after 9999.
    """
    days = np.concatenate(dates).astype("datetime64[D]").astype(np.int64)
    beyond = MARGIN * (days.max() - days.min()) + YEAR
    if CALENDAR[0] <= days.min() - beyond and days.max() + beyond <= CALENDAR[1]:
        return lambda some: some
    return lambda some: 1970.0 + some.astype("datetime64[D]").astype(np.int64) / YEAR
