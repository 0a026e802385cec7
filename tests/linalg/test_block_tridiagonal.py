"""Block tridiagonal products, elimination, Cholesky factors and inverses against dense NumPy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from driftline.linalg import block_tridiagonal
from support import oracles

matvec = jax.jit(block_tridiagonal.matvec)
from_factor = jax.jit(block_tridiagonal.from_factor)
pivots = jax.jit(block_tridiagonal.pivots)
cholesky = jax.jit(block_tridiagonal.cholesky)
band_of_inverse = jax.jit(block_tridiagonal.band_of_inverse)


def precision_of(blocks):
    """The bands of B^T B in the dtype of B, and their dense matrix in double precision."""
    dense, dim = blocks.matrix.mT @ blocks.matrix, blocks.diag.shape[-1]
    diag, off = (oracles.block_band(dense, k, dim).astype(blocks.diag.dtype) for k in (0, 1))
    return diag, off, oracles.block_tridiagonal(diag.astype(np.float64), off.astype(np.float64))


def draw_precision(num_steps, dim, batch=()):
    rng = np.random.default_rng(num_steps)
    factor = oracles.block_bidiagonal(*oracles.random_block_factor(rng, num_steps, dim, batch))
    dense = factor.mT @ factor
    return oracles.block_band(dense, 0, dim), oracles.block_band(dense, 1, dim)


FOUR_BY_THREE = draw_precision(4, 2, (3,))
RTOL = oracles.tolerance(oracles.block_tridiagonal(*FOUR_BY_THREE))


def test_matvec_is_the_dense_product(blocks):
    symmetric = blocks.diag + blocks.diag.mT
    matrix = oracles.block_tridiagonal(symmetric, blocks.upper).astype(np.float64)
    found = matvec(symmetric, blocks.upper, blocks.vector)
    magnitude = oracles.block_apply(np.abs(matrix), np.abs(blocks.vector))
    limit = 3 * blocks.diag.shape[-1] + 2
    oracles.assert_within_rounding(
        found, oracles.block_apply(matrix, blocks.vector), magnitude, roundings=limit
    )


def test_from_factor_is_the_band_of_the_dense_product(blocks):
    dense, magnitude = blocks.matrix.mT @ blocks.matrix, np.abs(blocks.matrix).mT @ np.abs(blocks.matrix)
    dim = blocks.diag.shape[-1]
    for k, found in enumerate(from_factor(blocks.diag, blocks.upper)):
        expected, scale = oracles.block_band(dense, k, dim), oracles.block_band(magnitude, k, dim)
        oracles.assert_within_rounding(found, expected, scale, roundings=2 * dim + 1)


def test_pivots_are_products_of_the_dense_cholesky_factor(blocks):
    diag, off, dense = precision_of(blocks)
    lower = oracles.block_band(np.linalg.cholesky(dense), 0, diag.shape[-1])
    rtol = oracles.tolerance(blocks.matrix, diag.dtype)
    oracles.assert_close(pivots(diag, off), lower @ lower.mT, rtol=rtol)


def test_cholesky_is_the_transposed_dense_factor(blocks):
    diag, off, dense = precision_of(blocks)
    factor, dim = np.linalg.cholesky(dense).mT, diag.shape[-1]
    rtol = oracles.tolerance(blocks.matrix, diag.dtype)
    for k, found in enumerate(cholesky(diag, off)):
        oracles.assert_close(found, oracles.block_band(factor, k, dim), rtol=rtol, scale=np.abs(factor).max())


def test_cholesky_multiplies_back_to_the_matrix(blocks):
    diag, off, dense = precision_of(blocks)
    factor_diag, factor_upper = (np.asarray(band, np.float64) for band in cholesky(diag, off))
    factor = oracles.block_bidiagonal(factor_diag, factor_upper)
    magnitude = np.abs(factor).mT @ np.abs(factor)
    product = (factor.mT @ factor).astype(diag.dtype)
    # Cholesky's componentwise backward error (Higham 2002, theorem 10.3), over two neighbouring blocks.
    oracles.assert_within_rounding(product, dense, magnitude, roundings=(2 * diag.shape[-1] + 2) ** 2)


def test_the_diagonal_blocks_of_cholesky_are_upper_triangular(blocks):
    diag, off, _ = precision_of(blocks)
    factor_diag, _ = cholesky(diag, off)
    np.testing.assert_array_equal(np.tril(factor_diag, -1), np.zeros_like(diag))


def test_band_of_inverse_is_the_band_of_the_dense_inverse(blocks):
    inverse, sums, dim = (
        np.linalg.inv(blocks.matrix),
        oracles.path_sums(blocks.matrix),
        blocks.diag.shape[-1],
    )
    limit = 2 * blocks.num_steps * (dim + 2) ** 2
    for k, found in enumerate(band_of_inverse(blocks.diag, blocks.upper)):
        expected = oracles.block_band(inverse @ inverse.mT, k, dim)
        magnitude = oracles.block_band(sums @ sums.mT, k, dim)
        oracles.assert_within_rounding(found, expected, magnitude, roundings=limit)


def test_cholesky_is_first_nan_at_the_step_that_is_not_positive_definite():
    diag = np.broadcast_to(np.eye(2), (4, 2, 2))
    off = np.array([0.5, 2.0, 0.5])[:, None, None] * np.eye(2)
    found_diag, found_upper = cholesky(diag, off)
    np.testing.assert_array_equal(np.isnan(found_diag[:3]).any((1, 2)), [False, False, True])
    np.testing.assert_array_equal(np.isnan(found_upper).any((1, 2)), [False, False, True])


@pytest.mark.parametrize("mode", ["fwd", "rev"])
@pytest.mark.parametrize("kernel", [pivots, cholesky], ids=["pivots", "cholesky"])
def test_first_and_second_derivatives_of_elimination_match_finite_differences(kernel, mode):
    @jax.jit
    def of_symmetric(half, off):
        return kernel(half + half.mT, off)

    diag, off = draw_precision(3, 2)
    check_grads(of_symmetric, (0.5 * diag, off), order=2, modes=[mode])


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_first_and_second_derivatives_of_the_inverse_match_finite_differences(mode):
    factor = oracles.random_block_factor(np.random.default_rng(0), 3, 2)
    check_grads(band_of_inverse, factor, order=2, modes=[mode])


@pytest.mark.parametrize("kernel", [cholesky, band_of_inverse], ids=["cholesky", "band_of_inverse"])
def test_forward_over_reverse_is_reverse_over_reverse(kernel):
    arrays = draw_precision(2, 2)

    def total(diag, off):
        return sum(jnp.sum(jnp.sin(band)) for band in kernel(diag, off))

    gradient = jax.grad(total, (0, 1))
    forward, reverse = (jax.jit(jacobian(gradient, (0, 1)))(*arrays) for jacobian in (jax.jacfwd, jax.jacrev))
    rtol = oracles.tolerance(oracles.block_tridiagonal(*arrays))
    jax.tree.map(partial(oracles.assert_close, rtol=rtol), forward, reverse)


@pytest.mark.parametrize("name", ["from_factor", "pivots", "cholesky", "band_of_inverse"])
def test_a_map_over_the_second_axis_is_a_loop_over_it(name):
    kernel = jax.jit(getattr(block_tridiagonal, name))
    arrays = [jnp.asarray(array) for array in FOUR_BY_THREE]
    mapped = jax.vmap(kernel, in_axes=1, out_axes=1)(*arrays)
    looped = [kernel(*(array[:, i] for array in arrays)) for i in range(3)]
    stacked = jax.tree.map(lambda *rows: np.stack(rows, axis=1), *looped)
    jax.tree.map(partial(oracles.assert_close, rtol=RTOL), mapped, stacked)


@pytest.mark.parametrize("name", ["from_factor", "pivots", "cholesky", "band_of_inverse"])
def test_compiling_does_not_change_the_result(name):
    kernel = getattr(block_tridiagonal, name)
    arrays = [jnp.asarray(array) for array in FOUR_BY_THREE]
    compiled, eager = jax.jit(kernel)(*arrays), kernel(*arrays)
    jax.tree.map(partial(oracles.assert_close, rtol=RTOL), compiled, eager)
