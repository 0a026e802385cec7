"""Block bidiagonal products and solves against dense NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from driftline.linalg import block_bidiagonal
from support import oracles

matvec = jax.jit(block_bidiagonal.matvec)
matvec_transposed = jax.jit(block_bidiagonal.matvec_transposed)
solve = jax.jit(block_bidiagonal.solve)
solve_transposed = jax.jit(block_bidiagonal.solve_transposed)

KERNELS = ["matvec", "matvec_transposed", "solve", "solve_transposed"]


def draw(num_steps, dim, batch=(), seed=0):
    rng = np.random.default_rng(seed)
    factor = oracles.random_block_factor(rng, num_steps, dim, batch)
    return *factor, rng.standard_normal((num_steps, *batch, dim))


def roundings(blocks):
    """Along a path: in each step a substitution within the block and a product with the next one."""
    dim = blocks.diag.shape[-1]
    return blocks.num_steps * (dim + 2) ** 2


@pytest.mark.parametrize("kernel", [matvec, matvec_transposed], ids=["matvec", "matvec_transposed"])
def test_products_are_those_of_the_dense_matrix(kernel, blocks):
    matrix = blocks.matrix if kernel is matvec else blocks.matrix.mT
    found = kernel(np.triu(blocks.diag), blocks.upper, blocks.vector)
    magnitude = oracles.block_apply(np.abs(matrix), np.abs(blocks.vector))
    limit = 2 * blocks.diag.shape[-1] + 1
    expected = oracles.block_apply(matrix, blocks.vector)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=limit)


@pytest.mark.parametrize("kernel", [solve, solve_transposed], ids=["solve", "solve_transposed"])
def test_solves_are_those_of_the_dense_matrix(kernel, blocks):
    inverse, sums = np.linalg.inv(blocks.matrix), oracles.path_sums(blocks.matrix)
    inverse, sums = (inverse, sums) if kernel is solve else (inverse.mT, sums.mT)
    found = kernel(blocks.diag, blocks.upper, blocks.vector)
    magnitude = oracles.block_apply(sums, np.abs(blocks.vector))
    expected = oracles.block_apply(inverse, blocks.vector)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=roundings(blocks))


@pytest.mark.parametrize("kernel", [solve, solve_transposed], ids=["solve", "solve_transposed"])
def test_solves_leave_a_residual_of_rounding_size(kernel, blocks):
    matrix, sums = blocks.matrix, oracles.path_sums(blocks.matrix)
    matrix, sums = (matrix, sums) if kernel is solve else (matrix.mT, sums.mT)
    found = np.asarray(kernel(blocks.diag, blocks.upper, blocks.vector))
    residual = oracles.block_apply(matrix, found.astype(np.float64)) - blocks.vector
    # The blocks are inverted one by one, so the error of a row is that of its own block's solve.
    magnitude = oracles.block_apply(np.abs(matrix) @ sums, np.abs(blocks.vector))
    limit = roundings(blocks) * np.finfo(found.dtype).eps
    np.testing.assert_array_less(np.abs(residual), limit * magnitude)


def test_log_det_is_that_of_the_dense_matrix(blocks):
    found = block_bidiagonal.log_det(jnp.asarray(-blocks.diag))
    pivots = np.diagonal(blocks.matrix, axis1=-2, axis2=-1)
    magnitude = 1.0 + np.sum(np.abs(np.log(pivots)), axis=-1)
    expected = np.linalg.slogdet(blocks.matrix)[1]
    oracles.assert_within_rounding(found, expected, magnitude, roundings=2 * pivots.shape[-1])


def test_gains_solve_the_diagonal_blocks(blocks):
    found = block_bidiagonal.gains(jnp.asarray(blocks.diag), jnp.asarray(blocks.upper))
    triangles = np.triu(blocks.diag[:-1]).astype(np.float64)
    magnitude = oracles.path_sums(triangles) @ np.abs(blocks.upper)
    expected = np.linalg.solve(triangles, blocks.upper.astype(np.float64))
    oracles.assert_within_rounding(found, expected, magnitude, roundings=(blocks.diag.shape[-1] + 2) ** 2)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 8])
def test_blocks_of_one_number_are_the_scalar_case(num_steps):
    diag, upper, rhs = draw(num_steps, 1)
    matrix = oracles.bidiagonal(diag[:, 0, 0], upper[:, 0, 0])
    rtol = oracles.tolerance(matrix)
    oracles.assert_close(solve(diag, upper, rhs)[:, 0], np.linalg.solve(matrix, rhs[:, 0]), rtol=rtol)


@pytest.mark.parametrize("num_steps", [1, 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_derivatives_of_a_solve_are_those_of_the_dense_inverse(num_steps, transposed):
    diag, upper, rhs = draw(num_steps, 2)
    diag_dot, upper_dot, cotangent = draw(num_steps, 2, seed=1)
    kernel = solve_transposed if transposed else solve
    orient = np.transpose if transposed else np.asarray
    matrix, matrix_dot = (
        oracles.block_bidiagonal(diag, upper),
        oracles.block_bidiagonal(diag_dot, upper_dot),
    )
    inverse = np.linalg.inv(orient(matrix))
    solution, adjoint = inverse @ rhs.ravel(), inverse.T @ cotangent.ravel()
    change = -inverse @ orient(matrix_dot) @ inverse @ rhs.ravel()
    outer = orient(-np.outer(adjoint, solution))

    _, found_change = jax.jvp(kernel, (diag, upper, rhs), (diag_dot, upper_dot, np.zeros_like(rhs)))
    _, backward = jax.vjp(kernel, diag, upper, rhs)
    found_diag, found_upper, found_rhs = backward(jnp.asarray(cotangent))

    rtol = oracles.tolerance(matrix)
    oracles.assert_close(found_change, change.reshape(rhs.shape), rtol=rtol)
    oracles.assert_close(found_rhs, adjoint.reshape(rhs.shape), rtol=rtol)
    oracles.assert_close(found_diag, np.triu(oracles.block_band(outer, 0, 2)), rtol=rtol)
    oracles.assert_close(found_upper, oracles.block_band(outer, 1, 2), rtol=rtol)


@pytest.mark.parametrize("kernel", [solve, solve_transposed], ids=["solve", "solve_transposed"])
def test_first_and_second_derivatives_match_finite_differences(kernel):
    check_grads(kernel, draw(3, 2), order=2, modes=["fwd", "rev"])


@pytest.mark.parametrize("name", KERNELS)
def test_a_map_over_the_second_axis_is_a_loop_over_it(name):
    kernel = getattr(block_bidiagonal, name)
    arrays = [jnp.asarray(array) for array in draw(4, 2, (3,))]
    mapped = jax.vmap(kernel, in_axes=1, out_axes=1)(*arrays)
    looped = [kernel(*(array[:, i] for array in arrays)) for i in range(3)]
    rtol = oracles.tolerance(oracles.block_bidiagonal(*map(np.asarray, arrays[:2])))
    oracles.assert_close(mapped, np.stack(looped, axis=1), rtol=rtol)


@pytest.mark.parametrize("name", KERNELS)
def test_compiling_does_not_change_the_result(name):
    kernel = getattr(block_bidiagonal, name)
    arrays = [jnp.asarray(array) for array in draw(4, 2, (3,))]
    rtol = oracles.tolerance(oracles.block_bidiagonal(*map(np.asarray, arrays[:2])))
    oracles.assert_close(jax.jit(kernel)(*arrays), kernel(*arrays), rtol=rtol)
