r"""Symmetric block tridiagonal matrices: product, Cholesky factor, and the band of the inverse.

`diag` holds the symmetric blocks $\Lambda_{tt}$ (T, *batch, D, D), `off` the blocks $\Lambda_{t,t+1}$
(T-1, *batch, D, D). Derivatives solve $X_t - G_t X_{t+1} G_t^\top = Q_t$ or its transpose
(`docs/maths.md`, section 5): O(T D³) time, O(T D²) memory.
"""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from driftline.linalg import block_bidiagonal, small
from driftline.linalg.backend import by_backend
from driftline.linalg.linear_solve import linear_solve

_eliminate = by_backend("block_pivots")
_back_congruence = by_backend("back_congruence")
_forward_congruence = by_backend("forward_congruence")

Bands = tuple[Array, Array]  # diagonal and off-diagonal blocks


def matvec(
    diag: Float[Array, " T *batch D D"],
    off: Float[Array, " T-1 *batch D D"],
    vector: Float[Array, " T *batch D"],
) -> Float[Array, " T *batch D"]:
    r"""The product $\Lambda x$."""
    product = jnp.einsum("...ij,...j->...i", diag, vector)
    product = product.at[:-1].add(jnp.einsum("...ij,...j->...i", off, vector[1:]))
    return product.at[1:].add(jnp.einsum("...ji,...j->...i", off, vector[:-1]))


def from_factor(
    diag: Float[Array, " T *batch D D"], upper: Float[Array, " T-1 *batch D D"]
) -> tuple[Float[Array, " T *batch D D"], Float[Array, " T-1 *batch D D"]]:
    r"""Diagonal and off-diagonal blocks of $\Lambda = B^\top B$."""
    diag = jnp.triu(diag)
    return (diag.mT @ diag).at[1:].add(upper.mT @ upper), diag[:-1].mT @ upper


@jax.custom_jvp
def pivots(
    diag: Float[Array, " T *batch D D"], off: Float[Array, " T-1 *batch D D"]
) -> Float[Array, " T *batch D D"]:
    r"""Pivots $P_t = \Lambda_{tt} - \Lambda_{t-1,t}^\top P_{t-1}^{-1} \Lambda_{t-1,t}$ (eq. 19)."""
    return _eliminate(diag, off)


@pivots.defjvp
def _pivots_jvp(primals: Bands, tangents: Bands) -> tuple[Array, Array]:
    # δP_t - G^T δP_{t-1} G = δD_t - δE^T G - G^T δE with G = P_{t-1}^{-1} E (eq. 20).
    (diag, off), (diag_dot, off_dot) = primals, tangents
    result = pivots(diag, off)
    gain = small.solve_positive(result[:-1], off)
    change = off_dot.mT @ gain
    return result, _solve_forward_congruence(gain, diag_dot.at[1:].add(-change - change.mT))


def cholesky(
    diag: Float[Array, " T *batch D D"], off: Float[Array, " T-1 *batch D D"]
) -> tuple[Float[Array, " T *batch D D"], Float[Array, " T-1 *batch D D"]]:
    r"""The factor $B$ of $\Lambda = B^\top B$: upper triangular blocks, positive diagonal.

    Where $\Lambda$ is not positive definite the factor is NaN somewhere, first at the step that fails.
    """
    factor = small.cholesky(pivots(diag, off)).mT
    return factor, small.solve_upper_transposed(factor[:-1], off)


def band_of_inverse(
    diag: Float[Array, " T *batch D D"], upper: Float[Array, " T-1 *batch D D"]
) -> tuple[Float[Array, " T *batch D D"], Float[Array, " T-1 *batch D D"]]:
    r"""Blocks $\Sigma_{tt}$ and $\Sigma_{t,t+1}$ of $\Sigma = (B^\top B)^{-1}$.

    $$\Sigma_{tt} = N_t^{-1} N_t^{-\top} + G_t \Sigma_{t+1,t+1} G_t^\top, \qquad
      \Sigma_{t,t+1} = -G_t \Sigma_{t+1,t+1}, \qquad G_t = N_t^{-1} W_t.$$

    Args:
        diag: Upper triangular diagonal blocks of the factor $B$.
        upper: Blocks of $B$ above the diagonal.
    """
    identity = jnp.broadcast_to(jnp.eye(diag.shape[-1], dtype=diag.dtype), diag.shape)
    inverse = small.solve_upper(diag, identity)
    gain = block_bidiagonal.gains(diag, upper)
    covariances = _solve_back_congruence(gain, inverse @ inverse.mT)
    return covariances, -gain @ covariances[1:]


def marginal_factor(
    diag: Float[Array, " T D D"], upper: Float[Array, " T-1 D D"], steps: Int[Array, " S"]
) -> tuple[Float[Array, " S D D"], Float[Array, " S-1 D D"]]:
    """The factor of some steps alone, as `bidiagonal.marginal_factor` with blocks for numbers."""
    kept = jnp.zeros(len(diag), bool).at[steps].set(True)[1:, None, None]
    identity = jnp.broadcast_to(jnp.eye(diag.shape[-1], dtype=diag.dtype), diag.shape)
    inverse, gain = small.solve_upper(diag, identity), block_bidiagonal.gains(diag, upper)
    open_gain = jnp.where(kept, 0.0, gain)
    covariances = _solve_back_congruence(open_gain, inverse @ inverse.mT)[steps]
    ends = jnp.zeros_like(diag).at[:-1].set(jnp.where(kept, -gain, 0.0))
    columns = jax.vmap(block_bidiagonal.solve, (None, None, 2), 2)
    slopes = columns(identity, open_gain, ends)[steps[:-1]]
    factor = small.cholesky(small.solve_positive(covariances, identity[steps])).mT
    return factor, -factor[:-1] @ slopes


def _back_operator(
    gain: Float[Array, " K *batch D D"], blocks: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    return blocks.at[:-1].add(-gain @ blocks[1:] @ gain.mT)


def _forward_operator(
    gain: Float[Array, " K *batch D D"], blocks: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    return blocks.at[1:].add(-gain.mT @ blocks[:-1] @ gain)


def _solve_back_congruence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    return linear_solve(
        lambda blocks: _back_operator(gain, blocks),
        inputs,
        solve=lambda inputs: _back_congruence(gain, inputs),
        transpose_solve=lambda inputs: _forward_congruence(gain, inputs),
    )


def _solve_forward_congruence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    return linear_solve(
        lambda blocks: _forward_operator(gain, blocks),
        inputs,
        solve=lambda inputs: _forward_congruence(gain, inputs),
        transpose_solve=lambda inputs: _back_congruence(gain, inputs),
    )
