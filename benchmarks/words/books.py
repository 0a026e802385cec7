"""Words in the shape of Google Books: what one pass of each phase costs, and the memory at the peak."""

from benchmarks.harness.report import Report, Table, at_most
from benchmarks.words.words import child

NOTES = (
    "Zipfian counts of 209 steps at which every word is present; one pass of each phase is timed, and the "
    "total is passes times their cost.",
)


def run(*, quick: bool) -> Report:
    """Measure in a fresh process."""
    size = (209, 1000, 20) if quick else (209, 10_000, 100)
    found = child("books", *size)
    table = Table(f"T, L, d = {size}", list(found), [list(found.values())])
    return Report("books", [table], [at_most("peak GB", found["peak GB"], 20.0)], NOTES)
