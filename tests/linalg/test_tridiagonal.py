"""Tridiagonal products, elimination, Cholesky factors and inverses against dense NumPy and SciPy."""

from functools import partial

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from jax.test_util import check_grads

from driftline.linalg import tridiagonal
from support import oracles

matvec = jax.jit(tridiagonal.matvec)
from_factor = jax.jit(tridiagonal.from_factor)
pivots = jax.jit(tridiagonal.pivots)
cholesky = jax.jit(tridiagonal.cholesky)
band_of_inverse = jax.jit(tridiagonal.band_of_inverse)

laws = settings(max_examples=40, deadline=None, derandomize=True, database=None)
EPS = np.finfo(np.float64).eps


def precision_of(bands):
    """The bands of B^T B in the dtype of B, and their dense matrix in double precision."""
    dense = bands.matrix.mT @ bands.matrix
    diag, off = (oracles.band(dense, k).astype(bands.diag.dtype) for k in (0, 1))
    return diag, off, oracles.tridiagonal(diag.astype(np.float64), off.astype(np.float64))


def draw_precision(num_steps, shape=()):
    factor = oracles.bidiagonal(*oracles.random_factor(np.random.default_rng(num_steps), num_steps, shape))
    dense = factor.mT @ factor
    return oracles.band(dense, 0), oracles.band(dense, 1)


EIGHT_BY_FOUR = draw_precision(8, (4,))
RTOL = oracles.tolerance(oracles.tridiagonal(*EIGHT_BY_FOUR))


def test_matvec_is_the_dense_product(bands):
    matrix = oracles.tridiagonal(bands.diag, bands.upper).astype(np.float64)
    found = matvec(bands.diag, bands.upper, bands.vector)
    magnitude = oracles.apply(np.abs(matrix), np.abs(bands.vector))
    oracles.assert_within_rounding(found, oracles.apply(matrix, bands.vector), magnitude, roundings=4)


def test_from_factor_is_the_band_of_the_dense_product(bands):
    dense, magnitude = bands.matrix.mT @ bands.matrix, np.abs(bands.matrix).mT @ np.abs(bands.matrix)
    for k, found in enumerate(from_factor(bands.diag, bands.upper)):
        oracles.assert_within_rounding(found, oracles.band(dense, k), oracles.band(magnitude, k), roundings=3)


def test_pivots_are_the_squared_diagonal_of_the_dense_cholesky_factor(bands):
    diag, off, dense = precision_of(bands)
    expected = oracles.band(np.linalg.cholesky(dense), 0) ** 2
    # Elimination has a small backward error; a pivot is one over an entry of an inverse.
    magnitude = expected * np.linalg.cond(dense)
    oracles.assert_within_rounding(pivots(diag, off), expected, magnitude, roundings=bands.num_steps + 8)


def test_pivot_gains_are_the_pivots_with_a_diagonal_less_those_without():
    rng = np.random.default_rng(2)
    diag, upper = oracles.random_factor(rng, 9, (3,))
    added = rng.uniform(0.0, 2.0, (9, 3))
    factor = oracles.bidiagonal(diag, upper)
    dense = factor.mT @ factor + np.einsum("tk,ts->kts", added, np.eye(9))
    expected = oracles.band(np.linalg.cholesky(dense), 0) ** 2 - diag**2
    found = jax.jit(tridiagonal.pivot_gains)(diag, upper, added)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_cholesky_multiplies_back_to_the_matrix(bands):
    diag, off, dense = precision_of(bands)
    factor_diag, factor_upper = (np.asarray(band, np.float64) for band in cholesky(diag, off))
    factor = oracles.bidiagonal(factor_diag, factor_upper)
    product = factor.mT @ factor
    for k, given_band in enumerate((diag, off)):
        found = oracles.band(product, k).astype(given_band.dtype)
        oracles.assert_within_rounding(found, given_band, np.abs(oracles.band(dense, k)), roundings=8)


def test_cholesky_of_a_product_is_the_factor(bands):
    diag, off, dense = precision_of(bands)
    condition = np.linalg.cond(dense)
    scale = np.abs(bands.matrix).max(axis=(-2, -1))
    for found, expected in zip(cholesky(diag, off), (bands.diag, bands.upper), strict=True):
        oracles.assert_within_rounding(found, expected, scale * condition, roundings=bands.num_steps + 8)


@pytest.mark.parametrize("num_steps", [2, 8, 50])
def test_cholesky_agrees_with_the_banded_one_of_scipy(num_steps):
    diag, off = draw_precision(num_steps)
    expected = scipy.linalg.cholesky_banded(np.stack([np.append(0.0, off), diag]))
    rtol = 16 * EPS * np.linalg.cond(oracles.tridiagonal(diag, off))
    found_diag, found_upper = cholesky(diag, off)
    oracles.assert_close(found_diag, expected[1], rtol=rtol)
    oracles.assert_close(found_upper, expected[0, 1:], rtol=rtol)


def test_band_of_inverse_is_the_band_of_the_dense_inverse(bands):
    # Both are sums of terms of one sign, so that the error is relative to each entry.
    inverse = np.linalg.inv(bands.matrix)
    dense = inverse @ inverse.mT
    for k, found in enumerate(band_of_inverse(bands.diag, bands.upper)):
        expected = oracles.band(dense, k)
        limit = 8 * bands.num_steps
        oracles.assert_within_rounding(found, expected, np.abs(expected), roundings=limit)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 8])
@laws
@given(numbers=hnp.arrays(np.float64, (2, 8), elements=st.floats(-1.0, 1.0, width=32, allow_subnormal=False)))
def test_cholesky_undoes_from_factor(num_steps, numbers):
    diag = np.exp2(numbers[0, :num_steps])
    upper = numbers[1, : num_steps - 1] * diag[:-1]  # at most the diagonal, which bounds the condition
    found_diag, found_upper = cholesky(*from_factor(diag, upper))
    dense = oracles.bidiagonal(diag, upper)
    rtol = (num_steps + 8) * EPS * np.linalg.cond(dense.T @ dense)
    oracles.assert_close(found_diag, diag, rtol=rtol)
    oracles.assert_close(found_upper, upper, rtol=rtol, scale=diag.max())


def test_pivots_are_positive_just_if_the_matrix_is_positive_definite():
    diag = np.ones((3, 2))
    off = np.array([[0.5, 2.0], [0.5, 0.5]])
    definite = np.linalg.eigvalsh(oracles.tridiagonal(diag, off)).min(axis=-1) > 0.0
    np.testing.assert_array_equal(definite, [True, False])
    np.testing.assert_array_equal((pivots(diag, off) > 0.0).all(axis=0), definite)


def test_cholesky_is_first_nan_at_the_step_that_is_not_positive_definite():
    diag, off = np.ones(4), np.array([0.5, 2.0, 0.5])  # leading minors: 1, 0.75, -3.25
    found_diag, found_upper = cholesky(diag, off)
    np.testing.assert_array_equal(np.isnan(found_diag[:3]), [False, False, True])
    np.testing.assert_array_equal(np.isnan(found_upper), [False, False, True])


@pytest.mark.parametrize(("num_steps", "order"), [(1, 1), (3, 2)])
@pytest.mark.parametrize("kernel", [pivots, cholesky], ids=["pivots", "cholesky"])
def test_first_and_second_derivatives_of_elimination_match_finite_differences(kernel, num_steps, order):
    check_grads(kernel, draw_precision(num_steps), order=order, modes=["fwd", "rev"])


@pytest.mark.parametrize(("num_steps", "order"), [(1, 1), (3, 2)])
def test_first_and_second_derivatives_of_the_inverse_match_finite_differences(num_steps, order):
    factor = oracles.random_factor(np.random.default_rng(0), num_steps)
    check_grads(band_of_inverse, factor, order=order, modes=["fwd", "rev"])


@pytest.mark.parametrize("name", ["from_factor", "pivots", "cholesky", "band_of_inverse"])
def test_a_map_over_the_second_axis_is_a_loop_over_it(name):
    kernel = getattr(tridiagonal, name)
    arrays = [jnp.asarray(array) for array in EIGHT_BY_FOUR]
    mapped = jax.vmap(kernel, in_axes=1, out_axes=1)(*arrays)
    looped = [kernel(*(array[:, i] for array in arrays)) for i in range(4)]
    stacked = jax.tree.map(lambda *rows: np.stack(rows, axis=1), *looped)
    jax.tree.map(partial(oracles.assert_close, rtol=RTOL), mapped, stacked)


@pytest.mark.parametrize("name", ["from_factor", "pivots", "cholesky", "band_of_inverse"])
def test_compiling_does_not_change_the_result(name):
    kernel = getattr(tridiagonal, name)
    arrays = [jnp.asarray(array) for array in EIGHT_BY_FOUR]
    compiled, eager = jax.jit(kernel)(*arrays), kernel(*arrays)
    jax.tree.map(partial(oracles.assert_close, rtol=RTOL), compiled, eager)
