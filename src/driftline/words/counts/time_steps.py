"""From the days of a corpus to its time steps."""

from typing import Literal, NamedTuple

import numpy as np

Step = Literal["document", "day", "month", "year", "decade"] | int
NAMES = ("document", "day", "month", "year", "decade")
FIRST_DAY = np.datetime64("0001-01-01", "D")  # there is no year 0, with which the first decade would begin


class TimeSteps(NamedTuple):
    """The time steps of a corpus.

    Attributes:
        dates: The first day of each step's period, or the first document's date in a step of documents.
        days: All days on which there is a document, increasing.
        of_day: Step of each of these days.
    """

    dates: np.ndarray
    days: np.ndarray
    of_day: np.ndarray

    def of(self, days: np.ndarray) -> np.ndarray:
        """Steps of some of the corpus's days."""
        return self.of_day[np.searchsorted(self.days, days)]


def check_step(step: Step, join_days: int) -> None:
    """Refuse what is not the length of a time step."""
    if not (step in NAMES or (_is_whole(step) and step >= 1)):
        raise ValueError(f"step={step!r}; choose one of {NAMES} or a whole number of days")
    if not _is_whole(join_days) or join_days < 0:
        raise ValueError(f"join_days={join_days!r}; a whole number of days is needed, or 0 to join none")
    if join_days and step != "document":
        raise ValueError(f"join_days={join_days} is for step='document', but step={step!r}; leave one out")


def _is_whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def make_steps(days: np.ndarray, step: Step, join_days: int = 0) -> TimeSteps:
    """The time steps that hold at least one document.

    Args:
        days: The days on which there is a document, increasing, counted from 1970-01-01.
        step: "document" for a step per date, the name of a period, or a number of days from the first on.
        join_days: With "document": a date less than so many days after the one before joins its step.
    """
    if step == "document":
        labels = np.cumsum(np.diff(days, prepend=days[0]) >= max(join_days, 1))
        dates = days[np.unique(labels, return_index=True)[1]].astype("datetime64[D]")
    elif isinstance(step, str):
        labels = _periods(days.astype("datetime64[D]"), step)
        dates = np.unique(labels).astype("datetime64[D]")
    else:
        labels = (days - days[0]) // step
        dates = (days[0] + np.unique(labels) * step).astype("datetime64[D]")
    return TimeSteps(dates, days, np.unique(labels, return_inverse=True)[1])


def _periods(dates: np.ndarray, step: str) -> np.ndarray:
    """The first day of each date's period."""
    if step == "decade":
        years = dates.astype("datetime64[Y]")
        begins = (years - (years.astype(int) + 1970) % 10).astype("datetime64[D]")
        return np.maximum(begins, FIRST_DAY)
    unit = {"day": "D", "month": "M", "year": "Y"}[step]
    return dates.astype(f"datetime64[{unit}]").astype("datetime64[D]")
