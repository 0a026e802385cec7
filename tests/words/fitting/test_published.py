"""The published optimiser against the engine's generic algorithm."""

import jax
import jax.numpy as jnp
import numpy as np

import driftline as dl
from driftline.families import GaussMarkov
from driftline.infer.bbvi.gradient import estimate
from driftline.words.fitting import likelihood, published
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.problem import FittingProblem
from driftline.words.paths.priors import years
from driftline.words.settings import WordSettings
from support.words import dense_log_likelihood, small_counts


def test_gradient_is_that_of_generic_black_box_inference():
    counts = small_counts(num_steps=4, num_words=4, length=80)
    settings = WordSettings(dim=2, drift=0.3, scale=1.0, prior="diffusion", optimiser="paper")
    problem = FittingProblem(counts, settings, np.arange(4), np.float64)
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

    moments = Embeddings(rows(draws, 0), rows(draws, 1))
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
    trainer = _trainer(num_words=10)
    draws = _numbers(trainer, seed=0)
    whole = likelihood.gradients(trainer.counts, Embeddings(*draws))
    total, num_words = [np.zeros_like(slope) for slope in whole], trainer.num_words
    # Every word with every context once: sums over all minibatches of one word and one context.
    monkeypatch.setattr(published, "SAMPLE", 1)
    for word in range(num_words):
        for context in range(num_words):
            rows = trainer._rows_of([[word], [context]])
            some = [
                draw.at[found].get(mode="fill", fill_value=0) for draw, found in zip(draws, rows, strict=True)
            ]
            for sum_, found, slope in zip(total, rows, trainer._sampled_slopes(some, rows), strict=True):
                inside = np.asarray(found) < len(sum_)
                sum_[np.asarray(found)[inside]] += np.asarray(slope)[inside] / num_words
    for found, expected in zip(total, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_minibatch_moves_its_own_words_as_if_there_were_no_others():
    trainer = _trainer(num_words=10)
    before = _halfway(trainer)
    word = trainer.problem.knots.word
    chosen = [[1, 4, 7], [0, 4, 9]]
    rows = trainer._rows_of(chosen)
    slopes = _numbers(trainer, seed=1)
    priors, links = (trainer.chains, trainer.chains), (trainer.linked, trainer.linked)
    deviations = _numbers(trainer, seed=2)
    draws = _numbers(trainer, seed=3)

    def of(arrays):
        return tuple(
            x.at[found].get(mode="fill", fill_value=0) for x, found in zip(arrays, rows, strict=True)
        )

    whole = published._step(priors, links, _copy(before), draws, deviations, slopes, 0.01)
    parts = published._take(trainer.chains, trainer.linked, before, rows)
    moved = published._step(*parts, of(draws), of(deviations), of(slopes), 0.01)
    after = published._put(_copy(before), rows, moved)
    before, after, whole = (state.to_arrays() for state in (before, after, whole))
    for name in before:
        side = 0 if "word" in name else 1
        mine = np.isin(word, chosen[side])[: len(before[name])]
        np.testing.assert_allclose(after[name][mine], whole[name][mine], rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(after[name][~mine], before[name][~mine])
        assert not np.array_equal(after[name][mine], before[name][mine])


def test_a_step_of_the_first_phase_moves_a_share_of_the_words(monkeypatch):
    monkeypatch.setattr(published, "SAMPLE", 3)
    trainer = _trainer(num_words=10)
    before = trainer.begin()
    after = trainer.advance(_copy(before), trainer.phases[0], 0)
    for side, old in zip(after, before, strict=True):
        moved = np.any(side.now.natural != old.now.natural, axis=1)
        assert len(np.unique(trainer.problem.knots.word[moved])) == 3
        np.testing.assert_array_equal(side.count[:, 0], moved)


def _trainer(num_words):
    counts = small_counts(num_steps=3, num_words=num_words)
    settings = WordSettings(dim=2, optimiser="paper")
    return published.PublishedSmoother(FittingProblem(counts, settings, np.arange(3), np.float64))


def _numbers(trainer, seed):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=(len(trainer.problem.knots), 2))) for _ in range(2))


def _halfway(trainer):
    """A state that no two chains have in common, in which each has taken its own number of steps."""
    rng = np.random.default_rng(5)
    state = trainer.begin().to_arrays()
    for name, array in state.items():
        if name.endswith("count"):
            state[name] = jnp.asarray(rng.integers(1, 20, array.shape), array.dtype)
        else:
            state[name] = array + jnp.asarray(rng.uniform(0.1, 0.2, array.shape))
        if name.endswith("upper"):
            state[name] = jnp.where(trainer.linked, state[name], 0.0)
    return published.PublishedState.from_arrays(state)


def _copy(state):
    return jax.tree.map(jnp.copy, state)


def test_steps_raise_the_elbo(counts):
    problem = FittingProblem(
        counts,
        WordSettings(dim=2, drift=0.1, scale=1.0, prior="diffusion", optimiser="paper", passes=(0, 400)),
        np.arange(len(counts)),
    )
    trainer = published.PublishedSmoother(problem)
    state = trainer.begin()
    before = trainer.objective(state)
    assert float(jnp.sum(jnp.abs(state.word.now.natural))) == 0.0
    for index in range(400):
        state = trainer.advance(state, trainer.phases[1], index)
    assert trainer.objective(state) > before + 1.0
    assert all(np.isfinite(np.asarray(array)).all() for array in jax.tree.leaves(state))
