"""The prior's numbers, learnt from Gaussian data, against the evidence of dense matrices."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from driftline.words.fitting import prior_numbers
from driftline.words.fitting.prior_numbers import PACES, Data, Learner
from driftline.words.fitting.problem import FittingProblem
from driftline.words.paths import priors
from driftline.words.settings import WordSettings
from support.words import planted_counts

DIM = 3


@pytest.fixture(scope="module")
def problem():
    counts = planted_counts(num_steps=8, num_words=24, tokens=400)
    return FittingProblem(counts, WordSettings(), np.arange(8), np.float64)


def covariance_of(problem, rate, scale):
    """Of a path over all steps, from the definition of the prior."""
    gaps = np.diff(priors.years(problem.dates))
    factor = np.zeros((len(gaps) + 1,) * 2)
    factor[0, 0] = scale
    for t, gap in enumerate(gaps):
        slope = scale**2 / (scale**2 + rate * gap)
        factor[t + 1] = slope * factor[t]
        factor[t + 1, t + 1] = np.sqrt(slope * rate * gap)
    return factor @ factor.T


def unit(problem, scale):
    """Variance in a year at a pace of one."""
    return prior_numbers.LEAST * scale**2 / priors.years(problem.dates)[-1]


def made_up(problem, scale, pace, seed=0, noise=0.02):
    """Paths of words and contexts from the prior, each word at its pace, seen with noise."""
    rng = np.random.default_rng(seed)
    knots = problem.knots
    data = []
    for _ in range(2):
        paths = np.zeros((knots.num_words, 8, DIM))
        for word in range(knots.num_words):
            root = np.linalg.cholesky(covariance_of(problem, unit(problem, scale) * PACES[pace[word]], scale))
            paths[word] = root @ rng.standard_normal((8, DIM))
        precision = rng.uniform(0.5, 2.0, (len(knots), DIM)) / noise**2
        value = paths[knots.word, knots.step] + rng.standard_normal(precision.shape) / np.sqrt(precision)
        data.append(Data(jnp.asarray(precision), jnp.asarray(precision * value)))
    return data


def dense_evidence(problem, data, word, rate, scale):
    """Log density of a word's data under a prior."""
    rows = np.flatnonzero(problem.knots.word == word)
    steps, total = problem.knots.step[rows], 0.0
    covariance = covariance_of(problem, rate, scale)[np.ix_(steps, steps)]
    for part in data:
        h, weighted = (np.asarray(array)[rows] for array in part)
        for k in range(DIM):
            together = covariance + np.diag(1 / h[:, k])
            total += multivariate_normal(cov=together).logpdf(weighted[:, k] / h[:, k])
    return total


PACE = np.arange(24) % 7


def test_each_word_has_the_pace_that_its_evidence_prefers(problem):
    """With the shares of the paces, by EM in plain numbers."""
    data, scale = made_up(problem, 0.5, PACE), 0.5
    prior = Learner(problem).begin()
    prior = Learner(problem).with_width(prior, scale)
    found = Learner(problem).paths(prior, data, width=False)
    table = np.array(
        [
            [dense_evidence(problem, data, word, unit(problem, scale) * pace, scale) for pace in PACES]
            for word in range(24)
        ]
    )
    shares = np.full(7, 1 / 7)
    for _ in range(1000):
        weights = shares * np.exp(table - table.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        shares = (weights.sum(0) + 1) / (24 + 7)
    np.testing.assert_allclose(found.shares, shares, rtol=1e-3)
    np.testing.assert_array_equal(found.pace, (table + np.log(shares)).argmax(1))
    # And that is about the pace at which it was made: one of them is four times the next.
    assert np.abs(found.pace - PACE).mean() < 0.8
    assert found.mean_drift == pytest.approx(np.mean(unit(problem, scale) * np.array(PACES)[found.pace]))
    assert found.log_density == pytest.approx(np.log(found.shares)[found.pace].sum())


@pytest.mark.parametrize("scale", [0.1, 0.8])
def test_the_width_is_that_of_the_largest_evidence(problem, scale):
    data = made_up(problem, scale, PACE, seed=1, noise=0.1 * scale)
    learner = Learner(problem)
    prior = learner.with_width(learner.begin(), 0.3)._replace(pace=PACE.astype(np.int32))
    found = learner.paths(prior, data, paces=False)
    np.testing.assert_array_equal(found.pace, PACE)

    def evidence(width):
        return sum(
            dense_evidence(problem, data, word, unit(problem, width) * PACES[PACE[word]], width)
            for word in range(24)
        )

    best = evidence(found.scale)
    for factor in (0.9, 1.1):
        assert evidence(factor * found.scale) < best
    # Of 144 paths, each of which tells of the width about twice.
    assert found.scale == pytest.approx(scale, rel=0.25)
    assert found.drift == pytest.approx(unit(problem, found.scale))


def test_the_width_of_levels_is_that_of_the_largest_evidence(problem):
    rng = np.random.default_rng(2)
    learner = Learner(problem)
    prior = learner.begin()
    # The sum of a constant path's data, whose prior is that of a path that does not move.
    level = 0.6 * rng.standard_normal((24, DIM))
    precision = rng.uniform(50.0, 200.0, level.shape)
    value = level + rng.standard_normal(level.shape) / np.sqrt(precision)
    data = [Data(jnp.asarray(precision), jnp.asarray(precision * value))]
    found = learner.level(prior, data)

    def evidence(width):
        covariance = covariance_of(problem, unit(problem, width), width)
        constant = 1 / (np.ones(8) @ np.linalg.solve(covariance, np.ones(8)))
        return -0.5 * np.sum(value**2 / (constant + 1 / precision) + np.log(constant + 1 / precision))

    best = evidence(found.scale)
    for factor in (0.9, 1.1):
        assert evidence(factor * found.scale) < best


def test_a_word_without_data_has_the_slowest_pace_and_no_say(problem):
    data = made_up(problem, 0.5, PACE)
    prior = Learner(problem).with_width(Learner(problem).begin(), 0.5)
    # The same words, and one more that never occurs.
    counts = problem.counts
    more = dataclasses.replace(
        counts,
        vocabulary=(*counts.vocabulary, "never"),
        occurrences=np.pad(counts.occurrences, ((0, 0), (0, 1))),
    )
    wider = FittingProblem(more, WordSettings(), np.arange(8), np.float64)
    assert len(wider.knots) == len(problem.knots)
    found = Learner(problem).paths(prior, data, width=False)
    other = Learner(wider).paths(prior._replace(pace=np.zeros(25, np.int32)), data, width=False)
    assert other.pace[24] == 0
    np.testing.assert_array_equal(other.pace[:24], found.pace)
    np.testing.assert_allclose(other.shares, found.shares, rtol=1e-12)


def test_numbers_that_are_given_stay(problem):
    data = made_up(problem, 0.5, PACE)
    given = FittingProblem(problem.counts, WordSettings(drift=0.01, scale=0.4), np.arange(8), np.float64)
    learner = Learner(given)
    prior = learner.begin()
    assert (prior.drift, prior.scale, prior.paces) == (0.01, 0.4, (1.0,))
    for found in (learner.paths(prior, data), learner.level(prior, data)):
        assert found[:3] == prior[:3]
        np.testing.assert_array_equal(found.pace, prior.pace)
    wide = Learner(FittingProblem(problem.counts, WordSettings(drift=0.01), np.arange(8), np.float64))
    found = wide.paths(wide.begin(), data)
    assert found.drift == 0.01
    assert found.scale != prior_numbers.FIRST_WIDTH
    narrow = Learner(FittingProblem(problem.counts, WordSettings(scale=0.4), np.arange(8), np.float64))
    found = narrow.paths(narrow.begin(), data)
    assert found.scale == 0.4
    assert len(np.unique(found.pace)) > 3


def test_the_width_may_be_learnt_from_some_words(problem, monkeypatch):
    """Beyond so many numbers, from every second one, which are about the same."""
    data = made_up(problem, 0.5, PACE, seed=3)
    learner = Learner(problem)
    prior = learner.with_width(learner.begin(), 0.3)._replace(pace=PACE.astype(np.int32))
    whole = learner.paths(prior, data, paces=False).scale
    monkeypatch.setattr(prior_numbers, "ENOUGH", len(problem.knots) * DIM // 2)
    some = learner.paths(prior, data, paces=False).scale
    assert some != whole
    assert some == pytest.approx(whole, rel=0.3)
