"""Noise between steps: known over-dispersion is found, and motion is not taken for it."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from driftline.words.fitting import step_noise
from support.atlases import knots_of

WIDTH = 0.5


def data_of(num_words, num_steps, dim, factor, seed=0, motion=0.0, present=None):
    """Pseudo-data whose noise has `factor`, (V, 1) or (V, d), times the variance that is told."""
    rng = np.random.default_rng(seed)
    present = np.ones((num_words, num_steps), bool) if present is None else present
    knots, times = knots_of(present), np.sort(rng.uniform(0.0, 10.0, num_steps))
    precision = rng.uniform(50.0, 200.0, (len(knots), dim))
    level = WIDTH * rng.standard_normal((num_words, dim))
    speed = motion * rng.standard_normal((num_words, dim))
    path = level[knots.word] + speed[knots.word] * times[knots.step][:, None]
    sds = np.sqrt(np.broadcast_to(factor, (num_words, dim))[knots.word] / precision)
    value = path + sds * rng.standard_normal(path.shape)
    mean = path  # the slope at the mean tells where the data are
    slope = precision * (value - mean)
    return knots, times, *(jnp.asarray(array) for array in (mean, slope, precision))


def test_the_dispersion_of_each_word_is_found():
    factor = np.repeat([1.0, 2.0, 5.0, 20.0], 50)[:, None]
    found = np.asarray(step_noise.dispersions(*data_of(200, 40, 3, factor), WIDTH))
    of_words = found.mean(1)
    for value in (2.0, 5.0, 20.0):
        mine = of_words[factor[:, 0] == value]
        # 38 residuals of three components, 0.6 independent ones in each: sds of 17 % a word, 2.5 % for fifty;
        # what is known best counts most, and words draw each other a little.
        assert mine.mean() == pytest.approx(value, rel=0.1)
        assert np.abs(mine / value - 1).max() < 0.7


def test_where_the_model_is_right_there_is_hardly_any():
    found = np.asarray(step_noise.dispersions(*data_of(300, 20, 4, np.ones((300, 1))), WIDTH))
    assert (found >= 1.0).all()
    # Numbers of about 15 degrees of freedom, of which 11 are their own, have an sd of 0.31 around one; those
    # below one are cut off, which leaves a mean of 1 + 0.4 sds.
    assert found.mean() < 1.17


def test_components_differ():
    factor = np.broadcast_to(np.array([1.0, 1.0, 8.0]), (100, 3))
    found = np.asarray(step_noise.dispersions(*data_of(100, 60, 3, factor), WIDTH)).mean(0)
    # Each borrows four degrees of freedom of about 35 from its word, whose dispersion is about 3.3.
    degrees = step_noise.OVERLAP * 58
    for k, value in enumerate((1.0, 1.0, 8.0)):
        expected = (step_noise.BORROWED * 10 / 3 + degrees * value) / (step_noise.BORROWED + degrees)
        assert found[k] == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("motion", [0.1, 3.0])
def test_motion_in_a_straight_line_is_no_noise(motion):
    """Also between steps that are not equally far apart."""
    still, moving = (
        np.asarray(step_noise.dispersions(*data_of(100, 12, 3, np.ones((100, 1)), motion=speed), WIDTH))
        for speed in (0.0, motion)
    )
    np.testing.assert_allclose(moving, still, rtol=1e-6)


def test_residuals_are_those_of_the_line_between_neighbours():
    """One word by plain loops."""
    present = np.zeros((5, 8), bool)
    present[:, [0, 1, 3, 4, 7]] = True
    present[2] = [True, False, True, True, False, True, True, True]
    knots, times, mean, slope, precision = data_of(5, 8, 2, np.full((5, 1), 3.0), present=present)
    inner = np.flatnonzero(knots.linked[:-1] & knots.linked[1:]) + 1
    assert len(inner) == 4 * 3 + 4
    before = (times[knots.step[inner + 1]] - times[knots.step[inner]]) / (
        times[knots.step[inner + 1]] - times[knots.step[inner - 1]]
    )
    found = step_noise._residuals(
        mean,
        slope,
        precision,
        jnp.asarray(inner),
        jnp.asarray(before),
        jnp.asarray(knots.word[inner]),
        width=WIDTH,
        num_words=5,
    )
    h, y = np.asarray(precision), np.asarray(mean + slope / precision)
    for word in range(5):
        rows = np.flatnonzero(knots.word == word)
        sums = np.zeros((3, 2))
        for a, b, c in zip(rows, rows[1:], rows[2:], strict=False):
            t = times[knots.step[[a, b, c]]]
            line = y[a] + (y[c] - y[a]) * (t[1] - t[0]) / (t[2] - t[0])
            share = (t[1] - t[0]) / (t[2] - t[0])
            variance = 1 / h[b] + (1 - share) ** 2 / h[a] + share**2 / h[c]
            weight = WIDTH**2 / (WIDTH**2 + variance)
            sums += np.stack([weight * (y[b] - line) ** 2 / variance, weight, weight**2])
        np.testing.assert_allclose(np.stack([part[word] for part in found]), sums, rtol=1e-9)


@pytest.mark.parametrize("num_steps", [1, 2])
def test_one_or_two_steps_tell_of_no_noise(num_steps):
    arguments = data_of(6, num_steps, 3, np.full((6, 1), 9.0))
    np.testing.assert_array_equal(step_noise.dispersions(*arguments, WIDTH), np.ones((6, 3)))


@pytest.mark.parametrize(("num_steps", "is_measurable"), [(1, False), (2, False), (3, True)])
def test_noise_is_measurable_from_three_steps_of_a_word_on(num_steps, is_measurable):
    # The second word follows the first, and their steps are not to be taken for those of one word.
    assert step_noise.is_measurable(knots_of(np.ones((2, num_steps), bool))) == is_measurable


def test_words_of_two_steps_have_what_all_words_have_in_common():
    present = np.ones((60, 12), bool)
    present[:10, 2:] = False
    found = np.asarray(
        step_noise.dispersions(*data_of(60, 12, 3, np.full((60, 1), 4.0), present=present), WIDTH)
    )
    assert found[:10].mean() == pytest.approx(found[10:].mean(), rel=0.15)
    assert np.ptp(found[:10]) < 1e-9


def test_few_degrees_of_freedom_borrow_from_all_words():
    """As in Smyth (2004): draws whose true variances are inverse-gamma are drawn to their common centre."""
    rng = np.random.default_rng(4)
    prior, degrees, common = 10.0, 4.0, 3.0
    true = common * prior / stats.chi2(prior).rvs(4000, random_state=rng)
    own = true * stats.chi2(degrees).rvs(4000, random_state=rng) / degrees
    # Weights that are all the same, as many as give these degrees of freedom.
    many = degrees / step_noise.OVERLAP
    found = step_noise.moderated(own * many, np.full(4000, many), np.full(4000, many))
    expected = (prior * common + degrees * own) / (prior + degrees)
    assert np.median(np.abs(found / expected - 1)) < 0.15
    assert np.mean((found - true) ** 2) < 0.5 * np.mean((own - true) ** 2)


def test_words_that_do_not_differ_have_one_dispersion():
    rng = np.random.default_rng(5)
    many = 6 / step_noise.OVERLAP
    own = 2.5 * stats.chi2(6).rvs(3000, random_state=rng) / 6
    found = step_noise.moderated(own * many, np.full(3000, many), np.full(3000, many))
    assert np.std(found) < 0.1
    assert np.mean(found) == pytest.approx(2.5, rel=0.1)
    assert (step_noise.moderated(np.ones(2), np.full(2, 9.0), np.full(2, 9.0)) == 1.0).all()
