"""Tables of benchmarks, made from what was measured: `{benchmark} price` with `:table:` and `:columns:`."""

import typing

from sphinx.util.docutils import SphinxDirective

from stored_results import RESULTS, goals, part, stored


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


class BenchmarkNotes(SphinxDirective):
    """How a benchmark was run, in its own words."""

    required_arguments = 1

    def run(self):  # noqa: D102
        notes = [note for note in stored(self.arguments[0]).notes if not note.startswith("Plot:")]
        return self.parse_text_to_nodes("\n".join(f"- {note}" for note in notes))


def setup(app):
    """Register with Sphinx."""
    app.add_directive("benchmark", Benchmark)
    app.add_directive("benchmark-notes", BenchmarkNotes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
