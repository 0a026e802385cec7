import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline.words.paths import priors
from driftline.words.paths.long_steps import forward
from driftline.words.paths.paths import Paths
from support.atlases import DRIFT, SCALE, dense_prior, knots_of, known_atlas, some_dates

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@st.composite
def presences(draw):
    """Where three words are present, with at least one knot in all."""
    num_steps = draw(st.sampled_from([1, 2, 3, 8]))
    present = np.array(draw(st.lists(st.booleans(), min_size=3 * num_steps, max_size=3 * num_steps)))
    present[draw(st.integers(0, len(present) - 1))] = True
    return present.reshape(3, num_steps)


@given(presences())
@settings(deadline=None, max_examples=60)
def test_smoothed_paths_are_the_posterior_at_every_step(present):
    known = known_atlas(present)
    paths, variances = known.atlas.words, np.einsum("vktt->vtk", known.covariance)
    for step in range(present.shape[1]):
        mean, variance = paths.at_step(step)
        np.testing.assert_allclose(mean, known.mean[:, step], **CLOSE)
        np.testing.assert_allclose(variance, variances[:, step], **CLOSE)
    for word in range(len(present)):
        mean, variance = paths.of_word(word)
        np.testing.assert_allclose(mean, known.mean[word], **CLOSE)
        np.testing.assert_allclose(variance, variances[word], **CLOSE)


@given(presences())
@settings(deadline=None, max_examples=60)
def test_covariances_of_two_steps_are_those_of_the_dense_posterior(present):
    known = known_atlas(present)
    for first, second in itertools.product(range(present.shape[1]), repeat=2):
        found = known.atlas.words.covariance(np.arange(3), first, second)
        np.testing.assert_allclose(found, known.covariance[:, :, first, second], **CLOSE)


def test_some_words_may_be_asked_for_in_any_order():
    known = known_atlas(np.eye(4, 6, dtype=bool) | (np.arange(6) == 5))
    words = np.array([2, 0])
    np.testing.assert_allclose(known.atlas.words.at_step(3, words)[0], known.mean[words, 3], **CLOSE)
    found = known.atlas.words.covariance(words, 1, 4)
    np.testing.assert_allclose(found, known.covariance[words, :, 1, 4], **CLOSE)


def test_single_precision_keeps_six_digits_over_many_knots():
    known = known_atlas(np.random.default_rng(1).random((4, 60)) < 0.7)
    wide = known.atlas.words
    assert wide.variance is not None
    assert wide.lag_covariance is not None
    narrow = Paths(
        wide.knots,
        wide.drift,
        *(array.astype(np.float32) for array in (wide.mean, wide.variance, wide.lag_covariance)),
    )
    np.testing.assert_allclose(
        narrow.covariance(np.arange(4), 2, 55), known.covariance[:, :, 2, 55], rtol=1e-4
    )
    assert narrow.at_step(7)[0].dtype == np.float64


def filtered(present, prior, seed=0):
    rng = np.random.default_rng(seed)
    dates, knots = some_dates(present.shape[1]), knots_of(present)
    mean, variance = rng.standard_normal((len(knots), 2)), rng.uniform(0.01, 0.5, (len(knots), 2))
    law = priors.make(prior, dates, DRIFT, SCALE, pace=np.zeros(len(present), np.int32))
    ahead = forward(prior, dates, DRIFT, SCALE)
    return Paths(knots, law, mean, variance, between="filtered", forward=ahead), dates


def one_word_filtered(paths, prior, dates, word, component):
    """The papers' prediction, or that of an autoregression, with plain numbers."""
    gaps = [0.0, *(np.diff(dates).astype(float) / 365.25)]
    mean, variance, result = 0.0, SCALE**2, []
    for t, gap in enumerate(gaps):
        if t and prior == "diffusion":
            wide = variance + DRIFT * gap
            variance = 1 / (1 / wide + 1 / SCALE**2)
            mean = variance / wide * mean
        elif t:
            noise = 1 / (1 / (DRIFT * gap) + 1 / SCALE**2)
            slope = noise / (DRIFT * gap)
            mean, variance = slope * mean, slope**2 * variance + noise
        for row in np.flatnonzero((paths.knots.word == word) & (paths.knots.step == t)):
            mean, variance = paths.mean[row, component], paths.variance[row, component]
        result.append((mean, variance))
    return np.array(result).T


@given(presences(), st.sampled_from(["diffusion", "stationary"]))
@settings(deadline=None, max_examples=100)
def test_filtered_paths_follow_the_prediction(present, prior):
    paths, dates = filtered(present, prior)
    expected = np.array([[one_word_filtered(paths, prior, dates, i, k) for k in range(2)] for i in range(3)])
    for step in range(len(dates)):
        for found, wanted in zip(paths.at_step(step), expected.transpose(2, 3, 0, 1)[:, step], strict=True):
            np.testing.assert_allclose(found, wanted, **CLOSE)
    for word in range(3):
        for found, wanted in zip(paths.of_word(word), expected[word].transpose(1, 2, 0), strict=True):
            np.testing.assert_allclose(found, wanted, **CLOSE)


@pytest.mark.parametrize("prior", ["diffusion", "stationary"])
def test_a_filter_may_travel_thousands_of_steps(prior):
    dates = np.datetime64("1000-01-01", "D") + np.arange(0, 4000 * 3650, 3650).astype("timedelta64[D]")
    present = np.zeros((1, 4000), bool)
    present[0, 0] = True
    knots = knots_of(present)
    law = priors.make(prior, dates, 1.0, 1.0, pace=np.zeros(1, np.int32))
    ahead = forward(prior, dates, 1.0, 1.0)
    paths = Paths(knots, law, np.ones((1, 1)), np.ones((1, 1)), between="filtered", forward=ahead)
    mean, variance = paths.at_step(3999)
    assert mean == 0.0
    np.testing.assert_allclose(variance, paths.of_word(0)[1][-1:], rtol=1e-12)  # pyright: ignore


def test_independent_paths_are_zero_where_a_word_is_absent():
    present = np.array([[True, False, True], [False, False, False]])
    knots = knots_of(present)
    law = priors.make("diffusion", some_dates(3), DRIFT, SCALE, pace=np.zeros(2, np.int32))
    paths = Paths(knots, law, np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), between="independent")
    expected = np.array([[[1, 2], [0, 0], [3, 4]], np.zeros((3, 2))])
    for step in range(3):
        mean, variance = paths.at_step(step)
        np.testing.assert_array_equal(mean, expected[:, step])
        assert variance is None
    np.testing.assert_array_equal(paths.of_word(0)[0], expected[0])
    with pytest.raises(ValueError, match="not known for independent paths"):
        paths.covariance(np.array([0]), 0, 1)


def test_independent_paths_have_variances_where_they_are_known():
    knots = knots_of(np.array([[True, False, True], [False, False, False]]))
    law = priors.make("diffusion", some_dates(3), DRIFT, SCALE, pace=np.zeros(2, np.int32))
    paths = Paths(knots, law, np.ones((2, 1)), np.array([[2.0], [3.0]]), between="independent")
    np.testing.assert_array_equal(paths.of_word(0)[1], [[2], [np.nan], [3]])
    np.testing.assert_array_equal(np.array([paths.at_step(t)[1][0] for t in range(3)]), paths.of_word(0)[1])
    assert np.isnan([paths.at_step(t)[1][1] for t in range(3)]).all()
    assert not paths.is_joint


def test_point_estimates_may_be_smoothed():
    known = known_atlas(np.array([[True, False, True]]))
    paths = Paths(known.atlas.knots, known.atlas.drift, known.atlas.words.mean)
    mean, variance = paths.at_step(1)
    prior = dense_prior(known.atlas.dates)
    ends = [0, 2]
    weights = prior[1, ends] @ np.linalg.inv(prior[np.ix_(ends, ends)])
    np.testing.assert_allclose(mean, (weights @ paths.mean)[None], **CLOSE)
    assert variance is None
    assert not paths.is_joint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"between": "guessed"}, "between='guessed'; choose one of smoothed"),
        ({"variance": np.ones((1, 3))}, r"variance has shape \(1, 3\); \(2, 3\) is needed"),
        ({"lag_covariance": None}, "variances and lag covariances, or neither"),
        ({"between": "filtered", "lag_covariance": None}, "filtered paths need variances and"),
        ({"between": "independent"}, "leave the lag covariances away"),
    ],
)
def test_parts_that_do_not_go_together_are_refused(change, message):
    paths = known_atlas(np.array([[True, False, True]])).atlas.words
    fields = {name: getattr(paths, name) for name in paths.__dataclass_fields__}
    with pytest.raises(ValueError, match=message):
        Paths(**(fields | change))
