"""The published optimiser against the engine's generic algorithm."""

import jax
import jax.numpy as jnp
import numpy as np

import driftline as dl
from driftline.families import GaussMarkov
from driftline.infer.gradient import estimate
from driftline.words.atlas.drift import years
from driftline.words.embedding import likelihood, published
from driftline.words.embedding.likelihood import Moments
from driftline.words.embedding.problem import Problem
from driftline.words.settings import Settings
from support.words import dense_log_likelihood, small_counts


def test_gradient_is_that_of_generic_black_box_inference():
    counts = small_counts(num_steps=4, num_words=4, length=80)
    settings = Settings(dim=2, drift=0.3, scale=1.0, prior="diffusion", optimiser="paper")
    problem = Problem(counts, settings, np.arange(4), np.float64)
    present = problem.knots
    assert len(present) < 4 * 4  # one word has gaps
    everywhere = [word for word in range(4) if (present.word == word).sum() == 4]
    assert len(everywhere) == 3
    trainer = published.PublishedSmoother(problem)
    rng = np.random.default_rng(0)
    shape = (4, 2, 4, 2)  # steps, sides, words, components
    mean, noise = rng.normal(size=shape), rng.normal(size=shape)
    diag, upper = rng.uniform(1.0, 2.0, shape), rng.normal(size=(3, *shape[1:]))
    # Where a word is not there, the generic chain is cut and stands alone, as if it were not there.
    gaps = np.diff(years(counts.dates))
    prior = dl.Diffusion(0.3, 1.0, shape=shape[1:])
    q = GaussMarkov(*(jnp.asarray(array) for array in (mean, diag, upper)))

    def log_joint(path):
        fit = dense_log_likelihood(jnp.moveaxis(path, 1, 0), counts, settings)
        return prior.log_prob(path, jnp.asarray(gaps)) + fit

    generic = estimate(q, log_joint, jnp.asarray(noise)[:, None]).gradient
    deviation = np.asarray(q.unwhiten(jnp.asarray(noise)))
    draws = mean + deviation

    def rows(array, side):
        return jnp.asarray(array[present.step, side, present.word])

    moments = Moments(rows(draws, 0), rows(draws, 1))
    slopes = likelihood.gradients(trainer.counts, moments)
    for side in range(2):
        ours = published.slope_of_elbo(
            trainer.chains,
            GaussMarkov(
                rows(mean, side),
                rows(diag, side),
                jnp.asarray(
                    upper[np.minimum(present.step, 2), side, present.word][:-1]
                    * problem.knots.linked[:, None]
                ),
            ),
            rows(draws, side),
            rows(deviation, side),
            slopes[side],
        )
        for word in everywhere:
            mine = np.flatnonzero(present.word == word)
            for part in ("mean", "diag"):
                expected = np.asarray(getattr(generic, part))[:, side, word]
                np.testing.assert_allclose(
                    np.asarray(getattr(ours, part))[mine], expected, rtol=1e-9, atol=1e-9
                )
            expected = np.asarray(generic.upper)[:, side, word]
            np.testing.assert_allclose(np.asarray(ours.upper)[mine[:-1]], expected, rtol=1e-9, atol=1e-9)


def test_minibatches_are_right_on_average(monkeypatch):
    counts = small_counts(num_steps=3, num_words=10)
    problem = Problem(counts, Settings(dim=2, optimiser="paper"), np.arange(3), np.float64)
    trainer = published.PublishedSmoother(problem)
    rng = np.random.default_rng(0)
    draws = [jnp.asarray(rng.normal(size=(len(problem.knots), 2))) for _ in range(2)]
    whole = likelihood.gradients(trainer.counts, Moments(*draws))
    total, num_words = [np.zeros_like(slope) for slope in whole], len(counts.vocabulary)
    # Every word with every context once: sums over all minibatches of one word and one context.
    monkeypatch.setattr(published, "SAMPLE", 1)
    for word in range(num_words):
        for context in range(num_words):
            chosen = [jnp.asarray(problem.knots.word == choice) for choice in (word, context)]
            for sum_, slope in zip(total, trainer._sampled_slopes(draws, chosen), strict=True):
                sum_ += np.asarray(slope) / num_words
    for found, expected in zip(total, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_steps_raise_the_elbo(counts):
    problem = Problem(
        counts,
        Settings(dim=2, drift=0.1, scale=1.0, prior="diffusion", optimiser="paper", passes=(0, 400)),
        np.arange(len(counts)),
    )
    trainer = published.PublishedSmoother(problem)
    state = trainer.begin()
    before = trainer.objective(state, "full")
    assert float(jnp.sum(jnp.abs(state["word_natural"]))) == 0.0
    for index in range(400):
        state = trainer.advance(state, index)
    assert trainer.objective(state, "full") > before + 1.0
    assert all(np.isfinite(np.asarray(array)).all() for array in jax.tree.leaves(state))
