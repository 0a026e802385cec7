"""Bidiagonal products and solves against dense NumPy, SciPy's banded solver and LAPACK's tridiagonal one."""

import itertools

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from jax.test_util import check_grads

from driftline.linalg import bidiagonal
from support import oracles

matvec = jax.jit(bidiagonal.matvec)
matvec_transposed = jax.jit(bidiagonal.matvec_transposed)
solve = jax.jit(bidiagonal.solve)
solve_transposed = jax.jit(bidiagonal.solve_transposed)

laws = settings(max_examples=40, deadline=None, derandomize=True, database=None)
short = pytest.mark.parametrize("num_steps", [1, 2, 3, 8])
numbers = hnp.arrays(np.float64, (4, 8), elements=st.floats(-4.0, 4.0, width=32, allow_subnormal=False))


def draw(num_steps, shape, seed=0):
    rng = np.random.default_rng(seed)
    return *oracles.random_factor(rng, num_steps, shape), rng.standard_normal((num_steps, *shape))


def from_numbers(numbers, num_steps):
    """A factor whose diagonal has both signs and stays away from zero, and two vectors."""
    first, second, left, right = numbers[:, :num_steps]
    return np.copysign(0.25 + np.abs(first), first), second[: num_steps - 1], left, right


def assert_solves(matrix, solution, rhs):
    # A row of substitution takes at most four roundings of its own terms; twice that for the check itself.
    residual = oracles.apply(matrix, solution) - rhs
    magnitude = oracles.apply(np.abs(matrix), np.abs(solution)) + np.abs(rhs)
    oracles.assert_within_rounding(residual, np.zeros_like(rhs), magnitude, roundings=8)


def test_matvec_is_the_dense_product(bands):
    found = matvec(bands.diag, bands.upper, bands.vector)
    magnitude = oracles.apply(np.abs(bands.matrix), np.abs(bands.vector))
    oracles.assert_within_rounding(found, oracles.apply(bands.matrix, bands.vector), magnitude, roundings=3)


def test_matvec_transposed_is_the_dense_product_with_the_transpose(bands):
    found = matvec_transposed(bands.diag, bands.upper, bands.vector)
    magnitude = oracles.apply(np.abs(bands.matrix.mT), np.abs(bands.vector))
    expected = oracles.apply(bands.matrix.mT, bands.vector)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=3)


def test_solve_is_the_dense_solution(bands):
    found = solve(bands.diag, bands.upper, bands.vector)
    magnitude = oracles.apply(oracles.path_sums(bands.matrix), np.abs(bands.vector))
    expected = oracles.apply(np.linalg.inv(bands.matrix), bands.vector)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=4 * bands.num_steps + 4)


def test_solve_transposed_is_the_dense_solution_with_the_transpose(bands):
    found = solve_transposed(bands.diag, bands.upper, bands.vector)
    magnitude = oracles.apply(oracles.path_sums(bands.matrix).mT, np.abs(bands.vector))
    expected = oracles.apply(np.linalg.inv(bands.matrix.mT), bands.vector)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=4 * bands.num_steps + 4)


def test_log_det_is_that_of_the_dense_matrix(bands):
    found = bidiagonal.log_det(jnp.asarray(-bands.diag))
    magnitude = 1.0 + np.sum(np.abs(np.log(bands.diag.astype(np.float64))), axis=0)
    expected = np.linalg.slogdet(bands.matrix)[1]
    oracles.assert_within_rounding(found, expected, magnitude, roundings=2 * bands.num_steps)


@pytest.mark.parametrize("num_steps", [1, 2, 8, 50])
def test_solve_agrees_with_the_banded_solver_of_scipy(num_steps):
    diag, upper, rhs = draw(num_steps, ())
    expected = scipy.linalg.solve_banded((0, 1), np.stack([np.append(0.0, upper), diag]), rhs)
    magnitude = oracles.path_sums(oracles.bidiagonal(diag, upper)) @ np.abs(rhs)
    found = solve(diag, upper, rhs)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=8 * num_steps + 8)


@pytest.mark.parametrize("num_steps", [3, 8, 50])
def test_both_solves_agree_with_the_tridiagonal_solver_of_lapack(num_steps):
    diag, upper, rhs = draw(num_steps, ())
    diag = diag + 2.0  # larger than what stands next to it, so that the pivoting solver does not pivot
    lower, above = np.append(0.0, upper), np.append(upper, 0.0)
    zero = np.zeros(num_steps)
    expected = jax.lax.linalg.tridiagonal_solve(zero, diag, above, rhs[:, None])[:, 0]
    expected_transposed = jax.lax.linalg.tridiagonal_solve(lower, diag, zero, rhs[:, None])[:, 0]
    sums = oracles.path_sums(oracles.bidiagonal(diag, upper))
    limit = 8 * num_steps + 8
    found, found_transposed = solve(diag, upper, rhs), solve_transposed(diag, upper, rhs)
    oracles.assert_within_rounding(found, expected, sums @ np.abs(rhs), roundings=limit)
    oracles.assert_within_rounding(
        found_transposed, expected_transposed, sums.T @ np.abs(rhs), roundings=limit
    )


@short
@laws
@given(numbers=numbers)
def test_solve_undoes_matvec(num_steps, numbers):
    diag, upper, vector, _ = from_numbers(numbers, num_steps)
    rhs = np.asarray(matvec(diag, upper, vector))
    assert_solves(oracles.bidiagonal(diag, upper), np.asarray(solve(diag, upper, rhs)), rhs)


@short
@laws
@given(numbers=numbers)
def test_solve_transposed_undoes_matvec_transposed(num_steps, numbers):
    diag, upper, vector, _ = from_numbers(numbers, num_steps)
    rhs = np.asarray(matvec_transposed(diag, upper, vector))
    assert_solves(oracles.bidiagonal(diag, upper).T, np.asarray(solve_transposed(diag, upper, rhs)), rhs)


@short
@laws
@given(numbers=numbers)
def test_matvec_and_matvec_transposed_are_adjoint(num_steps, numbers):
    diag, upper, left, right = from_numbers(numbers, num_steps)
    found = np.dot(matvec(diag, upper, left), right)
    expected = np.dot(left, matvec_transposed(diag, upper, right))
    magnitude = np.abs(right) @ np.abs(oracles.bidiagonal(diag, upper)) @ np.abs(left)
    oracles.assert_within_rounding(found, expected, magnitude, roundings=2 * (num_steps + 3))


@pytest.mark.parametrize("num_steps", [1, 8])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_derivatives_of_a_solve_are_those_of_the_dense_inverse(num_steps, transposed):
    diag, upper, rhs = draw(num_steps, (2,))
    diag_dot, upper_dot, cotangent = draw(num_steps, (2,), seed=1)
    kernel = solve_transposed if transposed else solve
    orient = (lambda matrix: matrix.mT) if transposed else (lambda matrix: matrix)
    matrix, matrix_dot = oracles.bidiagonal(diag, upper), oracles.bidiagonal(diag_dot, upper_dot)
    inverse = np.linalg.inv(orient(matrix))
    solution, adjoint = oracles.apply(inverse, rhs), oracles.apply(inverse.mT, cotangent)
    change = -oracles.apply(inverse @ orient(matrix_dot) @ inverse, rhs)
    outer = -np.moveaxis(adjoint, 0, -1)[..., :, None] * np.moveaxis(solution, 0, -1)[..., None, :]

    tangents = diag_dot, upper_dot, np.zeros_like(rhs)
    _, found_change = jax.jvp(kernel, (diag, upper, rhs), tangents)
    _, backward = jax.vjp(kernel, diag, upper, rhs)
    found_diag, found_upper, found_rhs = backward(jnp.asarray(cotangent))

    rtol = oracles.tolerance(matrix)
    oracles.assert_close(found_change, change, rtol=rtol)
    oracles.assert_close(found_rhs, adjoint, rtol=rtol)
    oracles.assert_close(found_diag, oracles.band(orient(outer), 0), rtol=rtol)
    oracles.assert_close(found_upper, oracles.band(orient(outer), 1), rtol=rtol)


@pytest.mark.parametrize(("num_steps", "order"), [(1, 1), (3, 2)])
@pytest.mark.parametrize("kernel", [solve, solve_transposed], ids=["solve", "solve_transposed"])
def test_first_and_second_derivatives_match_finite_differences(kernel, num_steps, order):
    check_grads(kernel, draw(num_steps, ()), order=order, modes=["fwd", "rev"])


@pytest.mark.parametrize(
    "mapped", [flags for flags in itertools.product([True, False], repeat=3) if any(flags)]
)
@pytest.mark.parametrize("name", ["matvec", "matvec_transposed", "solve", "solve_transposed"])
def test_a_map_is_a_loop_whichever_arguments_have_the_axis(name, mapped):
    kernel = jax.jit(getattr(bidiagonal, name))
    full = draw(5, (3, 2))
    arrays = [array if is_mapped else array[:, 0] for array, is_mapped in zip(full, mapped, strict=True)]
    found = jax.vmap(kernel, in_axes=[1 if is_mapped else None for is_mapped in mapped])(*arrays)
    rtol = oracles.tolerance(oracles.bidiagonal(*full[:2]))
    for i in range(3):
        own = [array[:, i] if is_mapped else array for array, is_mapped in zip(arrays, mapped, strict=True)]
        oracles.assert_close(found[i], kernel(*own), rtol=rtol)


@pytest.mark.parametrize("transposed", [False, True])
def test_two_maps_are_two_loops(transposed):
    diag, upper, _ = draw(5, (3,))
    rhs = np.random.default_rng(1).standard_normal((4, 5))
    over_rhs = jax.vmap(solve_transposed if transposed else solve, in_axes=(None, None, 0))
    found = jax.vmap(over_rhs, in_axes=(1, 1, None))(diag, upper, rhs)
    matrices = oracles.bidiagonal(diag, upper)
    inverses = np.linalg.inv(matrices.mT if transposed else matrices)
    expected = np.einsum("bts,ks->bkt", inverses, rhs)
    oracles.assert_close(found, expected, rtol=oracles.tolerance(matrices))


@pytest.mark.parametrize("jacobian", [jax.jacfwd, jax.jacrev])
def test_jacobians_which_map_over_derivatives_are_the_dense_inverse(jacobian):
    diag, upper, rhs = draw(5, ())
    matrix = oracles.bidiagonal(diag, upper)
    found = jacobian(solve, argnums=2)(diag, upper, rhs)
    oracles.assert_close(found, np.linalg.inv(matrix), rtol=oracles.tolerance(matrix))


def test_the_gradient_of_a_map_is_the_sum_of_gradients():
    diag, upper, _ = draw(5, ())
    rhs = np.random.default_rng(1).standard_normal((5, 3))

    def one(diag, upper, rhs):
        return jnp.sum(jnp.sin(solve(diag, upper, rhs)))

    def mapped(diag, upper, rhs):
        return jnp.sum(jax.vmap(one, in_axes=(None, None, 1))(diag, upper, rhs))

    found = jax.grad(mapped, (0, 1))(diag, upper, rhs)
    each = [jax.grad(one, (0, 1))(diag, upper, rhs[:, i]) for i in range(3)]
    rtol = oracles.tolerance(oracles.bidiagonal(diag, upper))
    for k in range(2):
        oracles.assert_close(found[k], sum(np.asarray(gradients[k]) for gradients in each), rtol=rtol)


@pytest.mark.parametrize("name", ["matvec", "matvec_transposed", "solve", "solve_transposed"])
def test_compiling_does_not_change_the_result(name):
    kernel = getattr(bidiagonal, name)
    arrays = [jnp.asarray(array) for array in draw(8, (4,))]
    rtol = oracles.tolerance(oracles.bidiagonal(*map(np.asarray, arrays[:2])))
    oracles.assert_close(jax.jit(kernel)(*arrays), kernel(*arrays), rtol=rtol)
