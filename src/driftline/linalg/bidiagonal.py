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

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from driftline.linalg.backend import by_backend
from driftline.linalg.linear_solve import linear_solve

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
    return linear_solve(
        lambda vector: matvec(diag, upper, vector),
        rhs,
        solve=lambda rhs: _back_substitute(diag, upper, rhs),
        transpose_solve=lambda rhs: _forward_substitute(diag, upper, rhs),
    )


def solve_transposed(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""Solve $B^\top x = r$ by forward substitution in O(T); arguments as in `solve`."""
    return linear_solve(
        lambda vector: matvec_transposed(diag, upper, vector),
        rhs,
        solve=lambda rhs: _forward_substitute(diag, upper, rhs),
        transpose_solve=lambda rhs: _back_substitute(diag, upper, rhs),
    )


def log_det(diag: Float[Array, " T *shape"]) -> Float[Array, " *shape"]:
    """The logarithm of |det B|, one for each matrix of the batch."""
    return jnp.sum(jnp.log(jnp.abs(diag)), axis=0)


def marginal_factor(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], steps: Int[Array, " S"]
) -> tuple[Float[Array, " S *shape"], Float[Array, " S-1 *shape"]]:
    r"""The factor of some steps of $x = B^{-1} \epsilon$ alone, in O(T): these are a chain again.

    Given the next step that is kept, a step has a variance and a slope which add up and multiply on the way:

    $$v_t = \nu_t^{-2} + g_t^2 v_{t+1}, \qquad s_t = g_t s_{t+1}, \qquad g_t = -\omega_t / \nu_t,$$

    with $v_{t+1} = 0$ and $s_{t+1} = 1$ where step t+1 is kept. Nothing cancels.

    Args:
        diag: Diagonal of $B$.
        upper: Superdiagonal of $B$.
        steps: The steps to keep, increasing.
    """
    kept = jnp.zeros(len(diag), bool).at[steps].set(True)[1:]
    kept = kept.reshape(-1, *(1 for _ in diag.shape[1:]))
    gain = -upper / diag[:-1]
    open_gain = jnp.where(kept, 0.0, gain)
    ones, ends = jnp.ones_like(diag), jnp.zeros_like(diag).at[:-1].set(jnp.where(kept, gain, 0.0))
    variances = solve(ones, -open_gain * open_gain, 1.0 / (diag * diag))[steps]
    slopes = solve(ones, -open_gain, ends)[steps[:-1]]
    factor = 1.0 / jnp.sqrt(variances)
    return factor, -factor[:-1] * slopes
