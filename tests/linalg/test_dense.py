"""The full matrices behind the bands, entry by entry."""

import jax.numpy as jnp
import numpy as np
import pytest

from driftline.linalg import dense
from support import oracles

lengths = pytest.mark.parametrize("num_steps", [1, 2, 4])


def draw(num_steps, shape=()):
    rng = np.random.default_rng(num_steps)
    return rng.standard_normal((num_steps, *shape)), rng.standard_normal((num_steps - 1, *shape))


@lengths
def test_bidiagonal_has_its_bands_where_they_belong_and_zeros_elsewhere(num_steps):
    diag, upper = draw(num_steps)
    expected = np.zeros((num_steps, num_steps))
    for t in range(num_steps):
        expected[t, t] = diag[t]
    for t in range(num_steps - 1):
        expected[t, t + 1] = upper[t]
    np.testing.assert_array_equal(dense.bidiagonal(jnp.asarray(diag), jnp.asarray(upper)), expected)


@lengths
def test_tridiagonal_has_its_off_diagonal_on_both_sides(num_steps):
    diag, off = draw(num_steps)
    expected = np.zeros((num_steps, num_steps))
    for t in range(num_steps):
        expected[t, t] = diag[t]
    for t in range(num_steps - 1):
        expected[t, t + 1] = expected[t + 1, t] = off[t]
    np.testing.assert_array_equal(dense.tridiagonal(jnp.asarray(diag), jnp.asarray(off)), expected)


@lengths
def test_block_bidiagonal_keeps_the_upper_triangles_of_its_diagonal_blocks(num_steps):
    diag, upper = draw(num_steps, (2, 2))
    expected = np.zeros((2 * num_steps, 2 * num_steps))
    for t in range(num_steps):
        expected[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = [
            [diag[t, 0, 0], diag[t, 0, 1]],
            [0.0, diag[t, 1, 1]],
        ]
    for t in range(num_steps - 1):
        expected[2 * t : 2 * t + 2, 2 * t + 2 : 2 * t + 4] = upper[t]
    np.testing.assert_array_equal(dense.block_bidiagonal(jnp.asarray(diag), jnp.asarray(upper)), expected)


@lengths
def test_block_tridiagonal_has_transposed_blocks_below_the_diagonal(num_steps):
    diag, off = draw(num_steps, (2, 2))
    expected = np.zeros((2 * num_steps, 2 * num_steps))
    for t in range(num_steps):
        expected[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = diag[t]
    for t in range(num_steps - 1):
        expected[2 * t : 2 * t + 2, 2 * t + 2 : 2 * t + 4] = off[t]
        expected[2 * t + 2 : 2 * t + 4, 2 * t : 2 * t + 2] = off[t].T
    np.testing.assert_array_equal(dense.block_tridiagonal(jnp.asarray(diag), jnp.asarray(off)), expected)


@lengths
def test_the_oracles_of_these_tests_assemble_the_same_matrices(num_steps):
    scalar, block = draw(num_steps), draw(num_steps, (2, 2))
    for name, bands in {
        "bidiagonal": scalar,
        "tridiagonal": scalar,
        "block_bidiagonal": block,
        "block_tridiagonal": block,
    }.items():
        found = getattr(dense, name)(*map(jnp.asarray, bands))
        np.testing.assert_array_equal(found, getattr(oracles, name)(*bands))
