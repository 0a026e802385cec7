"""The mirror step, by which a positive number moves."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from driftline.families.base import mirror_step

laws = settings(max_examples=100, deadline=None, derandomize=True, database=None)
values = st.floats(2.0**-10, 2.0**10, width=32)
steps = st.floats(-1e6, 1e6, width=32, allow_subnormal=False)
move = jax.jit(mirror_step)


@laws
@given(value=values, step=steps)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_and_its_opposite_lead_to_numbers_whose_geometric_mean_is_the_start(dtype, value, step):
    value, step = dtype(value), dtype(step)
    product = np.float64(move(value, step)) * np.float64(move(value, -step))
    np.testing.assert_allclose(product, np.float64(value) ** 2, rtol=16 * np.finfo(dtype).eps)


@laws
@given(value=values, step=steps)
def test_a_step_solves_the_equation_of_mirror_descent(value, step):
    # Stationarity of the step: after - value²/after = value · step.
    after = float(move(np.float64(value), np.float64(step)))
    terms = after, value**2 / after, value * step
    assert abs(terms[0] - terms[1] - terms[2]) <= 16 * np.finfo(np.float64).eps * max(map(abs, terms))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_step_is_no_move(dtype):
    value = np.asarray([1e-3, 1.0, 1e3], dtype)
    np.testing.assert_array_equal(move(value, np.zeros_like(value)), value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_huge_step_leaves_a_positive_finite_number(dtype):
    for size in (1e4, 1e9, 1e15, 1e25):
        step = np.asarray([-size, size], dtype)
        moved = np.asarray(move(np.ones_like(step), step))
        np.testing.assert_allclose(moved, [1.0 / size, size], rtol=8 * np.finfo(dtype).eps + size**-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_a_move_does_not_depend_on_units(unit, dtype):
    value, step, unit = np.asarray([0.5, 1.0, 2.0], dtype), np.asarray([-1.0, 0.0, 1.0], dtype), dtype(unit)
    expected = np.float64(unit) * np.asarray(move(value, step), np.float64)
    np.testing.assert_allclose(move(unit * value, step), expected, rtol=16 * np.finfo(dtype).eps)


def test_the_derivative_at_no_step_is_half_the_value():
    value = jnp.asarray([1e-3, 1.0, 1e3])
    derivative = jax.grad(lambda step: jnp.sum(mirror_step(value, step)))(jnp.zeros(3))
    np.testing.assert_allclose(derivative, 0.5 * value, rtol=4 * np.finfo(np.float64).eps)
