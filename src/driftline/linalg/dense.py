"""The full matrices behind the bands, O(T²) and more: for debugging, for small problems and for tests."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import jax.numpy as jnp
from jaxtyping import Array, Float


def bidiagonal(diag: Float[Array, " T"], upper: Float[Array, " T-1"]) -> Float[Array, " T T"]:
    """The upper bidiagonal matrix."""
    return jnp.diag(diag) + jnp.diag(upper, 1)


def tridiagonal(diag: Float[Array, " T"], off: Float[Array, " T-1"]) -> Float[Array, " T T"]:
    """The symmetric tridiagonal matrix."""
    return jnp.diag(diag) + jnp.diag(off, 1) + jnp.diag(off, -1)


def block_bidiagonal(diag: Float[Array, " T D D"], upper: Float[Array, " T-1 D D"]) -> Float[Array, " N N"]:
    """The upper block bidiagonal matrix of N = T D rows."""
    return _assemble(jnp.triu(diag), upper)


def block_tridiagonal(diag: Float[Array, " T D D"], off: Float[Array, " T-1 D D"]) -> Float[Array, " N N"]:
    """The symmetric block tridiagonal matrix of N = T D rows."""
    above = _assemble(jnp.zeros_like(diag), off)
    return _assemble(diag, jnp.zeros_like(off)) + above + above.T


def _assemble(diag: Float[Array, " T D D"], upper: Float[Array, " T-1 D D"]) -> Float[Array, " N N"]:
    num_steps, dim = diag.shape[:2]
    blocks = jnp.zeros((num_steps, dim, num_steps, dim), diag.dtype)
    steps = jnp.arange(num_steps)
    blocks = blocks.at[steps, :, steps, :].set(diag)
    blocks = blocks.at[steps[:-1], :, steps[1:], :].set(upper)
    return blocks.reshape(num_steps * dim, num_steps * dim)
