"""What a benchmark reports: tables, goals met or missed, notes; as Markdown and as JSON."""

import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from typing import Any

PACKAGES = ("driftline", "equinox", "jax", "numpy", "numpyro", "optax")


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of numbers and words under the names of their columns; numbers to so many significant digits."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    digits: int = 3

    def markdown(self) -> str:
        """The table with its title above it."""
        cells = [list(self.columns), *([_cell(value, self.digits) for value in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = [
            " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells
        ]
        rule = "|".join("-" * (width + 2) for width in widths)
        return "\n".join(
            [f"**{self.title}**", "", f"| {lines[0]} |", f"|{rule}|"] + [f"| {line} |" for line in lines[1:]]
        )


@dataclasses.dataclass(frozen=True)
class Goal:
    """A number that was aimed at, and what came out."""

    what: str
    goal: str
    measured: float | None
    met: bool | None


@dataclasses.dataclass(frozen=True)
class Report:
    """All that one benchmark has to say."""

    name: str
    tables: Sequence[Table]
    goals: Sequence[Goal]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        """The report as text to read."""
        goals = [[goal.what, goal.goal, goal.measured, _verdict(goal.met)] for goal in self.goals]
        tables = [*self.tables, Table("Goals", ["quantity", "goal", "measured", "verdict"], goals)]
        notes = "\n".join(f"- {note}" for note in self.notes)
        return (
            "\n\n".join([f"## {self.name}", *(table.markdown() for table in tables), notes]).rstrip() + "\n"
        )

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Report":
        """The report that `as_json` described."""
        tables = [Table(**table) for table in values["tables"]]
        return cls(values["name"], tables, [Goal(**goal) for goal in values["goals"]], values["notes"])

    def as_json(self, *, quick: bool) -> dict[str, Any]:
        """The report as plain values, with what is needed to judge it."""
        return {"quick": quick, "environment": environment(), **dataclasses.asdict(self)}


def environment() -> dict[str, Any]:
    """Versions and the number of cores; nothing that names the machine or its user."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {"python": platform.python_version(), "cores": os.cpu_count(), "packages": versions}


def at_most(what: str, measured: float | None, limit: float, unit: str = "") -> Goal:
    """A goal to stay at or below a limit."""
    return Goal(what, f"≤ {limit:g}{unit}", measured, None if measured is None else measured <= limit)


def more_than(what: str, measured: float | None, limit: float) -> Goal:
    """A goal to exceed a limit."""
    return Goal(what, f"> {limit:g}", measured, None if measured is None else measured > limit)


def between(what: str, measured: float, low: float, high: float) -> Goal:
    """A goal to lie between two limits."""
    return Goal(what, f"{low:g} to {high:g}", measured, low <= measured <= high)


def _verdict(met):
    return "not measured" if met is None else "met" if met else "**missed**"


def _cell(value, digits):
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
