r"""Products and solves with an upper bidiagonal matrix.

        ⎡ ν₁ ω₁          ⎤
        ⎢    ν₂ ω₂       ⎥
    B = ⎢       ⋱  ⋱     ⎥      diag = (ν₁ … ν_T),  upper = (ω₁ … ω_{T−1})
        ⎢          ⋱ ω_T₋₁⎥
        ⎣             ν_T ⎦

Arrays have time first; whatever follows is a batch of independent matrices. The derivative of a solve is
one more solve, with the transpose (`docs/maths.md`, eq. 11): nothing is recorded inside the loop, so
memory stays O(T), in forward and in reverse mode, to any order.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from driftline.linalg.backend import by_backend

_back_substitute = by_backend("back_substitute")
_forward_substitute = by_backend("forward_substitute")


def matvec(
    diag: Float[Array, " T *shape"],
    upper: Float[Array, " T-1 *shape"],
    vector: Float[Array, " T *shape"],
) -> Float[Array, " T *shape"]:
    """The product $B x$."""
    return jnp.multiply(diag, vector).at[:-1].add(upper * vector[1:])


def matvec_transposed(
    diag: Float[Array, " T *shape"],
    upper: Float[Array, " T-1 *shape"],
    vector: Float[Array, " T *shape"],
) -> Float[Array, " T *shape"]:
    r"""The product $B^\top x$."""
    return jnp.multiply(diag, vector).at[1:].add(upper * vector[:-1])


def solve(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    """Solve $B x = r$ by back substitution in O(T).

    Args:
        diag: Diagonal of $B$; must not contain zero.
        upper: Superdiagonal of $B$.
        rhs: Right-hand side $r$.

    See `docs/maths.md`, eqs. (9) and (11).
    """
    return lax.custom_linear_solve(
        lambda vector: matvec(diag, upper, vector),
        rhs,
        solve=lambda _, rhs: _back_substitute(diag, upper, rhs),
        transpose_solve=lambda _, rhs: _forward_substitute(diag, upper, rhs),
    )


def solve_transposed(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""Solve $B^\top x = r$ by forward substitution in O(T); arguments as in `solve`."""
    return lax.custom_linear_solve(
        lambda vector: matvec_transposed(diag, upper, vector),
        rhs,
        solve=lambda _, rhs: _forward_substitute(diag, upper, rhs),
        transpose_solve=lambda _, rhs: _back_substitute(diag, upper, rhs),
    )


def log_det(diag: Float[Array, " T *shape"]) -> Float[Array, " *shape"]:
    """The logarithm of |det B|, one for each matrix of the batch."""
    return jnp.sum(jnp.log(jnp.abs(diag)), axis=0)
