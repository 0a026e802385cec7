"""The likelihood over present words against one over the whole vocabulary, pair by pair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.words.fitting import likelihood
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.problem import FittingProblem
from driftline.words.settings import WordSettings
from support.words import dense_log_likelihood


def spread_out(problem, rows):
    """Rows of the knots as whole paths (T, V, d), with numbers that must not matter elsewhere."""
    whole = np.full((len(problem.training), len(problem.counts.vocabulary), rows.shape[1]), 0.7)
    whole[problem.knots.step, problem.knots.word] = rows
    return whole


def make(counts, dtype, dim=3, **settings):
    problem = FittingProblem(counts, WordSettings(dim=dim, **settings), np.arange(len(counts)), dtype)
    rng = np.random.default_rng(1)
    rows = [rng.normal(size=(len(problem.knots), dim)).astype(dtype) for _ in range(2)]
    return problem, rows


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("tile", [4, 384])
def test_present_words_alone_give_the_whole_likelihood_and_gradient(counts, dtype, limit, tile, monkeypatch):
    monkeypatch.setattr(likelihood, "TILE", tile)
    jax.clear_caches()
    settings = {"ratio": 1.5, "exponent": 0.6}
    problem, rows = make(counts, dtype, **settings)
    batches = problem.batches()
    paths = jnp.asarray(np.stack([spread_out(problem, side.astype(float)) for side in rows]))
    expected, slopes = jax.value_and_grad(dense_log_likelihood)(paths, counts, problem.settings)
    moments = Embeddings(*(jnp.asarray(side) for side in rows))
    found = likelihood.log_likelihood(batches, moments)
    assert abs(found - expected) <= limit * abs(expected)
    knots = problem.knots
    for side, slope in enumerate(likelihood.gradients(batches, moments)):
        whole = np.asarray(slopes[side])
        np.testing.assert_allclose(slope, whole[knots.step, knots.word], atol=limit * np.abs(whole).max())
        whole = whole.copy()
        whole[knots.step, knots.word] = 0.0
        assert not whole.any()  # what is not there does not matter


def test_curvature_is_the_diagonal_of_the_hessian(counts):
    problem, rows = make(counts, np.float64, dim=2)
    paths = jnp.asarray(np.stack([spread_out(problem, side) for side in rows]))
    hessian = jax.hessian(dense_log_likelihood)(paths, counts, problem.settings)
    diagonal = -np.diagonal(np.asarray(hessian).reshape(paths.size, -1)).reshape(paths.shape)
    found = likelihood.curvatures(problem.batches(), Embeddings(*(jnp.asarray(side) for side in rows)))
    for side in range(2):
        expected = diagonal[side][problem.knots.step, problem.knots.word]
        np.testing.assert_allclose(found[side], expected, rtol=1e-10, atol=1e-10)


def test_expectations_over_uncertain_embeddings_agree_with_draws(counts):
    problem, rows = make(counts, np.float64, dim=20)
    rng = np.random.default_rng(2)
    means = [0.3 * side for side in rows]
    variances = [rng.uniform(0.02, 0.1, side.shape) for side in rows]
    batches = problem.batches()
    moments = Embeddings(*(jnp.asarray(array) for array in (*means, *variances)))
    values, slopes = [], []
    for _ in range(200):
        draws = (rng.normal(mean, np.sqrt(variance)) for mean, variance in zip(means, variances, strict=True))
        draw = Embeddings(*(jnp.asarray(array) for array in draws))
        values.append(likelihood.log_likelihood(batches, draw))
        slopes.append([np.asarray(slope) for slope in likelihood.gradients(batches, draw)])
    values, slopes = np.array(values), np.array(slopes)
    error = values.std() / np.sqrt(len(values))
    # Five standard errors, and a thousandth for logits that are not quite normal.
    assert abs(likelihood.log_likelihood(batches, moments) - values.mean()) < 5 * error + 1e-3 * abs(
        values.mean()
    )
    found = np.array(likelihood.gradients(batches, moments))
    errors = slopes.std(0) / np.sqrt(len(slopes))
    off = np.abs(found - slopes.mean(0)) / (errors + 0.01 * np.abs(slopes.mean(0)).max())
    assert off.max() < 5.5  # of some 1,500 numbers, one false alarm in ten thousand runs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_and_certain_logits_have_finite_expectations(dtype):
    mean, variance = np.meshgrid([0.0, 1.0, 30.0, -30.0, 100.0, -100.0], [0.0, 1.0, 400.0])
    found = likelihood._expected_softplus(jnp.asarray(mean, dtype), jnp.asarray(variance, dtype))
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    points = mean + nodes[:, None, None] * np.sqrt(variance)
    expected = np.tensordot(weights / weights.sum(), np.logaddexp(0.0, points), 1)
    rounding = 10 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=rounding)


def test_sizes_on_the_ladder_are_few_and_not_much_too_large():
    sizes = np.arange(1, 20_000)
    padded = np.array([likelihood.padded_size(int(size)) for size in sizes])
    assert (padded >= sizes).all()
    assert len(np.unique(padded)) < 60
    large = sizes > 500
    assert (padded[large] / sizes[large]).max() < 1.25
