r"""SGI, SGP and DSG-F: one time step after the other, each with what is known before it.

SGI and SGP are point estimates under the prior $N(0, \sigma_0^2)$, without dynamics; SGI starts every step
from random numbers and is turned to fit the step before, SGP starts from it. DSG-F is the papers' filter: a
Gaussian with independent components at each step, whose prior is the step before, carried forward. Its fast
form takes the mode for the mean and then the optimal variances; the published one climbs the ELBO by draws.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.infer.bbvi import adam
from driftline.words.fitting import likelihood
from driftline.words.fitting.failures import diverged
from driftline.words.fitting.likelihood import Batch, Moments
from driftline.words.fitting.problem import Problem
from driftline.words.fitting.verdict import Verdict
from driftline.words.paths.priors import carry, years
from driftline.words.paths.rotation import common_rotation
from driftline.words.settings import Settings

FAST_RATE, PAPER_RATE = 0.1, 1e-2  # in standard deviations of the prior, and as published
SECOND_DECAY = 0.99
SETTLE = 4  # updates of the filter's variances; each depends a little on the ones before
ROUND = 60  # passes between two looks at the objective
SLOWER = 0.7  # rate of a round, by that of the one before, near the end
TOLERANCE, ROUNDING = 0.02, 2e-7  # of a round's gain: nats a word, and what single precision leaves of it
FIRST_SIZE = 0.1  # of random starts, in standard deviations of the prior


class Stepwise:
    """Trains a `Problem` step by step; its state is a dictionary of arrays.

    The state holds what is known of all words after a step (`now_...`) and the rows of the knots so far.

    Attributes:
        plan: What each part of the work is called: the dates of the steps.
        effort: Nothing, since all are of one kind.
        without_elbo: Parts of the plan whose objective is a log joint density: all but those of a filter.
    """

    def __init__(self, problem: Problem):
        problem = self.problem = problem.given(*problem.settings.numbers)
        self.plan = [str(date) for date in problem.dates]
        self.effort: dict[str, float] = {}
        self.is_filter = problem.settings.method == "dsg-f"
        self.without_elbo = () if self.is_filter else self.plan
        self.gaps = np.append(0.0, problem.settings.numbers[0] * np.diff(years(problem.dates)))
        self.scale = problem.settings.numbers[1]

    def begin(self) -> dict[str, Any]:
        """Nothing known: mean zero and the prior's width."""
        problem = self.problem
        known = (len(problem.counts.vocabulary), problem.dim)
        rows = (len(problem.knots), problem.dim)
        state: dict[str, Any] = {"now_objective": np.zeros(()), "now_open": np.zeros((), np.int64)}
        state |= {f"now_{name}": np.zeros(known, problem.dtype) for name in ("words", "contexts")}
        state |= {name: np.zeros(rows, problem.dtype) for name in ("words", "contexts")}
        if self.is_filter:
            for side in ("word", "context"):
                state[f"now_{side}_variances"] = np.full(known, self.scale**2, problem.dtype)
                state[f"{side}_variances"] = np.zeros(rows, problem.dtype)
        return state

    def phase(self, done: int, history: list[dict[str, Any]]) -> str | None:
        """Date of the step that comes next; None at the end."""
        return self.plan[done] if done < len(self.plan) else None

    def ahead(self, done: int, history: list[dict[str, Any]]) -> dict[str, float]:
        """How many steps are to come."""
        return {"": float(len(self.plan) - done)}

    def is_due(self, done: int) -> bool:
        """The objective is worked out anyway."""
        return True

    def seen(self, before: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        """What is noted of a step: the objective, and how many steps so far have not come to their end."""
        return {"objective": self.objective(state), "open": int(state["now_open"])}

    def verdict(self, history: list[dict[str, Any]]) -> Verdict:
        """Whether all steps came to their end."""
        if len(history) < len(self.plan):
            return Verdict(False, f"stopped after {len(history)} of {len(self.plan)} steps")
        many, limit = history[-1]["open"], self.problem.settings.passes[0]
        if self.problem.settings.optimiser == "paper":
            return Verdict(False, f"the published optimiser took its {limit:,} steps, and has no other end")
        if many:
            return Verdict(False, f"{many} of {len(self.plan)} steps reached the limit of {limit:,} passes")
        return Verdict(True, "converged")

    def advance(self, state: dict[str, Any], phase: str, index: int) -> dict[str, Any]:
        """The state after step number `index`; the arrays of the last state are written over."""
        problem = self.problem
        settings = problem.settings
        present = problem.steps[index].words
        key = jr.fold_in(jr.key(settings.seed), index)
        if self.is_filter and index:
            predict(state, self.gaps[index], settings)
        if len(present):
            batch = self._batch(index)
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
            self._check([*found.values(), objective], index)
            state["now_objective"] = state["now_objective"] + np.float64(objective)
            state["now_open"] = state["now_open"] + np.int64(not ended)
            if settings.method == "sgi" and index:
                _turn(found, state, present, problem.steps[index - 1].words)
            for name, array in found.items():
                state[f"now_{name}"][present] = array
                state[name][problem.places[index]] = array
        return state

    def _check(self, found, index):
        """Refuse what is not finite at once: the steps after it would be lost too."""
        if not all(np.isfinite(array).all() for array in found):
            problem = self.problem
            place = f"at step {problem.training[index]}, {problem.dates[index]}"
            raise diverged(f"{problem.settings.method} is not finite {place}", problem.settings)

    def _batch(self, index):
        """Counts of one step, for rows that are the words present at it."""
        step, negatives = self.problem.steps[index], self.problem.negatives[index]
        places = np.arange(len(step.words))
        (batch,) = likelihood.batches([step], [negatives], [places], len(places), self.problem.dtype)
        return Batch(*(array[0] for array in batch))

    def _prior(self, state, present, size):
        """Means and variances before the step is seen; of words that are not there, those of anything."""
        scale = self.scale**2
        if not self.is_filter:
            zero = jnp.zeros((size, self.problem.dim), self.problem.dtype)
            return Moments(zero, zero, zero + scale, zero + scale)
        names = ("now_words", "now_contexts", "now_word_variances", "now_context_variances")
        return Moments(
            *(
                jnp.asarray(_padded(state[name][present], size, fill))
                for name, fill in zip(names, (0, 0, scale, scale), strict=True)
            )
        )

    def _start(self, state, present, size, key):
        settings, dtype = self.problem.settings, self.problem.dtype
        random = [
            np.array(FIRST_SIZE * self.scale * jr.normal(key, (size, self.problem.dim), dtype))
            for key in jr.split(key)
        ]
        for array, name in zip(random, ("now_words", "now_contexts"), strict=True):
            array[len(present) :] = 0.0
            if settings.method != "sgi":
                known = state[name][present]
                seen = known.any(axis=1)
                array[: len(present)][seen] = known[seen]
                # Words that a filter has never seen start where it expects them once others are known.
                if self.is_filter and seen.any():
                    array[: len(present)][~seen] = known[~seen]
        return random

    def mode(self, state: dict[str, Any], name: str, index: int, words: np.ndarray) -> np.ndarray:
        """Modes of some words, or contexts, after step `index`; point estimates of absent words are zero."""
        found = state[f"now_{name}"][words]
        if not self.is_filter:
            found[~np.isin(words, self.problem.steps[index].words)] = 0.0
        return found

    def objective(self, state: dict[str, Any]) -> float:
        """Sum over the steps so far, each given what was known before, of the ELBO; of points, the log joint.

        Of a filter it estimates the log evidence, but does not bound it: what was known is an approximation.
        """
        return float(state["now_objective"])

    def finish(self, state: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
        """The problem, the rows of the knots, and the objective of a filter."""
        found = {name: array for name, array in state.items() if not name.startswith("now_")}
        return self.problem, found | ({"elbo": self.objective(state)} if self.is_filter else {})


def predict(state: dict[str, Any], gap: float, settings: Settings) -> None:
    """Carry what a filter knows of all words over a gap, in place; `gap` is the variance gained in it."""
    for name, variances in (("now_words", "now_word_variances"), ("now_contexts", "now_context_variances")):
        before = state[name], state[variances]
        state[name], state[variances] = carry(settings.prior, *before, gap, settings.numbers[1])


def _padded(array, size, fill):
    out = np.full((size, *array.shape[1:]), fill, array.dtype)
    out[: len(array)] = array
    return out


def _turn(found, state, present, before):
    """Turn an estimate so that words of both steps lie as near as can be to where they were."""
    shared = np.intersect1d(present, before)
    if not len(shared):
        return
    here = found["words"][np.searchsorted(present, shared)]
    rotation = common_rotation(here, state["now_words"][shared], np.ones(len(shared))).astype(here.dtype)
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
