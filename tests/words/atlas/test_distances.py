"""Distances with a band that can hold zero, against many draws of a word that may not have moved."""

import numpy as np
import pytest

from driftline.words.atlas.change import Displacements, log_bayes_factors
from driftline.words.atlas.cosines import UncertainVectors, cosines
from driftline.words.atlas.distances import distance_band, moved

PRIORS = np.array([0.01, 0.2, 2.0])
PROBABILITIES = np.array([0.02, 0.049, 0.3, 0.6, 0.94, 0.999, 1.0, 0.0])


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    size = (len(PROBABILITIES), 4)
    found = Displacements(0.4 * rng.standard_normal(size), rng.uniform(0.01, 0.3, size), 1.0)
    centre = UncertainVectors(rng.standard_normal(size), rng.uniform(0.01, 0.1, size))
    displaced = moved(found, log_bayes_factors(found, PRIORS), PRIORS)
    return centre, found, displaced


def drawn(centre, found, word, probability, rng, num=400_000):
    """Distances of one word: zero, or those of a displacement from the posterior at one of the sizes."""
    value, variance = found.value[word], found.variance[word]
    evidence = np.array(
        [
            np.prod(np.exp(-0.5 * value**2 / (variance + prior)) / np.sqrt(variance + prior))
            for prior in PRIORS
        ]
    )
    size = PRIORS[rng.choice(3, num, p=evidence / evidence.sum())][:, None]
    precision = 1 / size + 1 / variance
    apart = value / variance / precision + rng.standard_normal((num, 4)) / np.sqrt(precision)
    middle = centre.mean[word] + rng.standard_normal((num, 4)) * np.sqrt(centre.variance[word])
    distances = 1 - cosines(middle - apart / 2, middle + apart / 2)
    return np.where(rng.random(num) < probability, distances, 0.0)


def test_median_and_quantiles_are_those_of_many_draws(case):
    centre, found, displaced = case
    band = distance_band(centre, displaced, PROBABILITIES)
    rng = np.random.default_rng(1)
    for word, probability in enumerate(PROBABILITIES):
        draws = drawn(centre, found, word, probability, rng)
        for level, got in ((0.5, band.mean), (0.05, band.lower), (0.95, band.upper)):
            # Four thousand draws: the quantile lies within four standard errors of its level.
            within = 4 * np.sqrt(level * (1 - level) / 4000)
            low, high = np.quantile(draws, [max(level - within, 0), min(level + within, 1)])
            assert low - 1e-9 <= got[word] <= high + 1e-9, (word, level)


def test_words_that_have_rather_not_moved_are_at_no_distance(case):
    centre, _, displaced = case
    band = distance_band(centre, displaced, PROBABILITIES)
    surely_not = PROBABILITIES < 0.05
    assert not band.upper[surely_not].any()
    assert not band.mean[PROBABILITIES < 0.5].any()
    assert not band.lower[PROBABILITIES < 0.95].any()
    assert (band.mean[PROBABILITIES > 0.5] > 0).all()
    assert (band.lower[PROBABILITIES > 0.96] > 0).all()


@pytest.mark.parametrize("probability", np.linspace(0, 1, 11))
def test_the_median_lies_in_the_band(case, probability):
    centre, _, displaced = case
    band = distance_band(centre, displaced, np.full(len(PROBABILITIES), probability))
    assert (band.lower <= band.mean).all()
    assert (band.mean <= band.upper).all()


def test_many_words_are_taken_in_parts(case, monkeypatch):
    centre, _, displaced = case
    whole = distance_band(centre, displaced, PROBABILITIES)
    monkeypatch.setattr("driftline.words.atlas.distances.CHUNK", 4000 * 4 * 3)
    for one, other in zip(distance_band(centre, displaced, PROBABILITIES), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    none = distance_band(
        UncertainVectors(*(x[:0] for x in centre)), displaced.rows(slice(0, 0)), PROBABILITIES[:0]
    )
    assert none.mean.shape == none.lower.shape == (0,)
