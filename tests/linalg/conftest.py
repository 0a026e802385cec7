"""Random matrices on a grid of lengths, trailing shapes and dtypes."""

from typing import NamedTuple

import numpy as np
import pytest

from support import oracles

LENGTHS = (1, 2, 3, 8, 50)
SHAPES = ((), (4,), (2, 3), (8, 9))  # one chain is solved in another way than several
GRID = [(length, shape, np.float64) for length in LENGTHS for shape in SHAPES]
GRID += [(length, shape, np.float32) for length in LENGTHS for shape in ((), (8, 9))]

DIM = 3
BLOCK_GRID = [(length, (), np.float64) for length in LENGTHS]
BLOCK_GRID += [(length, (2,), np.float32) for length in LENGTHS]


class Bands(NamedTuple):
    """A factor by its bands, its dense matrix in double precision, and a vector to apply it to."""

    diag: np.ndarray
    upper: np.ndarray
    vector: np.ndarray
    matrix: np.ndarray

    @property
    def num_steps(self):
        return len(self.diag)


def _name(cell):
    length, shape, dtype = cell
    return f"T{length}-{'x'.join(map(str, shape)) or 'scalar'}-{dtype.__name__}"


@pytest.fixture(params=GRID, ids=_name, scope="module")
def bands(request):
    """An upper bidiagonal factor with a positive diagonal."""
    length, shape, dtype = request.param
    rng = np.random.default_rng([length, *shape])
    diag, upper = oracles.random_factor(rng, length, shape, dtype)
    vector = rng.standard_normal((length, *shape)).astype(dtype)
    matrix = oracles.bidiagonal(diag.astype(np.float64), upper.astype(np.float64))
    return Bands(diag, upper, vector, matrix)


@pytest.fixture(params=BLOCK_GRID, ids=_name, scope="module")
def blocks(request):
    """An upper block bidiagonal factor with positive diagonals."""
    length, batch, dtype = request.param
    rng = np.random.default_rng([length, *batch])
    diag, upper = oracles.random_block_factor(rng, length, DIM, batch, dtype)
    vector = rng.standard_normal((length, *batch, DIM)).astype(dtype)
    matrix = oracles.block_bidiagonal(diag.astype(np.float64), upper.astype(np.float64))
    return Bands(diag, upper, vector, matrix)
