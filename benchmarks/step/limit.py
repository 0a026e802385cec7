"""How far from the limit: solves and whole steps against a plain copy of what they must read and write."""

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.harness.measure import Times, alternate, compile_for
from benchmarks.harness.report import Goal, Report, Table, at_most
from benchmarks.step.copies import FRESH, IN_USE, copies
from benchmarks.step.parts import parts
from benchmarks.step.problem import compile_block, volatility
from driftline.infer.bbvi import optimise as bbvi
from driftline.linalg import bidiagonal, block_bidiagonal

# A solve reads diagonal, superdiagonal and right-hand side, and writes the solution.
COPIES_PER_SOLVE = 2
# A step reads 3 parameters, 6 moments and 1 series, and writes 3 parameters and 6 moments.
COPIES_PER_STEP = 9.5
STEPS, BLOCK_DIM = 200, 3  # steps of each series of a batch; dimension of blocks
ONE_CALL, GIVEN, IN_BLOCK = "one call", "memory given", "in a block of steps"
COLUMNS = (
    "what", "how", "type", "ms, min", "ms, median",
    f"{FRESH}, ms", f"{IN_USE}, ms", f"over {FRESH}", f"over {IN_USE}",
)  # fmt: skip
NOTES = (
    "A copy moves as many bytes as what it stands beside must read and write: 2 arrays for a solve (3 read, "
    "1 written), 9.5 for a step (3 parameters, 6 moments, 1 series read; 3 and 6 written), 12 T numbers for "
    f"a block solve with D = {BLOCK_DIM}. Times of copies are minima, ratios are of minima.",
    f"“{FRESH}”: by XLA into memory that the system hands out page by page, as for the result of any single "
    "call; several arrays may be copied at once on two cores. "
    f"“{IN_USE}”: by `np.copyto` into memory already in use, on one core. "
    f"Like for like is “{ONE_CALL}” beside the first and “{GIVEN}” (the solve may write into the memory of "
    "its last result, as inside a compiled loop) beside the second. A step is beside both: in a block it "
    "uses its memory again, and XLA may use two cores for its elementwise parts.",
    "Parts of a step are timed alone, each in a compiled loop of its own. “The rest” is the step minus their "
    "sum: products with the two solutions, entropy, norm of the gradient, and work that XLA does twice when "
    "it fuses one result into several others. The ELBO is worked out, as in a fit, at every fifth step.",
)


def run(*, quick: bool) -> Report:
    """Measure solves, steps and block solves, each beside its copies."""
    repeats, scale = (3, 100) if quick else (9, 1)
    batched = _solves((STEPS, 10**6 // scale), jnp.float32, repeats)
    batched += _solves((STEPS, 5 * 10**5 // scale), jnp.float64, repeats)
    rows = [*batched, *_solves((10**6 // scale,), jnp.float32, repeats)]
    rows += _solves((10**6 // scale,), jnp.float64, repeats)
    rows += _block_solves(10**5 // scale, repeats)
    goals = [_goal(row, FRESH if row[1] == ONE_CALL else IN_USE, 2) for row in batched]
    tables = []
    for dtype in (jnp.float32, jnp.float64):
        row, table = _step(10**6 // scale, dtype, repeats)
        rows.append(row)
        tables.append(table)
        goals += [_goal(row, FRESH, 5), _goal(row, IN_USE, 5)]
    return Report("limit", [Table("Against a plain copy", COLUMNS, rows), *tables], goals, NOTES)


def _goal(row, kind, limit) -> Goal:
    what = ", ".join(row[:3])
    return at_most(f"{what}, over {kind}", row[COLUMNS.index(f"over {kind}")], limit)


def _compared(what: str, how: str, dtype: Any, times: Times, by_copies: dict[str, Times]) -> list[Any]:
    fresh, in_use = by_copies[FRESH], by_copies[IN_USE]
    return [
        what, how, jnp.dtype(dtype).name, 1e3 * times.minimum, 1e3 * times.median, 1e3 * fresh.minimum,
        1e3 * in_use.minimum, times.minimum / fresh.minimum, times.minimum / in_use.minimum,
    ]  # fmt: skip


def _solves(shape, dtype, repeats):
    diag, upper, rhs = jnp.full(shape, 2.0, dtype), jnp.full(shape, -1.0, dtype)[1:], jnp.ones(shape, dtype)
    kind = "single" if len(shape) == 1 else f"batch of {shape[1]:,}"
    rivals = copies(COPIES_PER_SOLVE, diag.size, dtype)
    return _both_ways(
        f"solve, {kind}, T = {shape[0]:,}", bidiagonal.solve, (diag, upper, rhs), rivals, repeats
    )


def _block_solves(num_steps, repeats):
    dim = BLOCK_DIM
    diag = jnp.tile(jnp.eye(dim) + 1.0, (num_steps, 1, 1))
    upper, rhs = jnp.full((num_steps - 1, dim, dim), -0.2), jnp.ones((num_steps, dim))
    # Per step two blocks of D² and one vector of D are read, and one vector of D is written.
    rivals = copies(dim * dim + dim, num_steps, jnp.float64)
    what = f"block solve, D = {dim}, T = {num_steps:,}"
    return _both_ways(what, block_bidiagonal.solve, (diag, upper, rhs), rivals, repeats)


def _both_ways(what, solve, arguments, rivals, repeats):
    """A plain call, and one that is given memory for its result, both beside the copies."""
    plain = compile_for(jax.jit(solve), *arguments)
    ways = {ONE_CALL: plain.run, GIVEN: _reusing_memory(solve, arguments)}
    times = alternate({**ways, **rivals}, repeats)
    return [_compared(what, how, arguments[-1].dtype, times[how], times) for how in ways]


def _reusing_memory(solve, arguments):
    """`solve` into the memory of its own last result, as inside a compiled loop."""

    def into(_, *arguments):
        return solve(*arguments)

    last = [jnp.ones_like(arguments[-1])]
    compiled = jax.jit(into, donate_argnums=0, keep_unused=True).lower(last[0], *arguments).compile()

    def run():
        last[0] = compiled(last[0], *arguments)
        return last[0]

    return run


def _step(num_steps, dtype, repeats):
    what, count = f"whole step, T = {num_steps:,}", bbvi.STEPS_PER_BLOCK
    problem = volatility(num_steps, dtype=dtype)
    block = compile_block(problem)
    pieces = {name: piece.run for name, piece in parts(problem, count).items()}
    times = alternate({what: block.run, **pieces, **copies(COPIES_PER_STEP, num_steps, dtype)}, repeats)
    by_copies = {name: times.pop(name) for name in (FRESH, IN_USE)}
    times = {name: value / count for name, value in times.items()}
    return _compared(what, IN_BLOCK, dtype, times[what], by_copies), _breakdown(
        dtype, times, by_copies[IN_USE]
    )


def _breakdown(dtype, times, copy):
    step, *pieces = ([name, 1e3 * time.minimum, 1e3 * time.median] for name, time in times.items())
    rest = ["the rest", *(step[i] - sum(piece[i] for piece in pieces) for i in (1, 2))]
    rows = [[*row, row[1] / (1e3 * copy.minimum)] for row in (*pieces, rest, step)]
    title = f"Where the time of one step goes, {jnp.dtype(dtype).name}"
    return Table(title, ["part", "ms, min", "ms, median", f"over {IN_USE}"], rows)
