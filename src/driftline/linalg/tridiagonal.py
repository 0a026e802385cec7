r"""Symmetric tridiagonal matrices: product, Cholesky factor, and the band of the inverse.

A matrix is its diagonal `diag` (T, *shape) and its off-diagonal `off` (T-1, *shape). Every derivative is
again a bidiagonal solve (`docs/maths.md`, section 4), so all of them take O(T) time and memory.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.linalg import bidiagonal
from driftline.linalg.backend import by_backend

_eliminate = by_backend("pivots")


def matvec(
    diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"], vector: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""The product $\Lambda x$."""
    product = (diag * vector).at[:-1].add(off * vector[1:])
    return product.at[1:].add(off * vector[:-1])


def from_factor(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"]
) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
    r"""Diagonal and off-diagonal of $\Lambda = B^\top B$ for upper bidiagonal $B$ (eq. 4)."""
    return (diag * diag).at[1:].add(upper * upper), diag[:-1] * upper


@jax.custom_jvp
def pivots(diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]) -> Float[Array, " T *shape"]:
    r"""Pivots of Gaussian elimination, all positive if and only if $\Lambda$ is positive definite.

    $$p_1 = d_1, \qquad p_t = d_t - e_{t-1}^2 / p_{t-1}.$$

    See `docs/maths.md`, eq. (15).
    """
    return _eliminate(diag, off)


@pivots.defjvp
def _pivots_jvp(primals, tangents):
    # The linearised recursion δp_t - (e/p)² δp_{t-1} = δd_t - 2 (e/p) δe is a bidiagonal system (eq. 16).
    (diag, off), (diag_dot, off_dot) = primals, tangents
    result = pivots(diag, off)
    ratio = off / result[:-1]
    rhs = diag_dot.at[1:].add(-2.0 * ratio * off_dot)
    return result, bidiagonal.solve_transposed(jnp.ones_like(result), -ratio * ratio, rhs)


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
