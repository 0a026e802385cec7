"""Triangular solves, Cholesky factors and diagonals of many matrices at once, as plain array operations.

LAPACK's batched kernels can hang inside XLA's CPU runtime when two of them run at the same time on few cores
(seen with jaxlib 0.10.2), and cost a call for every matrix. Here the loop over rows is unrolled and all
matrices are treated together, so XLA compiles everything to its own vector code.
"""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import math
from typing import cast

import jax.numpy as jnp
from jaxtyping import Array, Float


def cholesky(matrices: Float[Array, "*batch D D"]) -> Float[Array, "*batch D D"]:
    """Lower Cholesky factors; NaN where a matrix is not positive definite. Reads the lower triangles only."""
    rest = matrices
    columns: list[Array] = []
    for place in range(matrices.shape[-1]):
        column = rest[..., :, 0] / jnp.sqrt(rest[..., :1, 0])
        columns.append(_below(column, place))
        rest = rest[..., 1:, 1:] - column[..., 1:, None] * column[..., None, 1:]
    return jnp.stack(columns, axis=-1)


def solve_upper(
    factors: Float[Array, "*batch D D"], rhs: Float[Array, "*batch D K"]
) -> Float[Array, "*batch D K"]:
    """Solve $N x = r$ for upper triangular matrices; entries below their diagonals are ignored."""
    rows: list[Array] = []
    for row in reversed(range(factors.shape[-1])):
        value = rhs[..., row, :] / factors[..., row, row, None]
        rhs = rhs[..., :row, :] - factors[..., :row, row, None] * value[..., None, :]
        rows.append(value)
    return jnp.stack(rows[::-1], axis=-2)


def solve_upper_transposed(
    factors: Float[Array, "*batch D D"], rhs: Float[Array, "*batch D K"]
) -> Float[Array, "*batch D K"]:
    r"""Solve $N^\top x = r$ for upper triangular matrices; entries below their diagonals are ignored."""
    rows: list[Array] = []
    for row in range(factors.shape[-1]):
        value = rhs[..., 0, :] / factors[..., row, row, None]
        rhs = rhs[..., 1:, :] - factors[..., row, row + 1 :, None] * value[..., None, :]
        rows.append(value)
    return jnp.stack(rows, axis=-2)


def solve_positive(
    matrices: Float[Array, "*batch D D"], rhs: Float[Array, "*batch D K"]
) -> Float[Array, "*batch D K"]:
    """Solve with symmetric positive definite matrices."""
    factors = cholesky(matrices).mT
    return solve_upper(factors, solve_upper_transposed(factors, rhs))


def diagonals(matrices: Float[Array, "*batch D D"]) -> Float[Array, "*batch D"]:
    """The diagonals of the matrices."""
    return cast(Array, jnp.diagonal(matrices, axis1=-2, axis2=-1))


def _below(column: Float[Array, "*batch K"], num_zeros: int) -> Float[Array, "*batch D"]:
    padding = [(0, 0)] * (column.ndim - 1) + [(num_zeros, 0)]
    return jnp.pad(column, padding)


def from_diagonals(diagonals: Float[Array, " N *shape"]) -> Float[Array, " N D D"]:
    """Diagonal matrices, each with the D elements of an entry of an array on its diagonal."""
    flat = diagonals.reshape(len(diagonals), math.prod(diagonals.shape[1:]))
    return flat[:, :, None] * jnp.eye(flat.shape[1], dtype=flat.dtype)[None]
