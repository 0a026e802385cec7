"""All steps together, against sums over the steps with every pair of words."""

import jax.numpy as jnp
import numpy as np
import pytest

from driftline.words.fitting import likelihood, pooling
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.problem import FittingProblem
from driftline.words.settings import WordSettings
from support.words import dense_counts, dense_log_likelihood, small_counts

SETTINGS = {"ratio": 1.5, "exponent": 0.6}


@pytest.fixture
def problem(counts):
    return FittingProblem(counts, WordSettings(dim=3, **SETTINGS), np.arange(len(counts)), np.float64)


def over_vocabulary(matrix, place, size):
    """A padded matrix as one over all words; what is beyond them must be zero."""
    whole = np.zeros((size + 1, size + 1))
    np.add.at(whole, np.ix_(place, place), np.asarray(matrix))
    assert not whole[size].any()
    assert not whole[:, size].any()
    return whole[:size, :size]


def test_both_kinds_of_counts_are_the_sums_over_steps(problem, counts):
    pooled = pooling.pool(problem)
    expected = [sum(each) for each in zip(*dense_of(problem, counts), strict=True)]
    place, size = np.asarray(pooled.place[0]), len(counts.vocabulary)
    for found, wanted in zip((pooled.positives, pooled.sums), expected, strict=True):
        np.testing.assert_allclose(over_vocabulary(found[0], place, size), wanted, rtol=1e-6)
    # Of these steps, which differ, the pooled margins would give other negatives.
    together = expected[0].sum(1) / expected[0].sum()
    powers = together**problem.settings.exponent
    margins = expected[1].sum() * np.outer(together, powers / powers.sum())
    assert np.abs(expected[1] - margins).max() > 0.05 * margins.max()


def dense_of(problem, counts):
    return [dense_counts(counts, t, problem.settings) for t in problem.training]


def test_steps_that_are_held_out_are_left_out(counts):
    problem = FittingProblem(counts, WordSettings(dim=3), np.array([0, 1, 3]), np.float64)
    pooled = pooling.pool(problem)
    expected = sum(positives for positives, _ in dense_of(problem, counts))
    found = over_vocabulary(pooled.positives[0], np.asarray(pooled.place[0]), len(counts.vocabulary))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert counts.index("once") not in np.asarray(pooled.place[0])  # which is at step 2 alone


def levels(num_words, seed, variances):
    rng = np.random.default_rng(seed)
    means = [jnp.asarray(rng.normal(size=(num_words, 3))) for _ in range(2)]
    widths = [jnp.asarray(rng.uniform(0.05, 0.5, (num_words, 3))) for _ in range(2)]
    return Embeddings(*means, *widths) if variances else Embeddings(*means)


def unrolled(problem, level):
    rows = jnp.asarray(problem.knots.word)
    return Embeddings(*(None if part is None else part[rows] for part in level))


@pytest.mark.parametrize("variances", [False, True])
def test_the_likelihood_of_levels_is_that_of_paths_that_do_not_move(problem, counts, variances):
    """With its slopes and curvatures, which are sums over the steps of those of the paths."""
    level = levels(len(counts.vocabulary), 0, variances)
    pooled, batches = [pooling.pool(problem)], problem.batches()
    constant = unrolled(problem, level)
    expected = likelihood.log_likelihood(batches, constant)
    assert likelihood.log_likelihood(pooled, level) == pytest.approx(expected, rel=1e-7)
    if not variances:
        paths = jnp.stack([jnp.broadcast_to(side, (len(counts), *side.shape)) for side in level[:2]])
        dense = dense_log_likelihood(paths, counts, problem.settings)
        assert likelihood.log_likelihood(pooled, level) == pytest.approx(float(dense), rel=1e-7)
    for function in (likelihood.gradients, likelihood.curvatures):
        for found, rows in zip(function(pooled, level), function(batches, constant), strict=True):
            summed = np.zeros(found.shape)
            np.add.at(summed, problem.knots.word, np.asarray(rows))
            np.testing.assert_allclose(found, summed, atol=1e-6 * np.abs(summed).max())


def test_a_start_is_better_than_nothing_and_than_chance():
    counts = small_counts(num_words=40, length=2000)
    problem = FittingProblem(counts, WordSettings(dim=4), np.arange(len(counts)), np.float64)
    pooled, size = pooling.pool(problem), len(counts.vocabulary)

    def log_joint(moments):
        prior = sum(float(jnp.sum(side**2)) for side in moments[:2]) / 0.3**2
        return likelihood.log_likelihood([pooled], moments) - 0.5 * prior

    found = pooling.start(pooled, size, 4, 0.3, seed=0)
    nothing = Embeddings(*(jnp.zeros((size, 4)) for _ in range(2)))
    chance = Embeddings(*(0.3 * side for side in levels(size, 1, False)[:2]))
    chance = Embeddings(*(jnp.pad(side, ((0, 0), (0, 1))) for side in chance[:2]))
    assert log_joint(found) > log_joint(nothing) > log_joint(chance)
    again, other = (pooling.start(pooled, size, 4, 0.3, seed=seed) for seed in (0, 1))
    np.testing.assert_array_equal(again.words, found.words)
    assert not np.array_equal(other.words, found.words)
