"""The fast smoother: where it ends, and that nothing around it is better."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.words.embedding import chains, likelihood, smoothing
from driftline.words.embedding.likelihood import Moments
from driftline.words.embedding.problem import Problem
from driftline.words.embedding.training import run
from driftline.words.settings import Settings
from support.words import small_counts


def train(counts, passes, dtype=np.float64, precisions=False, **settings):
    problem = Problem(counts, Settings(dim=3, passes=passes, **settings), np.arange(len(counts)), dtype)
    trainer = smoothing.Smoother(problem, precisions=precisions)
    state, history = run(trainer, problem, np.zeros(0, int), None, False, np.inf, False)
    return trainer, state, history


def test_mode_is_a_stationary_point_of_the_log_joint(counts):
    trainer, state, _ = train(counts, (30, 600, 0), drift=0.05)
    slopes = likelihood.gradients(trainer.counts, trainer.moments(state))
    for name, slope in zip(("words", "contexts"), slopes, strict=True):
        total = chains.natural_gradient(trainer.chains, slope) - state[name]
        assert float(jnp.abs(total).max()) < 0.02  # in standard deviations of the prior


def test_levels_are_a_stationary_point_of_the_pooled_log_joint():
    """The likelihood of all counts as those of one step, and the prior of a path that does not move."""
    counts = small_counts(num_steps=2, num_words=6, length=400)
    trainer, state, _ = train(counts, (800, 0, 0), drift=1e-9)
    moments = trainer._levels(state)
    slopes = likelihood.gradients(trainer.pooled, moments)
    for name, slope in zip(("words", "contexts"), slopes, strict=True):
        total = trainer.level_sd * slope - state[name]
        assert float(jnp.abs(total).max()) < 0.02  # in standard deviations of that prior


def test_elbo_rises_in_the_third_phase_and_beats_the_mode(counts):
    _, _, short = train(counts, (30, 200, 1), drift=0.05)
    _, _, history = train(counts, (30, 200, 150), drift=0.05, precisions=True)
    elbos = [entry["objective"] for entry in history if entry["phase"] == "variational"]
    assert elbos[-1] > short[-1]["objective"]
    assert elbos[-1] >= max(elbos) - 1e-3 * abs(max(elbos))
    assert history[-1]["phase"] == "precision"
    assert history[-1]["objective"] == pytest.approx(elbos[-1], abs=0.05)


def test_the_last_phase_leaves_the_means_and_its_second_pass_raises_the_elbo(counts):
    trainer, state, history = train(counts, (30, 200, 0), drift=0.05, precisions=True)
    _, before, _ = train(counts, (30, 200, 0), drift=0.05)
    means = [trainer.moments(state), trainer.moments(before)]
    products = [np.einsum("rk,sk->rs", m.words, m.contexts) for m in means]
    np.testing.assert_allclose(*products, atol=1e-10)
    once = trainer.refresh(trainer._turned(before))
    assert history[-1]["objective"] > trainer.objective(once, "precision")


def test_precisions_are_optimal_for_the_means(counts):
    """Of all precisions of the prior plus a diagonal, those that are found have the largest ELBO."""
    trainer, state, _ = train(counts, (30, 200, 0), drift=0.05)
    state = trainer._turned(state)
    for _ in range(30):
        state = trainer.refresh(state)
    moments = trainer.moments(state)
    h_words, h_contexts = likelihood.curvatures(trainer.counts, moments)

    def elbo(curvature):
        spread = chains.spread(trainer.chains, curvature)
        other = chains.spread(trainer.chains, h_contexts)
        means = Moments(moments.words, moments.contexts, spread.variances, other.variances)
        return likelihood.log_likelihood(trainer.counts, means) - float(spread.divergence)

    best = elbo(h_words)
    for factor in (0.7, 1.4):
        assert elbo(factor * h_words) < best
    noise = jnp.exp(0.5 * jax.random.normal(jax.random.key(0), h_words.shape))
    assert elbo(noise * h_words) < best


def test_no_more_is_held_on_the_way_than_its_passes_need(counts):
    """Covariances of neighbouring steps are of the size of the means, and only the atlas needs them."""
    trainer, state, _ = train(counts, (2, 2, smoothing.REFRESH + 1))
    assert not [name for name in state if "lag" in name]
    assert {"word_variances", "context_variances", "divergence"} <= set(state)


def test_turning_the_space_changes_no_logit(counts):
    trainer, state, _ = train(counts, (20, 20, 0))
    before, after = trainer.moments(state), trainer.moments(trainer._turned(state))
    products = [np.einsum("rk,sk->rs", m.words, m.contexts) for m in (before, after)]
    np.testing.assert_allclose(*products, atol=1e-10)


@pytest.mark.parametrize("passes", [(5, 0, 0), (0, 5, 0), (0, 0, 5), (5, 0, 5), (0, 0, 0)])
def test_any_phase_but_the_precisions_may_be_left_out(counts, passes):
    trainer, state, history = train(counts, passes, dtype=np.float32, precisions=True)
    assert np.isfinite(history[-1]["objective"])
    found = trainer.finish(state)
    assert found["words"].dtype == np.float32
    assert (found["word_variances"] > 0).all()
