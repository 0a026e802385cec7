"""How much memory a fit will take, told before it begins."""

import os
from pathlib import Path

import numpy as np

from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.smoothing import LARGE, MEMORY, MEMORY_OF_LARGE

# Arrays of the size of all embeddings of words, or of contexts, at the peak, by the resident memory of fits
# of the State of the Union and, for "dsg-s", of the shape of Google Books (`benchmarks/words/books.py`).
ARRAYS = {"dsg-s": 40, "dsg-f": 8, "sgp": 6, "sgi": 6}
PAPER_ARRAYS = 46
FEWER_OF_LARGE = 4 * (MEMORY["paths"] - MEMORY_OF_LARGE)  # that a large fit does not remember
POOLED, STEPWISE = 6, 3  # matrices over pairs of words at the peak, of all steps and of one
BASE = 600e6  # Python, JAX and compiled code


def estimate(problem: FittingProblem) -> int:
    """Bytes that a fit will need at its peak, about."""
    settings = problem.settings
    width = np.dtype(problem.dtype).itemsize
    published = settings.optimiser == "paper" and settings.method == "dsg-s"
    arrays = PAPER_ARRAYS if published else ARRAYS[settings.method]
    embeddings = len(problem.knots) * problem.dim * width
    # The largest matrix over pairs of words: of the pooled counts, or of a step. More are in the making.
    pools = settings.method == "dsg-s" and not published
    if pools and 2.0 * len(problem.knots) * problem.dim > LARGE:
        arrays -= FEWER_OF_LARGE
    largest = len(problem.counts.vocabulary) if pools else max(len(step.words) for step in problem.steps)
    pairs = sum(len(step.values) for step in problem.steps) * (width + 8)
    return int(
        BASE + arrays * embeddings + (POOLED if pools else STEPWISE) * largest**2 * width + 1.2 * pairs
    )


def check(problem: FittingProblem) -> int:
    """Refuse a fit that cannot go well; returns the estimate."""
    needed, free = estimate(problem), available()
    if free is not None and needed > free:
        raise MemoryError(
            f"this fit needs about {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free: take a smaller "
            f"dim= (now {problem.dim}), a smaller vocabulary (now {len(problem.counts.vocabulary):,} words) "
            f"or longer time steps (now {len(problem.training)}) when counting"
        )
    return needed


def available() -> int | None:
    """Bytes that are free for programs, or None where that cannot be told."""
    free = [size for size in (_on_the_machine(), _in_the_container()) if size is not None]
    return min(free, default=None)


def _on_the_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return _installed()
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else _installed()


def _in_the_container(group: Path = Path("/sys/fs/cgroup")) -> int | None:
    """What a container's limit leaves, not counting files kept in memory; None without a limit."""
    try:
        limit, used = ((group / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        kept = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except OSError:  # not on Linux, or not in a group of its own
        return None
    if limit == "max":
        return None
    return max(0, int(limit) - int(used) + int(kept.get("inactive_file", 0)))


def _installed() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None
