"""L-BFGS by slopes alone, on objectives whose top is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.words.fitting import lbfgs


def same(slope):
    return slope


def quadratic(seed, size=12, stretch=100.0):
    """A concave quadratic over a pytree: its gradient, its top and its curvature."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(size, size)))[0]
    curvature = (axes * np.geomspace(1.0, stretch, size)) @ axes.T
    top = rng.normal(size=size)

    def flat(place):
        return jnp.concatenate([place["a"].ravel(), place["b"]])

    def tree(vector):
        return {"a": jnp.asarray(vector[:6]).reshape(2, 3), "b": jnp.asarray(vector[6:])}

    def gradient(place):
        return tree(curvature @ (top - np.asarray(flat(place))))

    return gradient, tree, flat, top, curvature


@pytest.mark.parametrize("memory", [1, 4, 20])
@pytest.mark.parametrize("seed", range(3))
def test_the_top_of_a_quadratic_is_reached(seed, memory):
    gradient, tree, flat, top, _ = quadratic(seed)
    found = lbfgs.climb(gradient, same, tree(np.zeros(12)), steps=400, memory=memory)
    np.testing.assert_allclose(flat(found.place), top, atol=1e-6)
    assert 0.0 < found.first <= 1.0


def test_memory_of_all_steps_ends_in_about_as_many_steps_as_dimensions():
    """On a quadratic L-BFGS with a full memory has conjugate directions; plain slopes would take hundreds."""
    gradient, tree, flat, top, _ = quadratic(0)
    whole = lbfgs.climb(gradient, same, tree(np.zeros(12)), steps=40, memory=40)
    short = lbfgs.climb(gradient, same, tree(np.zeros(12)), steps=40, memory=1)
    off = [np.abs(np.asarray(flat(found.place)) - top).max() for found in (whole, short)]
    assert off[0] < 1e-3
    assert off[0] < 0.1 * off[1]


def test_with_the_curvature_as_metric_one_step_is_enough():
    gradient, tree, flat, top, curvature = quadratic(1)

    def precondition(slope):
        return tree(np.linalg.solve(curvature, np.asarray(flat(slope))))

    found = lbfgs.climb(gradient, precondition, tree(np.zeros(12)), steps=1, memory=3)
    np.testing.assert_allclose(flat(found.place), top, atol=1e-10)
    assert found.gradients == 2
    assert found.first == 1.0
    known = lbfgs.climb(
        gradient, precondition, tree(np.zeros(12)), gradient(tree(np.zeros(12))), steps=1, memory=3
    )
    assert known.gradients == 1
    np.testing.assert_array_equal(flat(known.place), flat(found.place))


def banana(place):
    return -(jnp.sum((1.0 - place[0]) ** 2) + 20.0 * jnp.sum((place[1] - place[0] ** 2) ** 2))


@pytest.mark.parametrize("memory", [1, 5])
def test_a_bent_ridge_is_climbed_to_its_top(memory):
    start = (jnp.array([-1.2, 0.5]), jnp.array([1.0, -1.0]))
    gradient = jax.jit(jax.grad(banana))
    found = lbfgs.climb(gradient, same, start, steps=3000, memory=memory)
    for part in found.place:
        np.testing.assert_allclose(part, 1.0, atol=1e-4)


def test_steps_that_go_too_far_are_taken_back_by_slopes_alone():
    """A metric that is a thousand times too long, on a function whose slope grows as a cube."""
    seen = []

    def gradient(place):
        seen.append(float(place[0]))
        return -(place**3)

    found = lbfgs.climb(gradient, lambda slope: 1e3 * slope, jnp.array([1.0]), steps=1, memory=1)
    rise, ahead = 1e3, -(seen[-1] ** 3) * -1.0 * 1e3
    assert found.gradients == len(seen) > 3
    assert ahead >= -lbfgs.OVERSHOT * rise
    assert abs(float(found.place[0])) < 1.0
    lengths = np.abs(np.array(seen[1:]) - 1.0) / 1e3
    assert (np.diff(lengths) < 0).all()
    assert (lengths[1:] / lengths[:-1] >= 0.1 - 1e-9).all()


def test_slopes_that_are_not_finite_are_stepped_back_from():
    def gradient(place):
        return jnp.where(jnp.abs(place) > 3.0, jnp.nan, 1.0 - place)

    found = lbfgs.climb(gradient, lambda slope: 50.0 * slope, jnp.array([0.0]), steps=60, memory=3)
    np.testing.assert_allclose(found.place, 1.0, atol=1e-6)


def test_boldness_is_the_length_of_the_first_step():
    places = []

    def gradient(place):
        places.append(float(place[0]))
        return 1.0 - place

    lbfgs.climb(gradient, same, jnp.array([0.0]), steps=2, memory=3, boldness=0.25)
    assert places[:2] == [0.0, 0.25]


def test_at_the_top_nothing_moves():
    gradient, tree, flat, top, _ = quadratic(2)
    found = lbfgs.climb(lambda place: tree(np.zeros(12)), same, tree(top), steps=5, memory=3)
    np.testing.assert_array_equal(flat(found.place), top)
    assert found.gradients == 1
    assert found.first == 0.0


@pytest.mark.parametrize("enough", [1.0, 1e-4])
def test_steps_end_when_they_gain_little(enough):
    """On a quadratic the trapezium is exact, so what the last steps gained is what the objective tells."""
    gradient, tree, flat, top, curvature = quadratic(0, stretch=1e4)
    start = tree(np.zeros(12))

    def value(place):
        off = np.asarray(flat(place)) - top
        return -0.5 * off @ curvature @ off

    def climbed(steps, enough=None):
        return lbfgs.climb(gradient, same, start, steps=steps, memory=1, enough=enough)

    values = [value(start), *(value(climbed(steps).place) for steps in range(1, 40))]
    gains = np.diff(values)
    for steps in range(lbfgs.LAST, len(gains) + 1):
        last, little = gains[steps - lbfgs.LAST : steps].mean(), lbfgs.LITTLE * gains[:steps].sum()
        if last < max(enough, little):
            break
    assert steps < len(gains)
    assert value(climbed(200, enough).place) == pytest.approx(values[steps], rel=1e-9)
