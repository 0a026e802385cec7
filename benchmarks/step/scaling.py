"""How time and memory of one gradient step grow with the length of the series, structured and dense."""

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks.harness.report import Goal, Report, Table, between

STRUCTURED = (1_000, 10_000, 100_000, 1_000_000)
DENSE = (250, 500, 1_000, 2_000, 4_000)
DENSE_STEPS = 10
COLUMNS = (
    "step", "T", "compile, s", "ms per step, min", "ms per step, median",
    "planned memory, MB", "RSS growth, MB",
)  # fmt: skip
NOTES = (
    "Float64, one draw per step. Structured: the package's own block of steps in one call; dense: the same "
    f"step with the inverse of the factor as a dense matrix, {DENSE_STEPS} steps in one call.",
    "The dense inverse is formed in O(T²) by substitution, not by a general O(T³) inverse: the kindest form.",
    "Planned memory is what the compiler reserves: arguments + results + temporaries. The exponents use it, "
    "since it is exact and has no constant part. RSS growth is what the operating system saw at the peak, "
    "in a fresh process per row, beyond what a tiny problem took before it in that process.",
)


def run(*, quick: bool) -> Report:
    """Measure every row in a process of its own."""
    rows = [_row("structured", size, quick) for size in (STRUCTURED[:3] if quick else STRUCTURED)]
    rows += [_row("dense", size, quick) for size in (DENSE[:3] if quick else DENSE)]
    slopes = [_slopes(rows, kind) for kind in ("structured", "dense")]
    return Report(
        "scaling",
        [
            Table("Time and memory of one step", COLUMNS, [_cells(row) for row in rows]),
            Table("Exponents p of T^p, by least squares on logarithms", ["step", "time", "memory"], slopes),
        ],
        _goals(*slopes),
        NOTES,
    )


def _row(kind: str, size: int, quick: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.step.scaling", kind, str(size), "3" if quick else "7"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _cells(row):
    milliseconds = [1e3 * row["minimum"], 1e3 * row["median"]]
    return [row["kind"], row["size"], row["compile"], *milliseconds, row["planned"] / 1e6, row["rss"] / 1e6]


def _slopes(rows, kind):
    from benchmarks.harness.measure import slope

    rows = [row for row in rows if row["kind"] == kind]
    sizes = [row["size"] for row in rows]
    return [kind, *(slope(sizes, [row[what] for row in rows]) for what in ("minimum", "planned"))]


def _goals(structured, dense):
    def at_least_nearly_two(what, measured):
        return Goal(what, "near 2 or more", measured, measured >= 1.8)

    return [
        between("structured, exponent of time", structured[1], 0.85, 1.15),
        between("structured, exponent of memory", structured[2], 0.85, 1.15),
        at_least_nearly_two("dense, exponent of time", dense[1]),
        at_least_nearly_two("dense, exponent of memory", dense[2]),
    ]


def measure_row(kind: str, size: int, repeats: int) -> dict[str, Any]:
    """Time and memory of one row; meant for a process that does nothing else."""
    from benchmarks.harness.measure import alternate, peak_rss

    # A tiny problem first: the memory that JAX and its compiler hold is not the step's.
    alternate({kind: _block(kind, 50)[0].run}, 1)
    before = peak_rss()
    block, steps = _block(kind, size)
    times = alternate({kind: block.run}, repeats)[kind] / steps
    return {
        "kind": kind, "size": size, "compile": block.compile_seconds, "planned": block.peak_bytes,
        "minimum": times.minimum, "median": times.median, "rss": peak_rss() - before,
    }  # fmt: skip


def _block(kind, size):
    from benchmarks.harness.measure import compile_for
    from benchmarks.step import dense
    from benchmarks.step.problem import compile_block, volatility
    from driftline.infer.bbvi import optimise as bbvi

    problem = volatility(size)
    if kind == "structured":
        return compile_block(problem), bbvi.STEPS_PER_BLOCK
    return compile_for(dense.take_steps, problem, DENSE_STEPS), DENSE_STEPS


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure one row of the table.")
    parser.add_argument("kind", choices=("structured", "dense"))
    parser.add_argument("size", type=int)
    parser.add_argument("repeats", type=int)
    arguments = parser.parse_args()
    print(json.dumps(measure_row(arguments.kind, arguments.size, arguments.repeats)))
