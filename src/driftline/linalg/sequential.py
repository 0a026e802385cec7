"""Substitution and elimination one time step after the other: the fastest order on a CPU.

The scalar loops write into one preallocated array. XLA compiles such a loop to native code without a call
per step, and the values of one step are contiguous, so that a batch of chains streams through memory once.
A chain alone has loops of its own, since it waits for every value (`benchmarks/step/limit.py` times both).
Derivatives do not live here: see `bidiagonal`, `tridiagonal` and their block versions.
"""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import functools
from collections.abc import Callable, Sequence
from typing import cast

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from driftline.linalg import small

# Rows that a turn of a single chain's loop takes fill this many bytes: eight in single precision, four in
# double. A little more is more than XLA compiles into one loop on a CPU, and takes forty times as long; the
# tests look at what it compiled. In double precision eight would be no faster.
BYTES_PER_TURN = 32

State = tuple[Array, Array]  # of a loop: the last value, and the array that all values are written into
Row = tuple[Array, Array]  # of a scan: what one step reads
Carried = tuple[Array, Array]  # of a scan: what a step hands on, and what it leaves behind


def back_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    """Solve $B x = r$ from the last step to the first, for upper bidiagonal $B$."""
    if rhs.size == len(rhs):
        return _back_chain(diag.ravel(), upper.ravel(), rhs.ravel()).reshape(rhs.shape)
    last = len(rhs) - 1

    def step(i: Array, state: State) -> State:
        value, solution = state
        t = last - 1 - i
        value = (rhs[t] - upper[t] * value) / diag[t]
        return value, solution.at[t].set(value)

    return _loop(last, step, rhs[last] / diag[last], last, rhs)


def forward_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""Solve $B^\top x = r$ from the first step to the last, for upper bidiagonal $B$."""
    if rhs.size == len(rhs):
        return _forward_chain(diag.ravel(), upper.ravel(), rhs.ravel()).reshape(rhs.shape)

    def step(i: Array, state: State) -> State:
        value, solution = state
        value = (rhs[i + 1] - upper[i] * value) / diag[i + 1]
        return value, solution.at[i + 1].set(value)

    return _loop(len(rhs) - 1, step, rhs[0] / diag[0], 0, rhs)


def pivots(diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]) -> Float[Array, " T *shape"]:
    """Pivots $p_t = d_t - e_{t-1}^2 / p_{t-1}$ of Gaussian elimination on a tridiagonal matrix."""

    def step(i: Array, state: State) -> State:
        pivot, result = state
        pivot = diag[i + 1] - off[i] * off[i] / pivot
        return pivot, result.at[i + 1].set(pivot)

    return _loop(len(off), step, diag[0], 0, diag)


def pivot_gains(
    diag: Float[Array, " T *#shape"], upper: Float[Array, " T-1 *#shape"], added: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""By how much pivots of $B^\top B$ rise with $h$ added: $g_{t+1} = h + \omega^2 g / (\nu^2 + g)$."""

    def step(i: Array, state: State) -> State:
        gain, result = state
        gain = added[i + 1] + upper[i] * upper[i] * (gain / (diag[i] * diag[i] + gain))
        return gain, result.at[i + 1].set(gain)

    return _loop(len(upper), step, added[0], 0, added)


def _loop(
    num_steps: int,
    step: Callable[[Array, State], State],
    first: Float[Array, "*shape"],
    place: int,
    like: Float[Array, " T *shape"],
) -> Float[Array, " T *shape"]:
    """Run a recurrence from its first value, writing every value into an array like `like`."""
    solution = jnp.zeros_like(like).at[place].set(first)
    if num_steps == 0:
        return solution
    return cast(State, lax.fori_loop(0, num_steps, step, (first, solution)))[1]


def _chain(
    diag: Float[Array, " T"],
    upper: Float[Array, " T-1"],
    rhs: Float[Array, " T"],
    *,
    forward: bool,
    rows: int | None = None,
) -> Float[Array, " T"]:
    """Substitution along one chain, several rows in each turn of the loop.

    Every row waits for the value of the row before, so that nothing but a product and a difference may come
    after it: right-hand side and off-diagonal are divided beforehand, those of all rows of a turn at once.
    The solution takes the place of the right-hand side.
    """
    rows = rows or BYTES_PER_TURN // rhs.dtype.itemsize
    num_rows, first = len(rhs) - 1, 0 if forward else len(rhs) - 1

    def turn(done: Array | int, size: int, state: State) -> State:
        value, solution = state
        start = done + 1 if forward else num_rows - done - size
        divisors = lax.dynamic_slice_in_dim(diag, start, size)
        inputs = lax.dynamic_slice_in_dim(rhs, start, size) / divisors
        gains = lax.dynamic_slice_in_dim(upper, start - 1 if forward else start, size) / divisors
        values = [value] * size
        for row in range(size) if forward else reversed(range(size)):
            values[row] = value = inputs[row] - gains[row] * value
        return value, lax.dynamic_update_slice_in_dim(solution, jnp.stack(values), start, 0)

    def full_turn(i: Array, state: State) -> State:
        return turn(i * rows, rows, state)

    value = rhs[first] / diag[first]
    state: State = value, rhs.at[first].set(value)
    turns, left = divmod(num_rows, rows)
    if turns:
        state = cast(State, lax.fori_loop(0, turns, full_turn, state))
    return turn(turns * rows, left, state)[1] if left else state[1]


def _chain_or_chains(*, forward: bool) -> Callable[[Array, Array, Array], Array]:
    """Several rows a turn for one chain, and one row a turn when `vmap` makes it one of many.

    Many chains wait together, and several rows of them are more than XLA compiles into one loop on a CPU:
    each operation is then a call, and a solve takes ten times as long.
    """
    alone = custom_vmap(functools.partial(_chain, forward=forward))

    @alone.def_vmap
    def among_others(_: int, batched: Sequence[bool], *arrays: Array) -> tuple[Array, bool]:
        axes = [0 if many else None for many in batched]
        return jax.vmap(functools.partial(_chain, forward=forward, rows=1), axes)(*arrays), True

    return alone


_back_chain, _forward_chain = _chain_or_chains(forward=False), _chain_or_chains(forward=True)


def block_back_recurrence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D"]:
    """Solve $x_t + G_t x_{t+1} = u_t$ from the last step to the first."""

    def step(value: Array, row: Row) -> Carried:
        gain, inputs = row
        value = inputs - jnp.einsum("...ij,...j->...i", gain, value)
        return value, value

    last = inputs[-1]
    _, rest = lax.scan(step, last, (gain, inputs[:-1]), reverse=True)
    return jnp.concatenate([rest, last[None]])


def block_forward_recurrence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D"]:
    r"""Solve $x_t + G_{t-1}^\top x_{t-1} = u_t$ from the first step to the last."""

    def step(value: Array, row: Row) -> Carried:
        gain, inputs = row
        value = inputs - jnp.einsum("...ji,...j->...i", gain, value)
        return value, value

    first = inputs[0]
    _, rest = lax.scan(step, first, (gain, inputs[1:]))
    return jnp.concatenate([first[None], rest])


def back_congruence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    r"""Solve $X_t - G_t X_{t+1} G_t^\top = Q_t$ from the last step to the first."""

    def step(value: Array, row: Row) -> Carried:
        gain, inputs = row
        value = inputs + gain @ value @ gain.mT
        return value, value

    last = inputs[-1]
    _, rest = lax.scan(step, last, (gain, inputs[:-1]), reverse=True)
    return jnp.concatenate([rest, last[None]])


def forward_congruence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    r"""Solve $X_t - G_{t-1}^\top X_{t-1} G_{t-1} = Q_t$ from the first step to the last."""

    def step(value: Array, row: Row) -> Carried:
        gain, inputs = row
        value = inputs + gain.mT @ value @ gain
        return value, value

    first = inputs[0]
    _, rest = lax.scan(step, first, (gain, inputs[1:]))
    return jnp.concatenate([first[None], rest])


def block_pivots(
    diag: Float[Array, " T *batch D D"], off: Float[Array, " T-1 *batch D D"]
) -> Float[Array, " T *batch D D"]:
    r"""Pivots $P_t = D_t - E_{t-1}^\top P_{t-1}^{-1} E_{t-1}$ of block elimination."""

    def step(pivot: Array, row: Row) -> Carried:
        diag, off = row
        half = small.solve_upper_transposed(small.cholesky(pivot).mT, off)
        pivot = diag - half.mT @ half
        return pivot, pivot

    first = diag[0]
    _, rest = lax.scan(step, first, (diag[1:], off))
    return jnp.concatenate([first[None], rest])
