"""Many fits at once on all cores: one compiled program, called from several threads."""

import concurrent.futures
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax

SIDE_BY_SIDE = 50  # series of a panel that are fitted at the same time, while they stay in the cache


class Part(NamedTuple):
    """Some of many rows.

    Attributes:
        rows: Which ones.
        known: How many of them, at the front, belong to the part before.
    """

    rows: slice
    known: int


def parts(count: int, size: int | None = None) -> list[Part]:
    """Cut rows into parts of one size, so that one compilation serves all; the last reaches back if need be.

    Args:
        count: Number of rows.
        size: Rows of a part; None for as many parts as there are cores.
    """
    size = min(count, size or -(-count // _num_cores()))
    firsts = [(start, min(start, count - size)) for start in range(0, count, size)]
    return [Part(slice(first, first + size), start - first) for start, first in firsts]


def share_out(function: Callable[[Part], Any], parts: list[Part]) -> Iterator[Any]:
    """Results of a function of each part, in their order, while threads work on the next ones."""
    if len(parts) == 1:
        yield function(parts[0])
        return

    def run(part):
        with jax.enable_x64(True):  # a setting of the thread
            return function(part)

    with concurrent.futures.ThreadPoolExecutor(_num_cores()) as threads:
        yield from threads.map(run, parts)


def _num_cores():
    """Cores that this process may use, which on a shared machine are not all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
