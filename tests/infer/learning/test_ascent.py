"""Climbs to the most probable numbers, on hills whose tops are known."""

import numpy as np
import pytest

from driftline.infer.learning.ascent import WIDTHS, climb
from driftline.infer.learning.fits_at_numbers import Fitted
from driftline.infer.progress import Reporter

TOPS = np.array([[0.3, -1.0], [2.0, 0.5], [-1.5, 3.0]])
SHAPES = np.array([[[2.0, 0.3], [0.3, 0.5]], [[9.0, 0.0], [0.0, 1.0]], [[1.0, -0.4], [-0.4, 1.0]]])


def hills(raws, q):
    apart = raws - TOPS
    slopes = -np.einsum("nij,nj->ni", SHAPES, apart)
    values = 0.5 * np.einsum("ni,ni->n", slopes, apart)
    return Fitted(values, slopes, values, q, np.zeros_like(values))


def quiet():
    return Reporter("learning", None, False)


def start():
    return np.zeros((3, 2)), np.zeros((3, 1))


def test_every_climb_ends_at_its_own_top_with_the_curvature_there():
    found = climb(*start(), hills, quiet())
    assert found.reached.all()
    assert not found.interrupted.any()
    assert (hills(found.raws, None).value > -1e-4).all()  # the tops are at zero
    np.testing.assert_allclose(found.covariances, np.linalg.inv(SHAPES), rtol=1e-6)


def test_a_gradient_that_fails_beside_one_top_leaves_the_others_alone():
    def holed(raws, q):
        found = hills(raws, q)
        beside = np.abs(raws[1, 0] - TOPS[1, 0]) > 0.015
        near = np.abs(raws[1] - TOPS[1]).max() < 0.05
        found.gradient[1, 0] = np.nan if beside and near else found.gradient[1, 0]
        return found

    found = climb(*start(), holed, quiet())
    assert found.reached.tolist() == [True, False, True]
    assert np.isfinite(found.covariances).all()
    np.testing.assert_allclose(found.covariances[[0, 2]], np.linalg.inv(SHAPES)[[0, 2]], rtol=1e-6)


def test_a_move_to_where_there_is_no_gradient_is_halved():
    def walled(raws, q):
        found = hills(raws, q)
        found.gradient[raws[:, 0] > TOPS[1, 0] + 0.5] = np.nan
        return found

    found = climb(np.array([[0.0, 0.0], [2.4, 0.0], [0.0, 0.0]]), np.zeros((3, 1)), walled, quiet())
    assert (hills(found.raws, None).value > -1e-4).all()  # the tops are at zero


def test_interrupted_climbs_stay_where_they_have_come_to():
    calls = 0

    def tired(raws, q):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise KeyboardInterrupt
        return hills(raws, q)

    found = climb(*start(), tired, quiet())
    assert found.interrupted.all()
    assert not found.reached.any()
    assert (found.best.value > hills(*start()).value).all()
    np.testing.assert_array_equal(found.best.value, hills(found.raws, None).value)


def test_a_start_without_a_gradient_is_refused_by_name():
    def broken(raws, q):
        return hills(raws, q)._replace(value=np.array([1.0, np.nan, 1.0]))

    with pytest.raises(ValueError, match="series 'b': the log posterior .* is nan"):
        climb(*start(), broken, quiet(), ("a", "b", "c"))


def sized(size):
    """The same hills, of which the first number has another size."""

    def fit(raws, q):
        found = hills(raws / [size, 1.0], q)
        return found._replace(gradient=found.gradient / [size, 1.0])

    return fit


@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_a_number_without_bounds_may_have_any_size(size):
    found = climb(*start(), sized(size), quiet(), free=np.array([True, False]))
    assert found.reached.all()
    stretch = np.array([size, 1.0])
    np.testing.assert_allclose(found.raws / stretch, TOPS, atol=1e-3)
    expected = np.linalg.inv(SHAPES) * stretch[:, None] * stretch
    np.testing.assert_allclose(found.covariances, expected, rtol=1e-6)
    # As many standard deviations, given the other number, whatever the size of that.
    widths = 1.0 / np.sqrt(SHAPES[:, 0, 0])
    np.testing.assert_allclose(found.units[:, 0] / widths, WIDTHS * size, rtol=1e-6)


@pytest.mark.parametrize("rise", [1e-6, 1e-5])
def test_a_climb_ends_where_fits_of_the_path_are_not_known_any_better(rise):
    rng = np.random.default_rng(0)

    def noisy(raws, q):
        found = hills(raws, q)
        # A path that is off by a rise has a gradient that is off by about its square root.
        slopes = found.gradient + np.sqrt(rise) * rng.uniform(-1, 1, found.gradient.shape)
        values = found.value + rise * rng.uniform(-1, 1, found.value.shape)
        return found._replace(gradient=slopes, value=values, rise=np.full(3, rise))

    found = climb(*start(), noisy, quiet())
    assert found.reached.all()
    assert (hills(found.raws, None).value > -30 * rise).all()


def test_a_climb_without_a_top_ends_and_says_so():
    def endless(raws, q):
        slopes = np.exp(-raws)
        return Fitted(
            -slopes.sum(axis=1) + raws.sum(axis=1), slopes + 1.0, raws[:, 0], q, np.zeros(len(raws))
        )

    def walled(raws, q):
        found = endless(raws, q)
        return found._replace(value=np.where(np.abs(raws).max(axis=1) < 1e6, found.value, np.nan))

    found = climb(*start(), walled, quiet())
    assert not found.reached.any()


def test_a_climb_that_stands_still_without_being_at_a_top_ends_and_says_so():
    def broken(raws, q):
        found = hills(raws, q)
        return found._replace(gradient=-found.gradient)  # which leads down

    found = climb(*start(), broken, quiet())
    assert not found.reached.any()
