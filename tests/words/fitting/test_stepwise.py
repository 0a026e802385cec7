"""Methods that go step by step."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from driftline import DivergenceError, words
from driftline.words.fitting import likelihood, one_step, stepwise
from driftline.words.fitting.problem import FittingProblem
from driftline.words.paths import priors
from driftline.words.settings import WordSettings
from support.words import dense_counts, planted_counts


def train(counts, method, passes, **settings):
    problem = FittingProblem(
        counts,
        WordSettings(method=method, dim=3, passes=(passes,), **settings),
        np.arange(len(counts)),
        np.float64,
    )
    trainer = stepwise.Stepwise(problem)
    state = trainer.begin()
    for index in range(len(counts)):
        state = trainer.advance(state, trainer.phases[index], index)
    return trainer, state


@pytest.mark.parametrize("method", ["sgi", "sgp"])
def test_point_estimates_are_stationary_under_a_prior_without_dynamics(counts, method):
    trainer, state = train(counts, method, 1500, scale=1.0)
    assert np.abs(state.rows.words).max() > 0.1
    knots, total = trainer.problem.knots, 0.0
    for t in range(len(counts)):
        rows = np.flatnonzero(knots.step == t)
        positives, negatives = dense_counts(counts, t, trainer.problem.settings)
        present = knots.word[rows]
        positives, negatives = positives[np.ix_(present, present)], negatives[np.ix_(present, present)]

        def log_joint(both, positives=positives, negatives=negatives):
            logits = both[0] @ both[1].T
            fit = positives * jax.nn.log_sigmoid(logits) + negatives * jax.nn.log_sigmoid(-logits)
            return jnp.sum(fit) - 0.5 * jnp.sum(both**2)

        value, slope = jax.value_and_grad(log_joint)(
            jnp.stack([state.rows.words[rows], state.rows.contexts[rows]])
        )
        assert float(jnp.abs(slope).max()) < 0.05
        total += float(value)
    np.testing.assert_allclose(trainer.objective(state), total, rtol=1e-9)


@pytest.mark.parametrize("prior", ["diffusion", "stationary"])
def test_with_gaussian_data_in_place_of_counts_it_is_the_kalman_filter(counts, prior, monkeypatch):
    noise, passes = 0.5, 2377  # variance; a number of passes that no other test has, so that it compiles anew
    monkeypatch.setattr(one_step, "TOLERANCE", 0.0)
    monkeypatch.setattr(one_step, "ROUNDING", 0.0)
    off = 1e-5  # by which the mode may be missed, in its own standard deviations: it is climbed to

    def observed(batch):
        # Within a few standard deviations of the prior, as vectors of words are: rounds get slower.
        words, contexts = np.array([0.01, -0.02, 0.03]), np.array([0.9, 0.5, -0.7])
        return jnp.outer(batch.rows, words), jnp.outer(batch.columns, contexts)

    def over_tiles(batch, means, part):
        values = observed(batch)
        precision = jnp.where(batch.rows > 0, 1 / noise, 0.0)[:, None]  # none where padded
        if part is likelihood.tile_curvatures:
            return tuple(jnp.broadcast_to(precision, value.shape) for value in values)
        return tuple((value - mean) * precision for value, mean in zip(values, means[:2], strict=True))

    def expected_log_density(batch, moments):
        total, there = 0.0, batch.rows[:, None] > 0
        for value, mean, variance in zip(observed(batch), moments[:2], moments[2:], strict=True):
            squares = ((value - mean) ** 2 + (0.0 if variance is None else variance)) / noise
            total += jnp.sum(jnp.where(there, -0.5 * (squares + np.log(2.0 * np.pi * noise)), 0.0))
        return total

    monkeypatch.setattr(likelihood, "over_tiles", over_tiles)
    monkeypatch.setattr(likelihood, "value", expected_log_density)
    settings = WordSettings(method="dsg-f", dim=3, passes=(passes,), prior=prior, drift=0.02, scale=0.8)
    problem = FittingProblem(counts, settings, np.arange(len(counts)), np.float64)
    trainer = stepwise.Stepwise(problem)
    state, seen = trainer.begin(), np.full((len(counts), 2, len(counts.vocabulary), 3), np.nan)
    evidence = 0.0
    for t in range(len(counts)):
        state, present = trainer.advance(state, trainer.phases[t], t), problem.steps[t].words
        seen[t][:, present] = [values[: len(present)] for values in observed(trainer._batch(t))]
        chain = getattr(priors, prior)(priors.years(problem.dates)[: t + 1], settings.drift, settings.scale)
        before = priors.Drift(*(part[None] for part in chain), np.zeros(1, np.int32))
        first, second = np.meshgrid(np.arange(t + 1), np.arange(t + 1), indexing="ij")
        covariance = before.covariance(0, np.minimum(first, second), np.maximum(first, second))
        precision = np.linalg.inv(covariance)
        for word in present:
            there = ~np.isnan(seen[: t + 1, 0, word, 0])
            exact = np.linalg.inv(precision + np.diag(there / noise))[t]
            for side, name in enumerate(("word", "context")):
                np.testing.assert_allclose(getattr(state.now, f"{name}_variances")[word], exact[t], rtol=1e-9)
                mean = exact @ np.nan_to_num(seen[: t + 1, side, word]) / noise
                found = getattr(state.now, f"{name}s")[word]
                np.testing.assert_allclose(found, mean, atol=off * np.sqrt(exact[t]))
        past = np.append(seen[:t], np.full_like(seen[:1], np.nan), axis=0)
        evidence += log_evidence(seen[: t + 1], covariance, noise) - log_evidence(past, covariance, noise)
    # A mean that is off by so much is so to the next step's residual, in sds; of those this bounds the sum.
    error = off * np.sqrt(np.count_nonzero(~np.isnan(seen)) * -2.0 * evidence)
    np.testing.assert_allclose(trainer.objective(state), evidence, atol=error)


def log_evidence(seen, covariance, noise):
    """Of paths at all steps that are seen where they are not NaN, by dense matrices."""
    total = 0.0
    for path in np.moveaxis(seen, 0, -1).reshape(-1, len(seen)):
        there = ~np.isnan(path)
        if there.any():
            together = covariance[np.ix_(there, there)] + noise * np.eye(there.sum())
            total += stats.multivariate_normal(cov=together).logpdf(path[there])
    return total


def test_sgi_steps_are_turned_to_fit_the_step_before(counts):
    trainer, state = train(counts, "sgi", 50, scale=1.0)
    assert np.abs(state.rows.words).max() > 0.1
    knots = trainer.problem.knots
    first, second = (np.flatnonzero(knots.step == t) for t in (0, 1))
    shared, i, j = np.intersect1d(knots.word[first], knots.word[second], return_indices=True)
    assert len(shared) > 5
    product = state.rows.words[second[j]].T @ state.rows.words[first[i]]
    # No rotation helps any more: the product is symmetric and positive.
    np.testing.assert_allclose(product, product.T, atol=1e-6 * np.abs(product).max())
    assert np.linalg.eigvalsh(0.5 * (product + product.T)).min() > -1e-6


@pytest.fixture
def settled(monkeypatch):
    """Variances of the filter are iterated to the end of their fixed point."""
    monkeypatch.setattr(one_step, "SETTLE", 60)
    jax.clear_caches()  # the number of rounds is compiled in
    yield
    jax.clear_caches()


@pytest.mark.usefixtures("settled")
def test_filter_is_at_the_mode_of_each_step_with_the_variances_that_belong_to_it(counts):
    trainer, state = train(counts, "dsg-f", 600, drift=0.05)
    # One more round at the last step does not move it.
    problem = trainer.problem
    index = len(counts) - 1
    again = trainer.begin()
    for t in range(index):
        again = trainer.advance(again, trainer.phases[t], t)
    again = stepwise.predict(again, trainer.gaps[index], problem.settings)
    present = problem.steps[index].words
    batch = trainer._batch(index)
    prior = trainer._prior(again, present, len(batch.rows))
    rows = problem.places[index]
    size = len(batch.rows)
    here = [
        jnp.asarray(stepwise._padded(getattr(state.rows, name)[rows], size, fill))
        for name, fill in (
            ("words", 0.0),
            ("contexts", 0.0),
            ("word_variances", 1.0),
            ("context_variances", 1.0),
        )
    ]
    moments = likelihood.Embeddings(*here)
    mode = likelihood.Embeddings(moments.words, moments.contexts)
    slopes = likelihood.over_tiles(batch, mode, likelihood.tile_gradients)
    off = (slopes[0] - (moments.words - prior.words) / prior.word_variances) * jnp.sqrt(prior.word_variances)
    assert float(jnp.abs(off[: len(present)]).max()) < 0.05
    stiffness, _ = likelihood.over_tiles(batch, moments, likelihood.tile_curvatures)
    expected = 1.0 / (1.0 / prior.word_variances + stiffness)
    np.testing.assert_allclose(here[2][: len(present)], expected[: len(present)], rtol=1e-6)


def test_words_that_are_absent_follow_the_prediction(counts):
    trainer, state = train(counts, "dsg-f", 20, drift=0.05, prior="diffusion", scale=1.0)
    once = trainer.problem.counts.index("once")
    rows = np.flatnonzero(trainer.problem.knots.word == once)
    assert len(rows) == 1
    mean, variance = state.rows.words[rows[0]], state.rows.word_variances[rows[0]]
    for t in range(trainer.problem.knots.step[rows[0]] + 1, len(counts)):
        widened = variance + trainer.gaps[t]
        variance = 1.0 / (1.0 / widened + 1.0)
        mean = variance / widened * mean
    np.testing.assert_allclose(state.now.words[once], mean, rtol=1e-10)
    np.testing.assert_allclose(state.now.word_variances[once], variance, rtol=1e-10)


def test_published_filter_reaches_about_the_same_place(counts):
    _, fast = train(counts, "dsg-f", 300, drift=0.05)
    trainer, published = train(counts, "dsg-f", 3000, drift=0.05, optimiser="paper")
    knots = trainer.problem.knots
    last = knots.step == knots.step.max()
    # Means may be turned against each other, and one of them is a mode; the widths are about the same.
    widths = [np.sqrt(state.rows.word_variances[last]).mean(1) for state in (fast, published)]
    np.testing.assert_allclose(*widths, rtol=0.15)


@pytest.mark.parametrize(
    ("method", "scale"), [("dsg-f", 1e19), ("sgi", 1e-30), ("sgi", 1e19), ("sgp", 1e-30), ("sgp", 1e20)]
)
@pytest.mark.parametrize("optimiser", ["fast", "paper"])
def test_a_step_that_is_not_finite_is_refused_there(counts, method, scale, optimiser):
    """By date, with the method and the setting that is the likely cause."""
    where = rf"^{method} is not finite at step \d, ({'|'.join(map(str, counts.dates))}): "
    now = re.escape(f"(now {scale})")
    with pytest.raises(DivergenceError, match=rf"{where}.*take a scale= nearer to 0\.3 {now}"):
        words.fit(counts, method, 3, scale=scale, passes=30, optimiser=optimiser, progress=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["dsg-f", "sgp", "sgi"])
def test_steps_end_by_themselves_and_more_passes_gain_next_to_nothing(counts, method, dtype, monkeypatch):
    """Also where a step begins at its top, and single precision makes it seem to fall."""
    settings = WordSettings(method=method, dim=3, drift=0.05, passes=(2003,))
    problem = FittingProblem(counts, settings, np.arange(len(counts)), dtype)
    ended = run(problem)
    assert ended[0].verdict(ended[2]) == (True, "converged")
    monkeypatch.setattr(one_step, "TOLERANCE", -1e9)  # so that no gain is too small
    longer = run(dataclasses.replace(problem, settings=dataclasses.replace(settings, passes=(2004,))))
    gains = [trainer.objective(state) for trainer, state, _ in (ended, longer)]
    assert abs(gains[1] - gains[0]) < 0.02 * len(problem.knots)


def test_passes_that_run_out_are_told(counts):
    topical = planted_counts(num_steps=4)
    problem = FittingProblem(topical, WordSettings(method="sgi", dim=3, passes=(5,)), np.arange(4))
    trainer, _, history = run(problem)
    assert trainer.verdict(history) == (False, "4 of 4 steps reached the limit of 5 passes")
    assert trainer.verdict(history[:2]) == (False, "stopped after 2 of 4 steps")
    paper = FittingProblem(
        counts, WordSettings(method="sgi", optimiser="paper", dim=3), np.arange(len(counts))
    )
    assert not stepwise.Stepwise(paper).verdict([{"open": 0}] * 5).converged


def run(problem):
    trainer = stepwise.Stepwise(problem)
    state, history = trainer.begin(), []
    for index, name in enumerate(trainer.phases):
        state = trainer.advance(state, name, index)
        history.append(trainer.seen(state))
    return trainer, state, history
