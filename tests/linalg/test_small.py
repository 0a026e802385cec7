import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from driftline.linalg import small

LAPACK = 'custom_call_target="lapack'
SHAPES = [(1, 1, 1), (5, 2, 3), (4, 3, 3), (2, 8, 1), (3, 20, 4)]  # batch, D, K


def case(shape, seed=0):
    batch, dim, width = shape
    rng = np.random.default_rng(seed)
    square = rng.normal(size=(batch, dim, dim))
    positive = square @ square.swapaxes(1, 2) + dim * np.eye(dim)
    upper = (
        np.triu(rng.normal(size=(batch, dim, dim)), 1)
        + np.eye(dim) * rng.uniform(1, 2, (batch, 1, dim)) * dim
    )
    return positive, upper, rng.normal(size=(batch, dim, width))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everything_equals_lapack(shape):
    positive, upper, rhs = case(shape)
    # As one program each: otherwise every operation of an unrolled loop is compiled by itself.
    equal = functools.partial(np.testing.assert_allclose, atol=1e-12)
    equal(jax.jit(small.cholesky)(positive), np.linalg.cholesky(positive))
    equal(jax.jit(small.solve_upper)(upper, rhs), np.linalg.solve(upper, rhs))
    equal(jax.jit(small.solve_upper_transposed)(upper, rhs), np.linalg.solve(upper.swapaxes(1, 2), rhs))
    equal(jax.jit(small.solve_positive)(positive, rhs), np.linalg.solve(positive, rhs))


def test_what_stands_below_the_diagonal_is_ignored():
    _, upper, rhs = case((2, 3, 2))
    dirty = upper + np.tril(np.full((3, 3), 7.0), -1)
    for solve in (small.solve_upper, small.solve_upper_transposed):
        np.testing.assert_array_equal(
            solve(jnp.asarray(dirty), jnp.asarray(rhs)), solve(jnp.asarray(upper), jnp.asarray(rhs))
        )


def test_a_matrix_that_is_not_positive_definite_gives_nan_and_its_neighbours_do_not():
    matrices = jnp.stack([jnp.eye(2), jnp.array([[1.0, 2.0], [2.0, 1.0]]), 4.0 * jnp.eye(2)])
    factors = small.cholesky(matrices)
    assert np.isnan(factors[1]).any()
    np.testing.assert_array_equal(factors[0], np.eye(2))
    np.testing.assert_array_equal(factors[2], 2 * np.eye(2))


def test_derivatives_match_finite_differences():
    positive, upper, rhs = (jnp.asarray(array) for array in case((2, 3, 2)))

    def symmetric_cholesky(matrix):
        return small.cholesky(0.5 * (matrix + matrix.mT))

    check_grads(jax.jit(symmetric_cholesky), (positive,), order=2)
    check_grads(jax.jit(small.solve_upper), (upper, rhs), order=2)
    check_grads(jax.jit(small.solve_upper_transposed), (upper, rhs), order=2)


def test_no_call_to_lapack_remains_in_the_compiled_kernels():
    from driftline.linalg import block_tridiagonal

    positive, _, _ = case((6, 3, 1))
    diag, off = jnp.asarray(positive), 0.1 * jnp.ones((5, 3, 3))

    def variances(diag, off):
        return block_tridiagonal.band_of_inverse(*block_tridiagonal.cholesky(diag, off))[0].sum()

    compiled = jax.jit(jax.grad(variances, argnums=(0, 1))).lower(diag, off).compile().as_text()
    assert LAPACK not in compiled
    lapack = jax.jit(jnp.linalg.cholesky).lower(diag[0]).compile().as_text()
    assert LAPACK in lapack  # the check sees one when it is there
