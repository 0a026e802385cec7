"""The functions of `sequential` by associative scans: depth O(log T), for backends with many lanes."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from driftline.linalg import small

Affine = tuple[Array, Array]  # slope and shift
Ratio = tuple[Array, Array, Array]  # a, b and c of x -> (a x + b) / (c x + 1)
Form = tuple[Array, Array, Array]  # a, b and c of [[a, b], [b^T, c]], on the two border steps of a segment


def back_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    """Solve $B x = r$ as a composition of the maps $x_{t+1} -> x_t$."""
    slope = jnp.concatenate([-upper / diag[:-1], jnp.zeros_like(diag[-1:])])
    return lax.associative_scan(_compose_affine, (slope, rhs / diag), reverse=True)[1]


def forward_substitute(
    diag: Float[Array, " T *shape"], upper: Float[Array, " T-1 *shape"], rhs: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    r"""Solve $B^\top x = r$ as a composition of the maps $x_{t-1} -> x_t$."""
    slope = jnp.concatenate([jnp.zeros_like(diag[:1]), -upper / diag[1:]])
    return lax.associative_scan(_compose_affine, (slope, rhs / diag))[1]


def pivots(diag: Float[Array, " T *shape"], off: Float[Array, " T-1 *shape"]) -> Float[Array, " T *shape"]:
    """Pivots of elimination on a tridiagonal matrix, by merging segments at their shared step."""
    edge = jnp.concatenate([jnp.zeros_like(diag[:1]), off])
    _, _, right = lax.associative_scan(_eliminate_shared, (jnp.zeros_like(diag), edge, diag))
    return right


def pivot_gains(
    diag: Float[Array, " T *#shape"], upper: Float[Array, " T-1 *#shape"], added: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    """The recurrence of `sequential.pivot_gains` as a composition of ratios of linear functions."""
    square = diag[:-1] * diag[:-1]
    slope = jnp.concatenate([jnp.zeros_like(added[:1]), (upper * upper + added[1:]) / square])
    below = jnp.concatenate([jnp.zeros_like(added[:1]), jnp.broadcast_to(1.0 / square, added[1:].shape)])
    return lax.associative_scan(_compose_ratios, (slope, added, below))[1]


def block_back_recurrence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D"]:
    """Solve $x_t + G_t x_{t+1} = u_t$."""
    slope = _append_zero(-gain, inputs)
    return lax.associative_scan(_compose_block_affine, (slope, inputs), reverse=True)[1]


def block_forward_recurrence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D"]:
    r"""Solve $x_t + G_{t-1}^\top x_{t-1} = u_t$."""
    slope = _prepend_zero(-gain.mT, inputs)
    return lax.associative_scan(_compose_block_affine, (slope, inputs))[1]


def back_congruence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    r"""Solve $X_t - G_t X_{t+1} G_t^\top = Q_t$."""
    slope = _append_zero(gain, inputs[..., 0])
    return lax.associative_scan(_compose_congruence, (slope, inputs), reverse=True)[1]


def forward_congruence(
    gain: Float[Array, " K *batch D D"], inputs: Float[Array, " K+1 *batch D D"]
) -> Float[Array, " K+1 *batch D D"]:
    r"""Solve $X_t - G_{t-1}^\top X_{t-1} G_{t-1} = Q_t$."""
    slope = _prepend_zero(gain.mT, inputs[..., 0])
    return lax.associative_scan(_compose_congruence, (slope, inputs))[1]


def block_pivots(
    diag: Float[Array, " T *batch D D"], off: Float[Array, " T-1 *batch D D"]
) -> Float[Array, " T *batch D D"]:
    """Pivots of elimination on a block tridiagonal matrix."""
    edge = _prepend_zero(off, diag[..., 0])
    _, _, right = lax.associative_scan(_eliminate_shared_block, (jnp.zeros_like(diag), edge, diag))
    return right


def _append_zero(
    gain: Float[Array, " K *batch D D"], like: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D D"]:
    zero = jnp.zeros((1, *like.shape[1:], like.shape[-1]), like.dtype)
    return jnp.concatenate([gain, zero])


def _prepend_zero(
    gain: Float[Array, " K *batch D D"], like: Float[Array, " K+1 *batch D"]
) -> Float[Array, " K+1 *batch D D"]:
    zero = jnp.zeros((1, *like.shape[1:], like.shape[-1]), like.dtype)
    return jnp.concatenate([zero, gain])


def _compose_affine(first: Affine, then: Affine) -> Affine:
    (slope, shift), (next_slope, next_shift) = first, then
    return next_slope * slope, next_slope * shift + next_shift


def _compose_block_affine(first: Affine, then: Affine) -> Affine:
    (slope, shift), (next_slope, next_shift) = first, then
    moved = jnp.einsum("...ij,...j->...i", next_slope, shift)
    return next_slope @ slope, moved + next_shift


def _compose_congruence(first: Affine, then: Affine) -> Affine:
    (slope, shift), (next_slope, next_shift) = first, then
    return next_slope @ slope, next_slope @ shift @ next_slope.mT + next_shift


def _compose_ratios(first: Ratio, then: Ratio) -> Ratio:
    """Compose maps x -> (a x + b) / (c x + 1); with positive numbers only, so that nothing cancels."""
    (a, b, c), (next_a, next_b, next_c) = first, then
    scale = 1.0 / (next_c * b + 1.0)
    return (next_a * a + next_b * c) * scale, (next_a * b + next_b) * scale, (next_c * a + c) * scale


def _eliminate_shared(left: Form, right: Form) -> Form:
    """Merge two quadratic forms that share a step by eliminating it (a Schur complement).

    A segment of the chain is the form [[a, b], [b, c]] on its two border steps. The first element has no
    left border (a = b = 0), so that in a prefix c is the pivot of its last step.
    """
    (a, b, c), (next_a, next_b, next_c) = left, right
    shared = c + next_a
    return a - b * b / shared, -b * next_b / shared, next_c - next_b * next_b / shared


def _eliminate_shared_block(left: Form, right: Form) -> Form:
    """`_eliminate_shared` for matrix-valued forms [[a, b], [b^T, c]]."""
    (a, b, c), (next_a, next_b, next_c) = left, right
    shared = c + next_a
    to_left = small.solve_positive(shared, b.mT)
    to_right = small.solve_positive(shared, next_b)
    return a - b @ to_left, -b @ to_right, next_c - next_b.mT @ to_right
