"""Tables of benchmarks, made from what was measured: `{benchmark} price` with `:table:` and `:columns:`."""

import json
import typing
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from benchmarks.report import Goal, Report, Table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def stored(name: str) -> Report:
    """The last full run of a benchmark."""
    return Report.from_json(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def goals(report: Report) -> Table:
    """What was aimed at, and what came out."""
    return Table("Goals", ["quantity", "goal", "measured", "met"], [_row(goal) for goal in report.goals])


def _row(goal: Goal):
    return [goal.what, goal.goal, goal.measured, {None: "not measured", True: "yes", False: "**no**"}[goal.met]]


def part(table: Table, columns: list[str] | None, rows: list[str] | None) -> Table:
    """Some columns of a table, and the rows in which a cell is one of those asked for."""
    kept = columns or list(table.columns)
    unknown = sorted(set(kept) - set(table.columns))
    if unknown:
        raise ValueError(f"no column {unknown[0]!r}; there are {', '.join(table.columns)}")
    places = [list(table.columns).index(name) for name in kept]
    chosen = [row for row in table.rows if rows is None or any(str(cell) in rows for cell in row)]
    return Table(table.title, kept, [[row[i] for i in places] for row in chosen], table.digits)


def _list(text):
    return [each.strip() for each in text.split(";")]


class Benchmark(SphinxDirective):
    """One table of a benchmark, by its title; "Goals" is one of them."""

    required_arguments = 1
    option_spec: typing.ClassVar = {"table": str, "columns": _list, "rows": _list}

    def run(self):  # noqa: D102
        report = stored(self.arguments[0])
        self.env.note_dependency(str(RESULTS / f"{self.arguments[0]}.json"))
        tables = {table.title: table for table in (*report.tables, goals(report))}
        title = self.options.get("table", next(iter(tables)))
        if title not in tables:
            raise self.error(f"no table {title!r}; there are {', '.join(tables)}")
        table = part(tables[title], self.options.get("columns"), self.options.get("rows"))
        return self.parse_text_to_nodes(table.markdown())


def setup(app):
    """Register with Sphinx."""
    app.add_directive("benchmark", Benchmark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
