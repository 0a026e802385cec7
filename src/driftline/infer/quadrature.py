"""Points and weights for expectations under a standard normal, deterministic and cached."""

import functools
import itertools
from statistics import NormalDist

import numpy as np

# Points per axis of a product rule, by the number of axes; beyond that, quasi-random points.
PER_AXIS = {1: 24, 2: 12, 3: 7}
NUM_QUASI_RANDOM = 256


@functools.cache
def standard_normal(num_axes: int, per_axis: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Points (Q, num_axes) and weights (Q,) whose weighted sum approximates an expectation.

    Up to three axes a product of Gauss-Hermite rules; beyond, quasi-random points in pairs of opposite
    sign, whose second moments are made exact while there are enough of them. So linear and, up to a
    few dozen axes, quadratic functions are integrated exactly.

    Args:
        num_axes: Dimension of the normal.
        per_axis: Points per axis of a product rule; None for the number that suits the dimension.
    """
    per_axis = per_axis or PER_AXIS.get(num_axes)
    if per_axis is not None:
        return _product_rule(num_axes, per_axis)
    half = quasi_normal(NUM_QUASI_RANDOM // 2, num_axes)
    if num_axes <= len(half) // 2:
        second = half.T @ half / len(half)
        half = half @ np.linalg.inv(np.linalg.cholesky(second)).T
    else:
        half = half / np.sqrt(np.mean(half**2, axis=0))
    points = np.concatenate([half, -half])
    return points, np.full(len(points), 1 / len(points))


def _product_rule(num_axes, per_axis):
    nodes, weights = np.polynomial.hermite_e.hermegauss(per_axis)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=num_axes)))
    products = np.array([np.prod(row) for row in itertools.product(weights, repeat=num_axes)])
    keep = products > 1e-14 * products.max()  # corners that no double-precision sum can see
    return points[keep], products[keep] / products[keep].sum()


def quasi_normal(num_points: int, num_axes: int) -> np.ndarray:
    """A Kronecker sequence on the generalised golden ratio, mapped to normal quantiles."""
    ratio = 1.5
    for _ in range(60):  # the positive root of x^(n+1) = x + 1, by fixed-point iteration
        ratio = (1 + ratio) ** (1 / (num_axes + 1))
    steps = np.power(ratio, -np.arange(1.0, num_axes + 1))
    uniform = np.mod(0.5 + np.outer(np.arange(1.0, num_points + 1), steps), 1.0)
    return np.vectorize(NormalDist().inv_cdf)(np.clip(uniform, 1e-12, 1 - 1e-12))
