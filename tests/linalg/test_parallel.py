"""Every function of `parallel` against the function of that name in `sequential`."""

import inspect

import jax
import numpy as np
import pytest

from driftline.linalg import parallel, sequential
from support import oracles

DIM = 2
SCALAR = ["back_substitute", "forward_substitute", "pivots", "pivot_gains"]
BLOCK = [
    "block_back_recurrence",
    "block_forward_recurrence",
    "back_congruence",
    "forward_congruence",
    "block_pivots",
]
lengths = pytest.mark.parametrize("num_steps", [1, 2, 3, 8, 50])


def public_functions(module):
    functions = inspect.getmembers(module, inspect.isfunction)
    return {name for name, function in functions if function.__module__ == module.__name__ and name[0] != "_"}


def draw_scalar(num_steps, shape):
    rng = np.random.default_rng(num_steps)
    diag, upper = oracles.random_factor(rng, num_steps, shape)
    return diag, upper, rng.standard_normal((num_steps, *shape)), oracles.bidiagonal(diag, upper)


def draw_block(num_steps, batch):
    rng = np.random.default_rng(num_steps)
    diag, upper = oracles.random_block_factor(rng, num_steps, DIM, batch)
    return diag, upper, rng.standard_normal((num_steps, *batch, DIM)), oracles.block_bidiagonal(diag, upper)


def recurrence_tolerance(gain):
    """For a recurrence, the matrix of which has identities on its diagonal."""
    identity = np.broadcast_to(np.eye(DIM), (len(gain) + 1, *gain.shape[1:]))
    return oracles.tolerance(oracles.block_bidiagonal(identity, gain))


def assert_same(name, *arrays, rtol):
    found = jax.jit(getattr(parallel, name))(*arrays)
    expected = jax.jit(getattr(sequential, name))(*arrays)
    assert found.dtype == expected.dtype
    oracles.assert_close(found, expected, rtol=rtol)


def test_both_orders_offer_the_same_functions():
    assert public_functions(parallel) == public_functions(sequential) == set(SCALAR + BLOCK)


@lengths
@pytest.mark.parametrize("name", ["back_substitute", "forward_substitute"])
def test_substitution_is_the_same_in_both_orders(name, num_steps):
    diag, upper, rhs, matrix = draw_scalar(num_steps, (3,))
    assert_same(name, diag, upper, rhs, rtol=oracles.tolerance(matrix))


@lengths
def test_elimination_is_the_same_in_both_orders(num_steps):
    _, _, _, matrix = draw_scalar(num_steps, (3,))
    dense = matrix.mT @ matrix
    bands = oracles.band(dense, 0), oracles.band(dense, 1)
    assert_same("pivots", *bands, rtol=oracles.tolerance(matrix))


@lengths
def test_gains_are_the_same_in_both_orders(num_steps):
    diag, upper, rhs, matrix = draw_scalar(num_steps, (3,))
    assert_same("pivot_gains", diag, upper, rhs**2, rtol=oracles.tolerance(matrix))
    assert_same("pivot_gains", diag[:, :1], upper[:, :1], rhs**2, rtol=oracles.tolerance(matrix))


@lengths
@pytest.mark.parametrize("name", ["block_back_recurrence", "block_forward_recurrence"])
def test_recurrences_are_the_same_in_both_orders(name, num_steps):
    _, gain, inputs, _ = draw_block(num_steps, ())
    assert_same(name, gain, inputs, rtol=recurrence_tolerance(gain))


@lengths
@pytest.mark.parametrize("name", ["back_congruence", "forward_congruence"])
def test_congruences_are_the_same_in_both_orders(name, num_steps):
    inputs, gain, _, _ = draw_block(num_steps, ())
    assert_same(name, gain, inputs, rtol=recurrence_tolerance(gain))


@lengths
def test_block_elimination_is_the_same_in_both_orders(num_steps):
    _, _, _, matrix = draw_block(num_steps, ())
    dense = matrix.mT @ matrix
    bands = oracles.block_band(dense, 0, DIM), oracles.block_band(dense, 1, DIM)
    assert_same("block_pivots", *bands, rtol=oracles.tolerance(matrix))


def test_all_functions_take_axes_between_time_and_blocks():
    diag, gain, inputs, matrix = draw_block(3, (2, 2))
    assert matrix.shape == (2, 2, 6, 6)
    dense = matrix.mT @ matrix
    bands = oracles.block_band(dense, 0, DIM), oracles.block_band(dense, 1, DIM)
    assert_same("block_pivots", *bands, rtol=oracles.tolerance(matrix))
    rtol = recurrence_tolerance(gain)
    assert_same("block_back_recurrence", gain, inputs, rtol=rtol)
    assert_same("block_forward_recurrence", gain, inputs, rtol=rtol)
    assert_same("back_congruence", gain, diag, rtol=rtol)
    assert_same("forward_congruence", gain, diag, rtol=rtol)


@pytest.mark.parametrize("name", SCALAR)
def test_single_precision_stays_single(name):
    diag, upper, rhs, _ = draw_scalar(8, ())
    arguments = (2.0 + diag, upper) if name == "pivots" else (2.0 + diag, upper, rhs**2)
    rtol = oracles.tolerance(oracles.tridiagonal(2.0 + diag, upper), np.float32)
    assert_same(name, *(array.astype(np.float32) for array in arguments), rtol=rtol)
    shape = jax.eval_shape(getattr(parallel, name), *(array.astype(np.float32) for array in arguments))
    assert shape.dtype == np.float32
