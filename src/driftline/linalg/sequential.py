"""Substitution and elimination one time step after the other: the fastest order on a CPU.

The loops write into one preallocated array. XLA compiles such a loop to native code without a call per
step, and the values of one step are contiguous, so that a batch of chains streams through memory once.
Derivatives do not live here: see `bidiagonal`, `tridiagonal` and their block versions.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

# A step with fewer numbers than this leaves the loop waiting for its own last division; dividing ahead of
# the loop, all steps at once, then pays for the extra pass through memory (measured in benchmarks/limit.py).
NARROW = 64


def back_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    """Solve $B x = r$ from the last step to the first, for upper bidiagonal $B$."""
    if len(rhs) == 1:
        return rhs / diag
    divided_ahead = math.prod(rhs.shape[1:]) < NARROW
    if divided_ahead:
        upper, rhs = upper / diag[:-1], rhs / diag
    last = len(rhs) - 1
    value = rhs[last] if divided_ahead else rhs[last] / diag[last]

    def step(i, state):
        value, solution = state
        t = last - 1 - i
        value = rhs[t] - upper[t] * value
        value = value if divided_ahead else value / diag[t]
        return value, solution.at[t].set(value)

    return lax.fori_loop(0, last, step, (value, jnp.zeros_like(rhs).at[last].set(value)))[1]


def forward_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""Solve $B^\top x = r$ from the first step to the last, for upper bidiagonal $B$."""
    if len(rhs) == 1:
        return rhs / diag
    divided_ahead = math.prod(rhs.shape[1:]) < NARROW
    if divided_ahead:
        upper, rhs = upper / diag[1:], rhs / diag
    value = rhs[0] if divided_ahead else rhs[0] / diag[0]

    def step(i, state):
        value, solution = state
        value = rhs[i + 1] - upper[i] * value
        value = value if divided_ahead else value / diag[i + 1]
        return value, solution.at[i + 1].set(value)

    return lax.fori_loop(0, len(rhs) - 1, step, (value, jnp.zeros_like(rhs).at[0].set(value)))[1]


def pivots(diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]) -> Float[Array, " T *shape"]:
    """Pivots $p_t = d_t - e_{t-1}^2 / p_{t-1}$ of Gaussian elimination on a tridiagonal matrix."""
    if len(diag) == 1:
        return diag

    def step(i, state):
        pivot, result = state
        pivot = diag[i + 1] - off[i] * off[i] / pivot
        return pivot, result.at[i + 1].set(pivot)

    start = (diag[0], jnp.zeros_like(diag).at[0].set(diag[0]))
    return lax.fori_loop(0, len(off), step, start)[1]


def block_back_recurrence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D"]:
    """Solve $x_t + G_t x_{t+1} = u_t$ from the last step to the first."""

    def step(value, row):
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

    def step(value, row):
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

    def step(value, row):
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

    def step(value, row):
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

    def step(pivot, row):
        diag, off = row
        lower = jnp.linalg.cholesky(pivot)
        half = jax.lax.linalg.triangular_solve(lower, off, left_side=True, lower=True)
        pivot = diag - half.mT @ half
        return pivot, pivot

    first = diag[0]
    _, rest = lax.scan(step, first, (diag[1:], off))
    return jnp.concatenate([first[None], rest])
