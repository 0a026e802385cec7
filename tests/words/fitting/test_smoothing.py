"""The fast smoother: where it ends, and that nothing around it is better."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline import words
from driftline.words.fitting import chains, lbfgs, likelihood, smoothing, step_noise
from driftline.words.fitting import trainer as trainer_module
from driftline.words.fitting.fitted_atlas import tell_dim
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.phase_ends import verdict_of
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.runs import run
from driftline.words.settings import WordSettings
from support.words import planted_counts, small_counts

LIMITS = (2000, 1000)
PHASES = "level", "paths"


@pytest.fixture(scope="module")
def topical():
    """Four steps of twenty words in three topics, of which one word changes."""
    return planted_counts()


def trainer_of(counts, passes=LIMITS, dtype=np.float64, **settings):
    settings = {"dim": 3} | settings
    problem = FittingProblem(counts, WordSettings(passes=passes, **settings), np.arange(len(counts)), dtype)
    return smoothing.Smoother(problem)


def ends_of(trainer):
    """The state at the end of each phase, and what was seen."""
    state, history, ends = trainer.begin(), [], {}
    while (phase := trainer.phase(len(history), history)) is not None:
        state = trainer.advance(state, phase, len(history))
        history.append({"phase": phase.name} | trainer.seen(state))
        ends[phase.name] = state
    return ends, history


@pytest.fixture(scope="module")
def ended(topical):
    """Both phases, climbed further than they usually are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smoothing, "TOLERANCE", 1e-6)
        patch.setattr(trainer_module, "ROUNDING", 0.0)
        trainer = trainer_of(topical)
        return trainer, *ends_of(trainer)


def steps_to_the_top(trainer, state):
    """What a step of Newton would move each mean by, in standard deviations of the posterior."""
    counts, chain = trainer._counts(state), trainer._chain(state)
    moments = trainer.moments(state)
    slopes = likelihood.gradients(counts, moments)
    curvatures = likelihood.curvatures(counts, moments)
    found = []
    for name, slope, h, variance in zip(("words", "contexts"), slopes, curvatures, moments[2:], strict=True):
        natural = chains.natural_gradient(chain, slope) - getattr(state, name)
        step = chains.from_natural(chain, chains.precondition(chain, h, natural))
        found.append(np.asarray(step / jnp.sqrt(variance)).ravel())
    return np.concatenate(found)


@pytest.mark.parametrize("phase", PHASES)
def test_phases_end_where_the_slope_is_zero(ended, phase):
    trainer, ends, _ = ended
    # In standard deviations; precisions are of the beginning of the last round, and so not quite the best.
    assert np.abs(steps_to_the_top(trainer, ends[phase])).max() < 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_usual_tolerance_ends_near_enough(topical, ended, dtype):
    """What is left is little beside what is not known anyway, and of the ELBO less than 0.1 nats a word."""
    trainer = trainer_of(topical, dtype=dtype)
    ends, history = ends_of(trainer)
    assert trainer.verdict(history) == (True, "converged")
    for phase in PHASES:
        assert np.sqrt(np.mean(steps_to_the_top(trainer, ends[phase]) ** 2)) < 0.1
        best = ended[1][phase]
        state = jax.tree.map(lambda x: x.astype(np.float64) if isinstance(x, jax.Array) else x, ends[phase])
        state = state._replace(word_noise=best.word_noise, context_noise=best.context_noise)
        lost = ended[0].objective(best) - ended[0].objective(state)
        assert lost < 0.1 * len(topical.vocabulary)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("seed", range(3))
def test_no_other_means_nearby_have_a_larger_elbo(ended, phase, seed):
    trainer, ends, _ = ended
    state, rng = ends[phase], np.random.default_rng(seed)
    best, chain = trainer.objective(state), trainer._chain(state)
    for size in (0.1, 1.0):
        other = []
        for mean, variance in zip(state.means, (state.word_variances, state.context_variances), strict=True):
            moved = rng.normal(size=mean.shape) * np.sqrt(variance)
            other.append(mean + size * chains.to_natural(chain, jnp.asarray(moved)))
        assert trainer.objective(state.with_means(*other)) < best


@pytest.mark.parametrize("phase", PHASES)
def test_no_other_precisions_have_a_larger_elbo(ended, phase):
    """Of all precisions of the prior plus a diagonal, those that are found have the largest ELBO."""
    trainer, ends, _ = ended
    state = ends[phase]
    for _ in range(30):
        state, _ = trainer._refreshed(state)
    counts, chain = trainer._counts(state), trainer._chain(state)
    moments = trainer.moments(state)
    h_words, h_contexts = likelihood.curvatures(counts, moments)

    def elbo(curvature):
        spread = chains.spread(chain, curvature)
        other = chains.spread(chain, h_contexts)
        means = Embeddings(moments.words, moments.contexts, spread.variances, other.variances)
        return likelihood.log_likelihood(counts, means) - float(spread.divergence)

    best = elbo(h_words)
    for factor in (0.7, 1.4):
        assert elbo(factor * h_words) < best
    random = jnp.exp(0.5 * jax.random.normal(jax.random.key(0), h_words.shape))
    assert elbo(random * h_words) < best


def with_prior(trainer, state, prior):
    """The same means, with the best precisions under another prior."""
    means = trainer.moments(state)
    curvatures = likelihood.curvatures(trainer._counts(state), means)
    state = state._replace(prior=prior)
    chain = trainer._chain(state)
    spreads = [chains.spread(chain, h) for h in curvatures]
    return state._replace(
        words=chains.to_natural(chain, means.words),
        contexts=chains.to_natural(chain, means.contexts),
        word_variances=spreads[0].variances,
        context_variances=spreads[1].variances,
        divergence=sum(float(spread.divergence) for spread in spreads),
    )


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("factor", [0.7, 1.4])
def test_no_other_width_has_a_larger_elbo(ended, phase, factor):
    trainer, ends, _ = ended
    state, prior = ends[phase], ends[phase].prior
    same = with_prior(trainer, state, prior)
    other = with_prior(trainer, state, trainer.learner.with_width(prior, factor * prior.scale))
    best = trainer.objective(same)
    assert best == pytest.approx(trainer.objective(state), abs=0.05)
    assert trainer.objective(other) < best


def test_most_words_have_a_better_elbo_at_their_pace_than_at_another(ended):
    """One word at a time, with its means where they are: but for these, paces are the best."""
    trainer, ends, _ = ended
    state, prior = ends["paths"], ends["paths"].prior
    best = trainer.objective(with_prior(trainer, state, prior))
    for word in (0, 3, 7):
        far = prior.pace.copy()
        far[word] = 0 if prior.pace[word] > 3 else 6
        other = with_prior(trainer, state, prior._replace(pace=far))
        assert trainer.objective(other) < best


def test_the_divergence_is_that_of_dense_gaussians(ended):
    trainer, ends, _ = ended
    state, curvatures = trainer._refreshed(ends["paths"])
    problem, prior = trainer.problem, state.prior
    law, knots, total = problem.given(*prior[:4]).drift, problem.knots, 0.0
    moments = trainer.moments(state)
    for mean, h in zip(moments[:2], curvatures, strict=True):
        for word in range(knots.num_words):
            rows = np.flatnonzero(knots.word == word)
            steps = knots.step[rows]
            words_ = np.full((len(steps), len(steps)), word)
            covariance = law.covariance(
                words_, np.minimum.outer(steps, steps), np.maximum.outer(steps, steps)
            )
            precision = np.linalg.inv(covariance)
            for k in range(mean.shape[1]):
                posterior = np.linalg.inv(precision + np.diag(np.asarray(h)[rows, k]))
                m = np.asarray(mean)[rows, k]
                total += 0.5 * (np.trace(precision @ posterior) - len(rows) + m @ precision @ m)
                total += 0.5 * (np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(posterior)[1])
    shares = np.log(prior.shares[prior.pace]).sum()
    expected = likelihood.log_likelihood(trainer._counts(state), moments) - total + shares
    assert trainer.objective(state) == pytest.approx(expected, rel=1e-9)


def test_the_elbo_rises_from_round_to_round(ended):
    _, _, history = ended
    for phase in PHASES:
        seen = [entry["objective"] for entry in history if entry["phase"] == phase]
        assert len(seen) > 2
        assert (np.diff(seen) > -1e-3).all()
    at = {phase: max(e["objective"] for e in history if e["phase"] == phase) for phase in PHASES}
    # A word has moved, and paths tell of it; their prior costs less than that.
    assert at["paths"] > at["level"]


def test_levels_have_the_elbo_of_paths_that_cannot_move(monkeypatch):
    """With a drift of next to nothing, and no noise, what levels are is what paths are."""
    monkeypatch.setattr(step_noise, "dispersions", lambda *_: jnp.ones((8, 2)))
    counts = planted_counts(num_steps=3, num_words=8, num_topics=2)
    trainer = trainer_of(counts, dim=2, drift=1e-7, scale=0.5)
    ends, _ = ends_of(trainer)
    level, paths = (trainer.moments(ends[phase]) for phase in PHASES)
    rows = trainer.problem.knots.word
    for one, other in ((level, paths),):
        products = [one.words @ one.contexts.T, other.words @ other.contexts.T]
        np.testing.assert_allclose(products[0][np.ix_(rows, rows)], products[1], atol=5e-3)
    elbos = [trainer.objective(ends[phase]) for phase in PHASES]
    assert elbos[0] == pytest.approx(elbos[1], abs=0.2)


def test_two_seeds_end_within_the_tolerance(topical):
    fits = [words.fit(topical, dim=3, seed=seed, progress=False) for seed in (0, 1)]
    assert all(fit.converged for fit in fits)
    assert abs(fits[0].elbo - fits[1].elbo) < 0.02 * len(topical.vocabulary)


def test_a_start_ends_at_the_same_place(topical):
    first = words.fit(topical, dim=3, seed=0, progress=False)
    again = words.fit(topical, dim=3, seed=1, start=first, progress=False)
    assert abs(first.elbo - again.elbo) < 0.02 * len(topical.vocabulary)
    assert len(again.history["done"]) <= len(first.history["done"])
    with pytest.raises(ValueError, match="dim=4, but start= has 3 dimensions"):
        words.fit(topical, dim=4, start=first, progress=False)
    other = dataclasses.replace(first, vocabulary=first.vocabulary[::-1])
    with pytest.raises(ValueError, match="start= must be an atlas of the same vocabulary, with contexts"):
        words.fit(topical, start=other, progress=False)


@pytest.mark.parametrize("num_topics", [4])
def test_a_free_dimension_is_about_the_number_of_topics(num_topics):
    made = words.planted(num_steps=6, num_words=80, num_topics=num_topics, tokens=20_000)
    atlas = words.fit(words.count(made.texts, 80, progress=False), progress=False)
    assert abs(atlas.dim - num_topics) <= 1
    assert atlas.learnt["supported_dim"] <= atlas.dim
    assert atlas.converged
    # What was planted is found, and nothing else.
    found = atlas.changed(1900, 1925)
    assert set(found.words[: found.num_changed]) == set(made.moved)


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ((1, 1), "the level phase reached its limit of 1 passes"),
        ((2000, 1), "the paths phase reached its limit of 1 passes"),
    ],
)
def test_a_limit_of_passes_is_told(topical, passes, message):
    atlas = words.fit(topical, dim=3, passes=passes, progress=False)
    assert atlas.converged is False
    assert atlas.message == message
    assert atlas.caveat.startswith(f"This fit has not converged: {message}.")


def test_a_limit_of_time_is_told(topical):
    atlas = words.fit(topical, dim=3, minutes=1e-9, progress=False)
    assert atlas.converged is False
    assert atlas.message == "stopped after the 1e-09 minutes that were given"
    assert len(atlas.history["done"]) == 1
    assert np.isfinite(atlas.elbo)
    assert atlas.words.mean.shape == (len(atlas.knots), 3)
    whole = words.fit(topical, dim=3, minutes=1e9, progress=False)
    assert whole.converged


def test_a_round_that_falls_is_taken_back_and_the_next_is_more_timid(topical, monkeypatch):
    trainer = trainer_of(topical)
    level = trainer.phases[0]
    state = trainer.advance(trainer.advance(trainer.begin(), level, 0), level, 1)
    climb = lbfgs.climb

    def astray(*arguments, **options):
        found = climb(*arguments, **options)
        return found._replace(place=tuple(10.0 * side for side in found.place), first=options["boldness"])

    monkeypatch.setattr(lbfgs, "climb", astray)
    after = trainer.advance(state, level, 2)
    assert trainer.seen(after)["taken_back"]
    assert after.rounds.boldness == state.rounds.boldness / 4
    assert after.rounds.passes > state.rounds.passes
    logits = [m.words @ m.contexts.T for m in (trainer.moments(state), trainer.moments(after))]
    np.testing.assert_allclose(*logits, atol=1e-9)
    history = []
    while (phase := trainer.phase(len(history), history)) is not None and len(history) < 20:
        state = trainer.advance(state, phase, len(history))
        history.append({"phase": phase.name} | trainer.seen(state))
        if len(history) == 1:
            state = state._replace(moves=False)
    assert not trainer.verdict(history).converged
    assert "given up before its end" in trainer.verdict(history).message
    assert "try another seed= (--seed)" in trainer.verdict(history).message


def history_of(*objectives, dim=3, **changes):
    entry = {"phase": "level", "taken_back": False, "boldness": 1.0, "passes": 20, "dim": dim}
    return [entry | changes | {"objective": objective} for objective in objectives]


def test_a_phase_ends_with_its_second_small_gain(topical):
    trainer = trainer_of(topical)
    level = trainer.phases[0]
    enough = level.enough(-1000.0)
    assert enough == pytest.approx(0.02 * 20)

    def ends(*objectives):
        return verdict_of(level, history_of(*objectives)) is not None

    assert not ends(-1000.0)
    assert not ends(-1000.0, -900.0, -900.0 + 0.5 * enough)  # past a saddle, perhaps
    assert ends(-1000.0, -1000.0 + 5 * enough, -1000.0 + 5.5 * enough)
    assert not ends(-1000.0, -1000.0 + 5 * enough, -1000.0 + 7 * enough)
    back = [*history_of(-1000.0, -1000.0, taken_back=True), *history_of(-1000.0 + 0.5 * enough)]
    assert verdict_of(level, back) is None  # its steps were short
    cut = [*history_of(-1000.0, -999.0, dim=3), *history_of(-998.9, dim=2)]
    assert verdict_of(level, cut) is None
    assert trainer.verdict(history_of(-1000.0)).message == "stopped in the level phase"
    assert trainer.verdict([]).message == "the level phase did not begin"


@pytest.mark.parametrize("seed", [0, 1])
def test_far_too_many_dimensions_end_as_well(seed):
    """Variances of words and contexts, and the width, pull each other back and forth where data are few."""
    made = words.planted(300, 30, 0, num_topics=4, tokens=60, documents=1, gap=1, first_year=1000, seed=seed)
    counts = words.count(made.texts, 30, progress=False)
    with pytest.warns(UserWarning, match="dimensions"):
        atlas = words.fit(counts, dim=60, progress=False)
    assert atlas.converged, atlas.message
    assert sum(atlas.history["taken_back"]) <= 2


def drifting_topics(num_topics=4, own=8, shared=8, num_steps=5, sentences=800):
    """Texts of a sentence each, with words of one topic or of none; how frequent topics are drifts."""
    rng = np.random.default_rng(0)
    trends = rng.normal(0.0, 1.2, num_topics)
    texts = []
    for t in range(num_steps):
        weights = np.exp(trends * np.linspace(-1.0, 1.0, num_steps)[t])
        for topic in rng.choice(num_topics, sentences, p=weights / weights.sum()):
            is_of_none = rng.random(10) < 0.3
            of_none = num_topics * own + rng.integers(shared, size=10)
            numbers = np.where(is_of_none, of_none, topic * own + rng.integers(own, size=10))
            texts.append((f"{1900 + t}-01-01", " ".join(f"w{number}" for number in numbers)))
    return words.count(texts, num_topics * own + shared, progress=False)


def test_a_turn_that_lowers_the_elbo_is_tried_once():
    """Were it tried again and again, steps would get shorter until the phase is given up."""
    atlas = words.fit(drifting_topics(), passes=(2000, 0), progress=False)
    assert atlas.message == "the paths phase reached its limit of 0 passes"  # levels came to their end
    assert sum(atlas.history["taken_back"]) == 1


def test_a_dimension_that_met_its_ceiling_is_told(topical, monkeypatch):
    monkeypatch.setattr("driftline.words.fitting.problem.DIM", 2)
    with pytest.warns(UserWarning, match=r"kept all 2 dimensions, .* dim=4 \(--dim 4\)"):
        atlas = words.fit(topical, progress=False)
    assert atlas.dim == 2
    # A ceiling that is further up, one asked for, and a fit that has not ended; every warning is an error.
    problem = FittingProblem(topical, WordSettings(), np.arange(len(topical)))
    given = dataclasses.replace(atlas, learnt=atlas.learnt | {"free": ["drift", "scale"]})
    tell_dim(dataclasses.replace(problem, settings=WordSettings(dim=2)), given)
    tell_dim(problem, dataclasses.replace(atlas, converged=False))
    monkeypatch.setattr("driftline.words.fitting.problem.DIM", 12)
    tell_dim(problem, atlas)


def test_turning_the_space_changes_no_logit(topical):
    trainer = trainer_of(topical)
    state = trainer.advance(trainer.begin(), trainer.phases[0], 0)
    before, after = trainer.moments(state), trainer.moments(trainer._turned(state))
    products = [np.einsum("rk,sk->rs", m.words, m.contexts) for m in (before, after)]
    np.testing.assert_allclose(*products, atol=1e-10)


def test_without_noise_what_is_stored_is_the_posterior_of_the_elbo(ended, monkeypatch):
    trainer, ends, _ = ended
    state = ends["paths"]
    ones = jnp.ones((trainer.problem.knots.num_words, 3))
    monkeypatch.setattr(step_noise, "dispersions", lambda *_: ones)
    state = state._replace(word_noise=ones, context_noise=ones)
    problem, found = trainer.finish(state)
    refreshed, _ = trainer._refreshed(state)
    moments = trainer.moments(refreshed)
    assert found["elbo"] == pytest.approx(trainer.objective(refreshed), abs=1e-6)
    if np.array_equal(problem.pace, state.prior.pace):
        np.testing.assert_allclose(found["word_variances"], moments.word_variances, rtol=1e-5)
    off = (found["words"] - moments.words) / np.sqrt(moments.word_variances)
    assert np.abs(off).max() < 0.1


def test_counts_are_divided_by_the_noise_of_their_words(ended):
    """By dense matrices: the likelihood of pairs, each with its weight."""
    trainer, ends, _ = ended
    problem, knots = trainer.problem, trainer.problem.knots
    dispersion = 1.0 + np.arange(knots.num_words) / 5.0
    moments = trainer.moments(ends["paths"])
    plain = Embeddings(moments.words, moments.contexts)
    got = likelihood.log_likelihood(step_noise.divided(problem.batches(), knots, dispersion), plain)
    expected = 0.0
    for step, negatives, places in zip(problem.steps, problem.negatives, problem.places, strict=True):
        positives = np.zeros((len(step.words), len(step.words)))
        positives[np.repeat(np.arange(len(step.words)), np.diff(step.indptr)), step.indices] = step.values
        logits = np.asarray(plain.words)[places] @ np.asarray(plain.contexts)[places].T
        weights = np.outer(*(dispersion[step.words] ** -0.5,) * 2)
        terms = positives * np.logaddexp(0, -logits) + np.outer(*negatives) * np.logaddexp(0, logits)
        expected -= (weights * terms).sum()
    assert got == pytest.approx(expected, rel=1e-9)


def test_noise_widens_what_is_stored(topical, monkeypatch):
    """By dense matrices: the precisions of the data are divided by it."""
    trainer = trainer_of(topical, drift=0.01, scale=0.5)
    ends, _ = ends_of(trainer)
    factor = 1.0 + np.arange(20.0 * 3).reshape(20, 3) / 10
    monkeypatch.setattr(step_noise, "dispersions", lambda *_: jnp.asarray(factor))
    ones = jnp.ones((20, 3))
    state = ends["paths"]._replace(word_noise=ones, context_noise=ones)
    problem, found = trainer.finish(state)
    refreshed, curvatures = trainer._refreshed(state)
    moments = trainer.moments(refreshed)
    slopes = likelihood.gradients(trainer.problem.batches(), moments)
    knots, h, mean, slope = trainer.problem.knots, *map(np.asarray, (curvatures[0], moments.words, slopes[0]))
    for word in (0, 11, 19):
        rows = np.flatnonzero(knots.word == word)
        steps = knots.step[rows]
        covariance = problem.drift.covariance(
            np.full((len(steps), len(steps)), word),
            np.minimum.outer(steps, steps),
            np.maximum.outer(steps, steps),
        )
        for k in range(3):
            data = h[rows, k] / factor[word, k]
            posterior = np.linalg.inv(np.linalg.inv(covariance) + np.diag(data))
            np.testing.assert_allclose(found["word_variances"][rows, k], np.diag(posterior), rtol=1e-6)
            value = mean[rows, k] + slope[rows, k] / h[rows, k]
            np.testing.assert_allclose(found["words"][rows, k], posterior @ (data * value), atol=1e-8)
            lags = found["word_lag_covariances"][rows[:-1], k]
            np.testing.assert_allclose(lags, np.diag(posterior, 1), rtol=1e-6)


def test_given_numbers_are_not_learnt(topical):
    atlas = words.fit(topical, dim=3, drift=0.02, scale=0.7, passes=(40, 40), progress=False)
    assert (atlas.settings["drift"], atlas.settings["scale"]) == (0.02, 0.7)
    assert atlas.drift.variance.shape == (1, len(topical))
    assert atlas.learnt["free"] == []
    half = words.fit(topical, dim=3, scale=0.7, passes=(40, 40), progress=False)
    assert half.settings["scale"] == 0.7
    assert half.learnt["free"] == ["drift"]
    assert len(half.drift.variance) > 1


def test_what_no_text_supports_is_told():
    with pytest.warns(UserWarning, match=r"the texts support \d of 8 dimensions; leave dim= out"):
        words.fit(small_counts(), dim=8, passes=(40, 40), progress=False)


def test_single_precision_is_kept(topical):
    trainer = trainer_of(topical, passes=(20, 20), dtype=np.float32)
    state, history = run(trainer, trainer.problem, np.zeros(0, int), progress=False)
    assert np.isfinite(history[-1]["objective"])
    _, found = trainer.finish(state)
    for name, array in found.items():
        if isinstance(array, np.ndarray):
            assert array.dtype == np.float32, name
    assert (found["word_variances"] > 0).all()


def test_near_the_end_numbers_of_the_prior_stay_where_others_lower_the_elbo(topical, monkeypatch):
    trainer = trainer_of(topical)
    ends, history = ends_of(trainer)
    state = ends["paths"]
    best = trainer.learner.paths
    monkeypatch.setattr(
        trainer.learner,
        "paths",
        lambda *given, **options: trainer.learner.with_width(best(*given, **options), 9.0),
    )
    phase = trainer.phase(len(history) - 1, history[:-1])
    near = trainer.advance(state.with_rounds(settled=True), phase, len(history))
    assert not near.rounds.taken_back
    assert near.prior.scale == state.prior.scale
    far = trainer.advance(state.with_rounds(settled=False), phase, len(history))
    assert far.rounds.taken_back or far.prior.scale != state.prior.scale
