"""Substitution and elimination one time step after the other: the fastest order on a CPU.

The scalar loops write into one preallocated array. XLA compiles such a loop to native code without a call
per step, and the values of one step are contiguous, so that a batch of chains streams through memory once.
Derivatives do not live here: see `bidiagonal`, `tridiagonal` and their block versions.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from driftline.linalg import small


def back_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    """Solve $B x = r$ from the last step to the first, for upper bidiagonal $B$."""
    last = len(rhs) - 1

    def step(i, state):
        value, solution = state
        t = last - 1 - i
        value = _solve_row(diag[t], upper[t], value, rhs[t])
        return value, solution.at[t].set(value)

    return _loop(last, step, rhs[last] / diag[last], last, rhs)


def forward_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""Solve $B^\top x = r$ from the first step to the last, for upper bidiagonal $B$."""

    def step(i, state):
        value, solution = state
        value = _solve_row(diag[i + 1], upper[i], value, rhs[i + 1])
        return value, solution.at[i + 1].set(value)

    return _loop(len(rhs) - 1, step, rhs[0] / diag[0], 0, rhs)


def pivots(diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]) -> Float[Array, " T *shape"]:
    """Pivots $p_t = d_t - e_{t-1}^2 / p_{t-1}$ of Gaussian elimination on a tridiagonal matrix."""

    def step(i, state):
        pivot, result = state
        pivot = diag[i + 1] - off[i] * off[i] / pivot
        return pivot, result.at[i + 1].set(pivot)

    return _loop(len(off), step, diag[0], 0, diag)


def pivot_gains(
    diag: Float[Array, " T *#shape"], upper: Float[Array, " T-1 *#shape"], added: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""By how much pivots of $B^\top B$ rise with $h$ added: $g_{t+1} = h + \omega^2 g / (\nu^2 + g)$."""

    def step(i, state):
        gain, result = state
        gain = added[i + 1] + upper[i] * upper[i] * (gain / (diag[i] * diag[i] + gain))
        return gain, result.at[i + 1].set(gain)

    return _loop(len(upper), step, added[0], 0, added)


def _solve_row(diag, upper, value, rhs):
    r"""Solve $\nu x + \omega v = r$ for $x$, where $v$ is the value of the step before.

    A loop over single numbers waits for that value, so that nothing but a product and a difference may come
    after it. In wide steps nothing waits, and one division is less work than two (`benchmarks/limit.py`).
    """
    if value.size == 1:
        return rhs / diag - upper / diag * value
    return (rhs - upper * value) / diag


def _loop(num_steps, step, first, place, like):
    """Run a recurrence from its first value, writing every value into an array like `like`."""
    solution = jnp.zeros_like(like).at[place].set(first)
    if num_steps == 0:
        return solution
    return lax.fori_loop(0, num_steps, step, (first, solution))[1]


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
        half = small.solve_upper_transposed(small.cholesky(pivot).mT, off)
        pivot = diag - half.mT @ half
        return pivot, pivot

    first = diag[0]
    _, rest = lax.scan(step, first, (diag[1:], off))
    return jnp.concatenate([first[None], rest])
