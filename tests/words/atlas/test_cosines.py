import numpy as np
from scipy.stats import norm, ortho_group

from driftline.words.atlas.cosines import DRAWS, UncertainVectors, band, cosines
from support.atlases import known_atlas


def dense_cosine(first, second):
    return (first * second).sum(-1) / np.linalg.norm(first, axis=-1) / np.linalg.norm(second, axis=-1)


def assert_is_band(found, cosine, comparisons):
    """Shares of draws below the ends are 5 % and 95 %, within what `DRAWS` draws can tell."""
    limit = norm.isf(1e-6 / comparisons) * np.sqrt(0.05 * 0.95 / DRAWS + 0.05 * 0.95 / len(cosine))
    assert np.abs((cosine < found.lower).mean(0) - 0.05).max() < limit
    assert np.abs((cosine < found.upper).mean(0) - 0.95).max() < limit
    error = cosine.std(0) * np.sqrt(1 / DRAWS + 1 / len(cosine))
    assert (np.abs(cosine.mean(0) - found.mean) < norm.isf(1e-6 / comparisons) * error).all()


def test_cosines_are_cosines():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 7, 3))
    np.testing.assert_allclose(cosines(first, second), dense_cosine(first, second), rtol=1e-12)
    np.testing.assert_allclose(cosines(first[:1], second), dense_cosine(first[:1], second), rtol=1e-12)
    assert np.isnan(cosines(np.zeros((1, 3)), second[:1]))


def test_bands_are_quantiles_of_the_joint_posterior_of_two_steps():
    known = known_atlas(np.ones((5, 4), bool), dim=4, seed=3, noise=3.0)
    first, second = (UncertainVectors(*known.atlas.words.at_step(step)) for step in (0, 3))
    covariance = known.atlas.words.covariance(np.arange(5), 0, 3)
    turn = ortho_group.rvs(4, random_state=1)
    rng = np.random.default_rng(2)
    draws = [known.draws(rng, word, 20_000) for word in range(5)]
    cosine = np.stack([dense_cosine(path[:, 0] @ turn.T, path[:, 3]) for path in draws], 1)
    assert_is_band(band(first, second, covariance, turn), cosine, 30)
    cosine = np.stack([dense_cosine(path[:, 0], path[:, 3]) for path in draws], 1)
    assert_is_band(band(first, second, covariance), cosine, 30)


def test_bands_of_two_words_take_them_as_independent():
    known = known_atlas(np.ones((2, 6), bool), dim=4, seed=4, noise=1.0)
    rng = np.random.default_rng(5)
    a, b = (known.draws(rng, word, 20_000) for word in range(2))
    found = known.atlas.similarity("word0", "word1")
    assert_is_band(found, dense_cosine(a, b), 18)


def test_chunks_do_not_change_a_band(monkeypatch):
    known = known_atlas(np.ones((7, 2), bool))
    sides = [UncertainVectors(*known.atlas.words.at_step(step)) for step in (0, 1)]
    whole = band(*sides)
    monkeypatch.setattr("driftline.words.atlas.cosines.CHUNK", 1)
    for found, expected in zip(band(*sides), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_no_pairs_give_an_empty_band():
    empty = UncertainVectors(np.zeros((0, 3)), np.zeros((0, 3)))
    assert [len(part) for part in band(empty, empty)] == [0, 0, 0]
