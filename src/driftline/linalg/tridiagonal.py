r"""Symmetric tridiagonal matrices: product, Cholesky factor, and the band of the inverse.

A matrix is its diagonal `diag` (T, *shape) and its off-diagonal `off` (T-1, *shape). Every derivative is
again a bidiagonal solve (`docs/maths.md`, section 4), so all of them take O(T) time and memory.
"""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.linalg import bidiagonal
from driftline.linalg.backend import by_backend

_eliminate = by_backend("pivots")
_raise_pivots = by_backend("pivot_gains")

Bands = tuple[Array, Array]  # diagonal and off-diagonal


def matvec(
    diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"], vector: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""The product $\Lambda x$."""
    product = jnp.multiply(diag, vector).at[:-1].add(off * vector[1:])
    return product.at[1:].add(off * vector[:-1])


def from_factor(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"]
) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
    r"""Diagonal and off-diagonal of $\Lambda = B^\top B$ for upper bidiagonal $B$ (eq. 4)."""
    return jnp.square(diag).at[1:].add(upper * upper), diag[:-1] * upper


@jax.custom_jvp
def pivots(diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]) -> Float[Array, " T *shape"]:
    r"""Pivots of Gaussian elimination, all positive if and only if $\Lambda$ is positive definite.

    $$p_1 = d_1, \qquad p_t = d_t - e_{t-1}^2 / p_{t-1}.$$

    See `docs/maths.md`, eq. (15).
    """
    return _eliminate(diag, off)


@pivots.defjvp
def _pivots_jvp(primals: Bands, tangents: Bands) -> tuple[Array, Array]:
    # The linearised recursion δp_t - (e/p)² δp_{t-1} = δd_t - 2 (e/p) δe is a bidiagonal system (eq. 16).
    (diag, off), (diag_dot, off_dot) = primals, tangents
    result = pivots(diag, off)
    ratio = off / result[:-1]
    rhs = jnp.asarray(diag_dot).at[1:].add(-2.0 * ratio * off_dot)
    return result, bidiagonal.solve_transposed(jnp.ones_like(result), -ratio * ratio, rhs)


def pivot_gains(
    diag: Float[Array, " T *#shape"], upper: Float[Array, " T-1 *#shape"], added: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""By how much the pivots $\nu_t^2$ of $B^\top B$ rise when a diagonal $h \ge 0$ is added to it.

    $$g_1 = h_1, \qquad g_t = h_t + \omega_{t-1}^2\, g_{t-1} / (\nu_{t-1}^2 + g_{t-1}).$$

    All terms are positive, so nothing cancels, however stiff the chain is: where B is known, this keeps what
    `pivots` of the sum loses in single precision. Values only; it is not meant to be differentiated.

    Args:
        diag: Diagonal of the factor $B$; axes after time may be of size 1.
        upper: Superdiagonal of the factor $B$.
        added: What is added to the diagonal of $B^\top B$.
    """
    return _raise_pivots(diag, upper, added)


def cholesky(
    diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]
) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
    r"""The upper bidiagonal factor $B$ of $\Lambda = B^\top B$ with a positive diagonal.

    Where $\Lambda$ is not positive definite the factor is NaN somewhere, first at the step that fails.

    Returns:
        The diagonal and the superdiagonal of $B$.
    """
    factor_diag = jnp.sqrt(pivots(diag, off))
    return factor_diag, off / factor_diag[:-1]


def band_of_inverse(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"]
) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
    r"""Diagonal and first off-diagonal of $\Sigma = (B^\top B)^{-1}$, without forming $\Sigma$.

    $$\Sigma_{tt} = \nu_t^{-2}\,(1 + \omega_t^2\,\Sigma_{t+1,t+1}), \qquad
      \Sigma_{t,t+1} = -(\omega_t / \nu_t)\,\Sigma_{t+1,t+1}.$$

    The recursion for the diagonal is itself a bidiagonal system, and only adds positive terms, so it
    does not cancel. See `docs/maths.md`, eqs. (17) and (18).

    Args:
        diag: Diagonal of the factor $B$.
        upper: Superdiagonal of the factor $B$.
    """
    ratio = upper / diag[:-1]
    variances = bidiagonal.solve(jnp.ones_like(diag), -ratio * ratio, 1.0 / (diag * diag))
    return variances, -ratio * variances[1:]
