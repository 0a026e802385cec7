r"""SGI, SGP and DSG-F: one time step after the other, each with what is known before it.

SGI and SGP are point estimates under the prior $N(0, \sigma_0^2)$, without dynamics; SGI starts every step
from random numbers and is turned to fit the step before, SGP starts from it. DSG-F is the papers' filter: a
Gaussian with independent components at each step, whose prior is the step before, carried forward. Its fast
form takes the mode for the mean and then the optimal variances; the published one climbs the ELBO by draws.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from driftline.infer.bbvi import adam
from driftline.words.fitting import likelihood
from driftline.words.fitting.failures import diverged
from driftline.words.fitting.held_out import scores_ahead
from driftline.words.fitting.likelihood import Batch, Moments
from driftline.words.fitting.problem import Problem
from driftline.words.fitting.trainer import ROUNDING, Entry, Phase, Verdict
from driftline.words.paths.priors import carry, years
from driftline.words.paths.rotation import common_rotation
from driftline.words.settings import Settings

FAST_RATE, PAPER_RATE = 0.1, 1e-2  # in standard deviations of the prior, and as published
SECOND_DECAY = 0.99
SETTLE = 4  # updates of the filter's variances; each depends a little on the ones before
ROUND = 60  # passes between two looks at the objective
SLOWER = 0.7  # rate of a round, by that of the one before, near the end
TOLERANCE = 0.02  # of a round's gain: nats a word
FIRST_SIZE = 0.1  # of random starts, in standard deviations of the prior


class StepwiseState(NamedTuple):
    """The state of a fit that goes step by step; its arrays are written over from step to step.

    Attributes:
        now: What is known of all words after the last step, (V, d) each; point estimates have no variances.
        rows: The same at the knots so far, (R, d) each.
        objective: Sum over the steps so far.
        open: How many of these have not come to their end.
    """

    now: Moments
    rows: Moments
    objective: float = 0.0
    open: int = 0

    def to_arrays(self) -> dict[str, Any]:
        """See `trainer.State`."""
        found = {"now_objective": self.objective, "now_open": self.open}
        for prefix, moments in (("now_", self.now), ("", self.rows)):
            named = moments._asdict().items()
            found |= {f"{prefix}{name}": array for name, array in named if array is not None}
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """See `trainer.State`."""
        now, rows = (
            Moments(**{name: arrays[prefix + name] for name in Moments._fields if prefix + name in arrays})
            for prefix in ("now_", "")
        )
        return cls(now, rows, float(arrays["now_objective"]), int(arrays["now_open"]))


class Stepwise:
    """Trains a `Problem` step by step.

    Attributes:
        phases: One for each step, called by its date. A filter climbs an ELBO, the others a log joint.
    """

    state_type = StepwiseState

    def __init__(self, problem: Problem):
        problem = self.problem = problem.given(*problem.settings.numbers)
        self.is_filter = problem.settings.method == "dsg-f"
        tolerance = TOLERANCE if problem.settings.optimiser == "fast" else None
        self.phases = tuple(
            Phase(
                str(date),
                "ELBO" if self.is_filter else "log joint",
                problem.settings.passes[0],
                None if tolerance is None else tolerance * len(step.words),
            )
            for date, step in zip(problem.dates, problem.steps, strict=True)
        )
        self.gaps = np.append(0.0, problem.settings.numbers[0] * np.diff(years(problem.dates)))
        self.scale = problem.settings.numbers[1]

    def begin(self) -> StepwiseState:
        """Nothing known: mean zero and the prior's width."""
        problem = self.problem
        known = (len(problem.counts.vocabulary), problem.dim)
        rows = (len(problem.knots), problem.dim)

        def both(shape, value):
            return [np.full(shape, value, problem.dtype) for _ in range(2)]

        widths = [both(known, self.scale**2), both(rows, 0.0)] if self.is_filter else [[], []]
        return StepwiseState(
            Moments(*both(known, 0.0), *widths[0]),  # pyright: ignore[reportArgumentType]
            Moments(*both(rows, 0.0), *widths[1]),  # pyright: ignore[reportArgumentType]
        )

    def phase(self, done: int, history: list[Entry]) -> Phase | None:
        """The step that comes next; None at the end."""
        return self.phases[done] if done < len(self.phases) else None

    def ahead(self, done: int, history: list[Entry]) -> dict[str, float]:
        """How many steps are to come."""
        return {"": float(len(self.phases) - done)}

    def is_due(self, done: int) -> bool:
        """The objective is worked out anyway."""
        return True

    def seen(self, state: StepwiseState) -> Entry:
        """What is noted of a step: the objective, and how many steps so far have not come to their end."""
        return {"objective": self.objective(state), "open": state.open}

    def score(
        self, held_out: np.ndarray, state: StepwiseState, done: int, history: list[Entry]
    ) -> float | None:
        """Mean score of the held-out steps that come before the next one, each predicted from its past."""
        first, last = self.problem.training[[0, done - 1]]
        before = int(np.count_nonzero((held_out > first) & (held_out < last)))
        mean = history[-1]["score"] if history else None

        def mode(name, words):
            return self.mode(state, name, done - 1, words)

        # From the mean before, which a checkpoint keeps to the last bit.
        found = scores_ahead(self.problem, held_out, done - 1, mode)
        for many, score in enumerate(found, before + 1):
            mean = score if mean is None else mean + (score - mean) / many
        return mean

    def verdict(self, history: list[Entry]) -> Verdict:
        """Whether all steps came to their end."""
        planned = len(self.phases)
        if len(history) < planned:
            return Verdict(False, f"stopped after {len(history)} of {planned} steps")
        many, limit = history[-1]["open"], self.problem.settings.passes[0]
        if self.problem.settings.optimiser == "paper":
            return Verdict(False, f"the published optimiser took its {limit:,} steps, and has no other end")
        if many:
            return Verdict(False, f"{many} of {planned} steps reached the limit of {limit:,} passes")
        return Verdict(True, "converged")

    def advance(self, state: StepwiseState, phase: Phase, done: int) -> StepwiseState:
        """The state after the next step; the arrays of the last state are written over."""
        settings = self.problem.settings
        present = self.problem.steps[done].words
        key = jr.fold_in(jr.key(settings.seed), done)
        if self.is_filter and done:
            state = predict(state, self.gaps[done], settings)
        if not len(present):
            return state
        batch = self._batch(done)
        prior = self._prior(state, present, len(batch.rows))
        start = self._start(state, present, len(batch.rows), key)
        fitted, objective, ended = _fit(
            batch,
            prior,
            start,
            key,
            passes=settings.passes[0],
            is_filter=self.is_filter,
            published=settings.optimiser == "paper",
        )
        found = {
            name: np.asarray(array)[: len(present)]
            for name, array in fitted._asdict().items()
            if array is not None
        }
        self._check([*found.values(), objective], done)
        if settings.method == "sgi" and done:
            _turn(found, state, present, self.problem.steps[done - 1].words)
        for name, array in found.items():
            getattr(state.now, name)[present] = array
            getattr(state.rows, name)[self.problem.places[done]] = array
        return state._replace(objective=state.objective + float(objective), open=state.open + int(not ended))

    def _check(self, found: Sequence[Any], index: int) -> None:
        """Refuse what is not finite at once: the steps after it would be lost too."""
        if not all(np.isfinite(array).all() for array in found):
            problem = self.problem
            place = f"at step {problem.training[index]}, {problem.dates[index]}"
            raise diverged(f"{problem.settings.method} is not finite {place}", problem.settings)

    def _batch(self, index: int) -> Batch:
        """Counts of one step, for rows that are the words present at it."""
        step, negatives = self.problem.steps[index], self.problem.negatives[index]
        places = np.arange(len(step.words))
        (batch,) = likelihood.batches([step], [negatives], [places], len(places), self.problem.dtype)
        return Batch(*(array[0] for array in batch))

    def _prior(self, state: StepwiseState, present: np.ndarray, size: int) -> Moments:
        """Means and variances before the step is seen; of words that are not there, those of anything."""
        scale = self.scale**2
        if not self.is_filter:
            zero = jnp.zeros((size, self.problem.dim), self.problem.dtype)
            return Moments(zero, zero, zero + scale, zero + scale)
        return Moments(
            *(
                jnp.asarray(_padded(np.asarray(array)[present], size, fill))
                for array, fill in zip(state.now, (0, 0, scale, scale), strict=True)
            )
        )

    def _start(self, state: StepwiseState, present: np.ndarray, size: int, key: Array) -> list[np.ndarray]:
        settings, dtype = self.problem.settings, self.problem.dtype
        random = [
            np.array(FIRST_SIZE * self.scale * jr.normal(key, (size, self.problem.dim), dtype))
            for key in jr.split(key)
        ]
        for array, everyone in zip(random, state.now[:2], strict=True):
            array[len(present) :] = 0.0
            if settings.method != "sgi":
                known = everyone[present]
                seen = known.any(axis=1)
                array[: len(present)][seen] = known[seen]
                # Words that a filter has never seen start where it expects them once others are known.
                if self.is_filter and seen.any():
                    array[: len(present)][~seen] = known[~seen]
        return random

    def mode(self, state: StepwiseState, name: str, index: int, words: np.ndarray) -> np.ndarray:
        """Modes of some words, or contexts, after step `index`; point estimates of absent words are zero."""
        found = getattr(state.now, name)[words]
        if not self.is_filter:
            found[~np.isin(words, self.problem.steps[index].words)] = 0.0
        return found

    def objective(self, state: StepwiseState) -> float:
        """Sum over the steps so far, each given what was known before, of the ELBO; of points, the log joint.

        Of a filter it estimates the log evidence, but does not bound it: what was known is an approximation.
        """
        return state.objective

    def finish(self, state: StepwiseState) -> tuple[Problem, dict[str, Any]]:
        """The problem, the rows of the knots, and the objective of a filter."""
        found: dict[str, Any] = {
            name: array for name, array in state.rows._asdict().items() if array is not None
        }
        return self.problem, found | ({"elbo": self.objective(state)} if self.is_filter else {})


def predict(state: StepwiseState, gap: float, settings: Settings) -> StepwiseState:
    """What a filter knows of all words, carried over a gap; `gap` is the variance gained in it."""
    words, contexts, of_words, of_contexts = state.now
    sides = (words, of_words), (contexts, of_contexts)
    after = [carry(settings.prior, *side, gap, settings.numbers[1]) for side in sides]  # pyright: ignore[reportArgumentType]
    return state._replace(now=Moments(after[0][0], after[1][0], after[0][1], after[1][1]))  # pyright: ignore[reportArgumentType]


def _padded(array: np.ndarray, size: int, fill: float) -> np.ndarray:
    out = np.full((size, *array.shape[1:]), fill, array.dtype)
    out[: len(array)] = array
    return out


def _turn(
    found: dict[str, np.ndarray], state: StepwiseState, present: np.ndarray, before: np.ndarray
) -> None:
    """Turn an estimate so that words of both steps lie as near as can be to where they were."""
    shared = np.intersect1d(present, before)
    if not len(shared):
        return
    here = found["words"][np.searchsorted(present, shared)]
    rotation = common_rotation(here, np.asarray(state.now.words)[shared], np.ones(len(shared))).astype(
        here.dtype
    )
    for name in ("words", "contexts"):
        found[name] = found[name] @ rotation.T


@functools.partial(jax.jit, static_argnames=("passes", "is_filter", "published"))
def _fit(batch, prior, start, key, passes, is_filter, published):
    """What is known after a step, the objective of that step, and whether it has come to its end."""
    if published and is_filter:
        found, ended = _published_filter(batch, prior, start, key, passes), False
    else:
        means = Moments(*(jnp.asarray(array) for array in start))
        if published:
            found, ended = _climb(batch, prior, means, passes, (PAPER_RATE, PAPER_RATE)), False
        else:
            found, ended = _climb_to_the_end(batch, prior, means, passes)
        for _ in range(SETTLE if is_filter else 0):
            found = _refreshed(batch, prior, found)
    return found, likelihood.value(batch, found) - _divergence(found, prior), ended


def _climb_to_the_end(batch, prior, means, passes):
    """Rounds of Adam, slower and slower, until one gains next to nothing or passes run out."""
    enough = TOLERANCE * jnp.sum(batch.rows > 0, dtype=batch.rows.dtype)

    def value(means):
        return likelihood.value(batch, means) - _divergence(means, prior)

    def least(value):
        return jnp.maximum(enough, ROUNDING * jnp.abs(value))

    def goes_on(carried):
        _, last, gain, _, gone = carried
        return (gone == 0) | ((gain >= least(last)) & (gone * ROUND < passes))

    def again(carried):
        means, last, before, rate, gone = carried
        length = jnp.clip(passes - gone * ROUND, 0, ROUND)
        ahead = _climb(batch, prior, means, length, (rate, 0.1 * rate))
        reached = value(ahead)
        better = reached > last
        means = jax.tree.map(lambda new, old: jnp.where(better, new, old), ahead, means)
        # A round that fell was too fast, which is no end; by rounding it may seem to have fallen.
        fell = reached < last - ROUNDING * jnp.abs(last)
        gain = jnp.where(fell, jnp.inf, jnp.maximum(reached - last, 0.0))
        # While rounds gain about as much as the ones before, there is a way to go: no reason to slow down.
        slower = jnp.where(fell | (gain < 0.5 * before), SLOWER * rate, rate)
        return means, jnp.maximum(reached, last), gain, slower, gone + 1

    first = value(means)
    begin = (means, first, jnp.full_like(first, jnp.inf), jnp.full_like(first, FAST_RATE), jnp.asarray(0))
    means, last, gain, _, _ = jax.lax.while_loop(goes_on, again, begin)
    return means, gain < least(last)


def _divergence(found, prior):
    """KL divergence from the prior; of points, minus its log density but for constants."""
    twice = 0.0
    for side in ("word", "context"):
        mean, centre = (getattr(moments, f"{side}s") for moments in (found, prior))
        variance, wide = (getattr(moments, f"{side}_variances") for moments in (found, prior))
        twice += jnp.sum((mean - centre) ** 2 / wide)
        if variance is not None:
            twice += jnp.sum(variance / wide - 1.0 - jnp.log(variance / wide))
    return 0.5 * twice


def _climb(batch, prior, means, passes, rates):
    """Adam to the mode, in standard deviations of the prior; its rate goes to the last in the second half."""
    first_rate, last_rate = rates
    sds = jnp.sqrt(prior.word_variances), jnp.sqrt(prior.context_variances)
    centres = prior.words, prior.contexts

    def one(i, carried):
        means, moments = carried
        slopes = likelihood.over_tiles(batch, means, likelihood.tile_gradients)
        places = means.words, means.contexts
        slopes = tuple(
            sd * slope - (place - centre) / sd
            for sd, slope, place, centre in zip(sds, slopes, places, centres, strict=True)
        )
        direction, moments = adam.direction(slopes, moments, SECOND_DECAY)
        gone = jnp.maximum(0.0, 2.0 * i / passes - 1.0)
        now = jnp.asarray(first_rate + (last_rate - first_rate) * gone, means.words.dtype)
        words, contexts = (
            place + now * sd * step for place, sd, step in zip(places, sds, direction, strict=True)
        )
        return means._replace(words=words, contexts=contexts), moments

    moments = adam.begin((means.words, means.contexts))
    return jax.lax.fori_loop(0, passes, one, (means, moments))[0]


def _refreshed(batch, prior, means):
    """Optimal variances for the means, in one step of the fixed-point iteration."""
    words, contexts = likelihood.over_tiles(batch, means, likelihood.tile_curvatures)
    return means._replace(
        word_variances=1.0 / (1.0 / prior.word_variances + words),
        context_variances=1.0 / (1.0 / prior.context_variances + contexts),
    )


def _published_filter(batch, prior, start, key, passes):
    """Reparameterised gradients from one draw, for means and logarithms of standard deviations."""
    sds = jnp.sqrt(prior.word_variances), jnp.sqrt(prior.context_variances)
    centres = prior.words, prior.contexts
    logs = tuple(jnp.log(sd) for sd in sds)
    parameters = (tuple(jnp.asarray(array) for array in start), logs)

    def one(i, carried):
        (means, logs), moments = carried
        noise = [
            jr.normal(k, sd.shape, sd.dtype) for k, sd in zip(jr.split(jr.fold_in(key, i)), sds, strict=True)
        ]
        widths = [jnp.exp(log) for log in logs]
        draws = [mean + width * e for mean, width, e in zip(means, widths, noise, strict=True)]
        slopes = likelihood.over_tiles(batch, Moments(*draws), likelihood.tile_gradients)
        of_means = tuple(
            slope - (mean - centre) / sd**2
            for slope, mean, centre, sd in zip(slopes, means, centres, sds, strict=True)
        )
        of_logs = tuple(
            slope * e * width + 1.0 - (width / sd) ** 2
            for slope, e, width, sd in zip(slopes, noise, widths, sds, strict=True)
        )
        direction, moments = adam.direction(
            (of_means, of_logs), moments, SECOND_DECAY, floor=adam.PUBLISHED_FLOOR
        )
        return jax.tree.map(lambda x, step: x + PAPER_RATE * step, (means, logs), direction), moments

    (means, logs), _ = jax.lax.fori_loop(0, passes, one, (parameters, adam.begin(parameters)))
    return Moments(*means, *(jnp.exp(2.0 * log) for log in logs))
