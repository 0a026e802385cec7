r"""Products and solves with an upper block bidiagonal matrix.

The blocks $N_t$ on the diagonal are upper triangular, `diag` of shape (T, *batch, D, D); the blocks $W_t$
above it are full, `upper` of shape (T-1, *batch, D, D). Vectors have shape (T, *batch, D). Derivatives
follow the same rule as in `bidiagonal`.
"""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.linalg import small
from driftline.linalg.backend import by_backend
from driftline.linalg.linear_solve import linear_solve

_back_recurrence = by_backend("block_back_recurrence")
_forward_recurrence = by_backend("block_forward_recurrence")


def matvec(
    diag: Float[Array, " T *batch D D"],
    upper: Float[Array, " T-1 *batch D D"],
    vector: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    """The product $B x$."""
    product = jnp.einsum("...ij,...j->...i", diag, vector)
    return product.at[:-1].add(jnp.einsum("...ij,...j->...i", upper, vector[1:]))


def matvec_transposed(
    diag: Float[Array, " T *batch D D"],
    upper: Float[Array, " T-1 *batch D D"],
    vector: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    r"""The product $B^\top x$."""
    product = jnp.einsum("...ji,...j->...i", diag, vector)
    return product.at[1:].add(jnp.einsum("...ji,...j->...i", upper, vector[:-1]))


def solve(
    diag: Float[Array, " T *batch D D"],
    upper: Float[Array, " T-1 *batch D D"],
    rhs: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    """Solve $B x = r$ in O(T D²) after O(T D³) for the blocks, all of which are treated at once.

    Args:
        diag: Upper triangular diagonal blocks; what stands below their diagonals is ignored.
        upper: Blocks above the diagonal.
        rhs: Right-hand side $r$.
    """
    diag = jnp.triu(diag)
    return linear_solve(
        lambda vector: matvec(diag, upper, vector),
        rhs,
        solve=lambda rhs: _back_substitute(diag, upper, rhs),
        transpose_solve=lambda rhs: _forward_substitute(diag, upper, rhs),
    )


def solve_transposed(
    diag: Float[Array, " T *batch D D"],
    upper: Float[Array, " T-1 *batch D D"],
    rhs: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    r"""Solve $B^\top x = r$; arguments as in `solve`."""
    diag = jnp.triu(diag)
    return linear_solve(
        lambda vector: matvec_transposed(diag, upper, vector),
        rhs,
        solve=lambda rhs: _forward_substitute(diag, upper, rhs),
        transpose_solve=lambda rhs: _back_substitute(diag, upper, rhs),
    )


def log_det(diag: Float[Array, " T *batch D D"]) -> Float[Array, " *batch"]:
    """The logarithm of |det B|, one for each matrix of the batch."""
    return jnp.sum(jnp.log(jnp.abs(small.diagonals(diag))), axis=(0, -1))


def gains(
    diag: Float[Array, " T *batch D D"], upper: Float[Array, " T-1 *batch D D"]
) -> Float[Array, " T-1 *batch D D"]:
    """The matrices $G_t = N_t^{-1} W_t$ that carry step t+1 into step t."""
    return small.solve_upper(diag[:-1], upper)


def _back_substitute(
    diag: Float[Array, " T *batch D D"],
    upper: Float[Array, " T-1 *batch D D"],
    rhs: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    inputs = small.solve_upper(diag, rhs[..., None])[..., 0]
    return _back_recurrence(gains(diag, upper), inputs)


def _forward_substitute(
    diag: Float[Array, " T *batch D D"],
    upper: Float[Array, " T-1 *batch D D"],
    rhs: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    # With h = N^T x the recursion N_t^T x_t + W_{t-1}^T x_{t-1} = r_t is h_t + G_{t-1}^T h_{t-1} = r_t.
    half = _forward_recurrence(gains(diag, upper), rhs)
    return small.solve_upper_transposed(diag, half[..., None])[..., 0]
