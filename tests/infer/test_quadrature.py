import itertools

import numpy as np
import pytest

from driftline.infer.quadrature import standard_normal


def normal_moment(power):
    return 0.0 if power % 2 else float(np.prod(np.arange(power - 1, 0, -2)))


@pytest.mark.parametrize("num_axes", [1, 2, 3])
def test_product_rules_integrate_polynomials_exactly(num_axes):
    points, weights = standard_normal(num_axes)
    for powers in itertools.product(range(0, 7, 2), repeat=num_axes):
        value = weights @ np.prod(points**powers, axis=1)
        expected = np.prod([normal_moment(power) for power in powers])
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        odd = (powers[0] + 1, *powers[1:])
        assert abs(weights @ np.prod(points**odd, axis=1)) < 1e-8 * max(expected, 1)


@pytest.mark.parametrize("num_axes", [4, 6, 20, 64])
def test_quasi_random_points_have_exact_first_and_second_moments(num_axes):
    points, weights = standard_normal(num_axes)
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_allclose(weights @ points, np.zeros(num_axes), atol=1e-12)
    np.testing.assert_allclose(points.T @ (weights[:, None] * points), np.eye(num_axes), atol=1e-10)


def test_many_axes_keep_exact_variances():
    points, weights = standard_normal(300)
    np.testing.assert_allclose(weights @ points**2, np.ones(300), rtol=1e-12)


def test_quasi_random_points_integrate_smooth_functions_well():
    # E exp(a.x) = exp(|a|²/2); plain Monte Carlo with 256 draws has an error of about 0.07 here.
    points, weights = standard_normal(6)
    direction = np.linspace(0.1, 0.5, 6)
    value = weights @ np.exp(points @ direction)
    assert abs(value / np.exp(0.5 * direction @ direction) - 1) < 0.03
