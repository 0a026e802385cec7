"""Timing and memory, measured so that compilation, laziness and a busy machine do not pass for speed."""

import dataclasses
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

SHORT = 0.1  # seconds; what takes longer warms its caches by itself
ENOUGH = 20.0  # seconds after which a slow contestant drops out
FEWEST_REPEATS = 3


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds over several repeats.

    The minimum is the least disturbed by other programs; the median tells how disturbed it was.
    """

    minimum: float
    median: float
    repeats: int

    def __truediv__(self, count: float) -> "Times":
        return Times(self.minimum / count, self.median / count, self.repeats)

    def over(self, other: "Times") -> tuple[float, float]:
        """Ratio of the minima and ratio of the medians."""
        return self.minimum / other.minimum, self.median / other.median


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled function bound to its arguments.

    Attributes:
        run: Runs it once; the results are not ready when it returns.
        compile_seconds: Time for tracing and compiling.
        peak_bytes: Arguments, results and temporaries together, from the compiler's own plan of its buffers.
    """

    run: Callable[[], Any]
    compile_seconds: float
    peak_bytes: int


def compile_for(jitted: Any, *arguments: Any) -> Compiled:
    """Compile a function, from `jax.jit` or `eqx.filter_jit`, for the given arguments."""
    start = time.perf_counter()
    compiled = jitted.lower(*arguments).compile()
    seconds = time.perf_counter() - start
    # A function from eqx.filter_jit is split into arrays and the rest; JAX's own object is inside.
    plan = getattr(compiled, "compiled", compiled).memory_analysis()
    size = plan.argument_size_in_bytes + plan.output_size_in_bytes + plan.temp_size_in_bytes
    return Compiled(lambda: compiled(*arguments), seconds, size)


def alternate(contestants: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Times]:
    """Time the contestants in turns (A, B, C, A, B, C, …), so that a busy spell hits all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        once(run)
    # A short call would find the caches as the contestant before it left them, so its turn starts with one
    # call that does not count.
    is_short = {name: once(run) < SHORT for name, run in contestants.items()}
    for _ in range(repeats):
        for name, run in contestants.items():
            if len(seconds[name]) >= FEWEST_REPEATS and sum(seconds[name]) > ENOUGH:
                continue
            if is_short[name]:
                once(run)
            seconds[name].append(once(run))
    return {name: summarise(values) for name, values in seconds.items()}


def once(run: Callable[[], Any]) -> float:
    """Seconds until the results of one call are ready."""
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


def summarise(seconds: Sequence[float]) -> Times:
    """Minimum and median."""
    return Times(min(seconds), statistics.median(seconds), len(seconds))


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent p of value = c · size^p, by least squares on logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def peak_rss() -> int:
    """The most memory that this process has ever held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def available_memory() -> int:
    """Memory that a program may take without hurting others, in bytes; unlimited where that is not told."""
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
    except OSError:
        return sys.maxsize
    return int(fields["MemAvailable"].split()[0]) * 1024
