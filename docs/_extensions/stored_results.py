"""Tables of the last full run of each benchmark."""

import json
from pathlib import Path

from benchmarks.harness.report import Goal, Report, Table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def stored(name: str) -> Report:
    """The last full run of a benchmark."""
    return Report.from_json(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def goals(report: Report) -> Table:
    """What was aimed at, and what came out."""
    return Table("Goals", ["quantity", "goal", "measured", "met"], [_row(goal) for goal in report.goals])


def _row(goal: Goal):
    return [
        goal.what,
        goal.goal,
        goal.measured,
        {None: "not measured", True: "yes", False: "**no**"}[goal.met],
    ]


def part(table: Table, columns: list[str] | None, rows: list[str] | None) -> Table:
    """Some columns of a table, and the rows in which a cell is one of those asked for."""
    kept = columns or list(table.columns)
    unknown = sorted(set(kept) - set(table.columns))
    if unknown:
        raise ValueError(f"no column {unknown[0]!r}; there are {', '.join(table.columns)}")
    places = [list(table.columns).index(name) for name in kept]
    chosen = [row for row in table.rows if rows is None or any(str(cell) in rows for cell in row)]
    return Table(table.title, kept, [[row[i] for i in places] for row in chosen], table.digits)
