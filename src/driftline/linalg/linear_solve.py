"""Linear solves whose derivatives are solves too, given as functions of one array."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable

from jax import lax
from jaxtyping import Array

LinearMap = Callable[[Array], Array]


def linear_solve(operator: LinearMap, rhs: Array, *, solve: LinearMap, transpose_solve: LinearMap) -> Array:
    """The solution of operator(x) = rhs; its derivatives call the two solves again, in every mode.

    Args:
        operator: The linear map.
        rhs: Right-hand side.
        solve: The inverse of the linear map.
        transpose_solve: The inverse of its transpose.
    """

    def solve_again(_: LinearMap, rhs: Array) -> Array:
        return solve(rhs)

    def transpose_solve_again(_: LinearMap, rhs: Array) -> Array:
        return transpose_solve(rhs)

    return lax.custom_linear_solve(operator, rhs, solve_again, transpose_solve_again)
