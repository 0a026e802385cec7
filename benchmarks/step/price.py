"""The price of structure: our structured step against our mean-field step and against NumPyro's guides."""

from typing import Any

from benchmarks.harness.measure import Compiled, Times, alternate, available_memory, compile_for
from benchmarks.harness.report import Report, Table, at_most, more_than
from benchmarks.step.peers import GUIDES, stochastic_steps
from benchmarks.step.problem import compile_block, volatility
from driftline.infer.bbvi import optimise as bbvi

SIZES = (100, 1_000, 10_000)
OURS, MEAN_FIELD = "driftline GaussMarkov", "driftline MeanField"
DIAGONAL, FULL = GUIDES
WORK_PER_CALL = 10**8  # numbers of the dense guide's matrix that one call may touch
SHARE_OF_MEMORY = 0.8
COLUMNS = (
    "T", "step", "steps per call", "compile, s", "ms per step, min", "ms per step, median",
    "time / structured, by minima", "by medians",
)  # fmt: skip
NOTES = (
    "Float64, one draw per step, Adam, all steps of a call in one `lax.scan` inside one compiled function; "
    "contestants take turns. The density is the same function for all of them.",
    "Verdicts are by minima, which a busy machine disturbs least.",
    "driftline's step also keeps the running average of its iterates and the norm of the gradient.",
    "Our steps work out the ELBO, which the gradient does not need, at every fifth step; NumPyro's loss is "
    "that of every step.",
)


def run(*, quick: bool) -> Report:
    """Time all contestants at every size."""
    rows, ratios, notes = [], {}, list(NOTES)
    for size in SIZES[:2] if quick else SIZES:
        entrants, skipped = _entrants(size)
        notes += skipped
        calls = {name: block.run for name, (block, _) in entrants.items()}
        times = alternate(calls, 3 if quick else 31)
        times = {name: times[name] / steps for name, (_, steps) in entrants.items()}
        rows += [_row(size, name, *entrants[name], times) for name in times]
        ratios[size] = {name: times[name].over(times[OURS])[0] for name in times}
    return Report("price", [Table("Time of one step", COLUMNS, rows)], _goals(ratios), notes)


def _entrants(size: int) -> tuple[dict[str, tuple[Compiled, int]], list[str]]:
    """What is compared, with the number of steps per call; and notes on what could not be."""
    entrants: dict[str, tuple[Compiled, int]] = {}
    for name in (OURS, MEAN_FIELD):
        problem = volatility(size, mean_field=name == MEAN_FIELD)
        block = compile_block(problem)
        entrants[name] = block, bbvi.STEPS_PER_BLOCK
    skipped = []
    for name in (DIAGONAL, FULL):
        steps = bbvi.STEPS_PER_BLOCK
        if name == FULL:
            steps = max(2, min(steps, WORK_PER_CALL // size**2))
        block = _peer(size, name, steps)
        if block.peak_bytes > SHARE_OF_MEMORY * available_memory():
            skipped.append(f"{name} at T = {size:,} needs {block.peak_bytes / 2**30:.1f} GiB: not run.")
        else:
            entrants[name] = block, steps
    return entrants, skipped


def _peer(size, name, steps):
    take_steps, state = stochastic_steps(volatility(size), name, steps)
    return compile_for(take_steps, state)


def _row(size: int, name: str, block: Compiled, steps: int, times: dict[str, Times]) -> list[Any]:
    mine = times[name]
    milliseconds = [1e3 * mine.minimum, 1e3 * mine.median]
    return [size, name, steps, block.compile_seconds, *milliseconds, *mine.over(times[OURS])]


def _goals(ratios):
    goals = []
    for size, of in ratios.items():
        at = f"T = {size:,}"
        goals.append(at_most(f"structured / mean-field, {at}", 1 / of[MEAN_FIELD], 1.5))
        for name in (DIAGONAL, FULL):
            goals.append(more_than(f"{name} / structured, {at}", of.get(name), 1))
    return goals
