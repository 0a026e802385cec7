"""The factor of some steps alone, against the inverse of a part of the dense covariance."""

import jax
import numpy as np
import pytest

from driftline.linalg import bidiagonal, block_tridiagonal
from support import oracles

KEPT = [[0], [6], [2, 3, 4], [0, 6], [1, 4, 6], list(range(7))]


@pytest.mark.parametrize("steps", KEPT, ids=str)
def test_some_steps_of_chains_have_their_part_of_the_covariance(steps):
    diag, upper = oracles.random_factor(np.random.default_rng(0), 7, (2,), np.float64)
    upper[3] = 0.0  # a cut
    dense = oracles.bidiagonal(diag, upper)
    found = oracles.bidiagonal(*jax.jit(bidiagonal.marginal_factor)(diag, upper, np.array(steps)))
    expected = np.linalg.inv(dense.mT @ dense)[:, steps][:, :, steps]
    np.testing.assert_allclose(np.linalg.inv(found.mT @ found), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("steps", KEPT, ids=str)
def test_some_steps_of_blocks_have_their_part_of_the_covariance(steps):
    diag, upper = oracles.random_block_factor(np.random.default_rng(0), 7, 3, (), np.float64)
    dense = oracles.block_bidiagonal(diag, upper)
    found = oracles.block_bidiagonal(
        *jax.jit(block_tridiagonal.marginal_factor)(diag, upper, np.array(steps))
    )
    entries = np.concatenate([np.arange(3 * step, 3 * step + 3) for step in steps])
    expected = np.linalg.inv(dense.mT @ dense)[np.ix_(entries, entries)]
    np.testing.assert_allclose(np.linalg.inv(found.mT @ found), expected, rtol=1e-9, atol=1e-11)
