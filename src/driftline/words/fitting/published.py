r"""DSG-S as it was published: the structured black box algorithm, with one draw a step.

Every component of every word has its own mean, $\nu$ and $\omega$. A first phase moves random words and
random contexts at all steps, and lets them see only each other, with the likelihood's slopes scaled up; a
second moves all. Means move in the prior's natural coordinates, $\nu$ by a mirror step, all at rates of Adam
(`docs/maths.md`, sections 2 and 3).
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from driftline.families import GaussMarkov
from driftline.infer.bbvi import adam, noise
from driftline.linalg import bidiagonal, tridiagonal
from driftline.words.fitting import chains, likelihood
from driftline.words.fitting.likelihood import Moments
from driftline.words.fitting.problem import Problem
from driftline.words.fitting.verdict import Verdict

PHASES = ("minibatch", "full")
RATES = {"minibatch": 1e-2, "full": 1e-3}
SAMPLE = 1000  # words, and contexts, of a minibatch
NUM_LENGTHS = 32  # to which the rows of a minibatch are padded
SIDES = ("word", "context")


class PublishedSmoother:
    """Trains a `Problem`; its state is a dictionary of arrays.

    Attributes:
        plan: Phase of every step of the optimiser.
        effort: What a step of each phase takes beside the others, about: as many rows as it moves.
        without_elbo: None of the phases: the objective is the ELBO in both.
        look: Steps between two looks at the objective, which costs a little more than one on all words.
    """

    look = 100
    without_elbo = ()

    def __init__(self, problem: Problem):
        self.problem = problem
        self.plan = [
            name for name, many in zip(PHASES, problem.settings.passes, strict=True) for _ in range(many)
        ]
        self.counts = problem.batches()
        self.chains = chains.prior_chains(problem.knots, problem.drift, problem.dtype)
        self.linked = jnp.asarray(problem.knots.linked)[:, None]
        self.num_words = len(problem.counts.vocabulary)
        self.effort = {"minibatch": min(1.0, SAMPLE / self.num_words), "full": 1.0}

    def begin(self) -> dict[str, Any]:
        """Mean zero, and the prior's precision."""
        shape = (len(self.problem.knots), self.problem.dim)
        state = {}
        for side in SIDES:
            state |= {
                f"{side}_natural": jnp.zeros(shape, self.problem.dtype),
                f"{side}_diag": jnp.broadcast_to(self.chains.diag, shape).copy(),
                f"{side}_upper": jnp.broadcast_to(self.chains.upper, (shape[0] - 1, shape[1])).copy(),
            }
        moments = {
            f"{kind}_{name}": jnp.zeros_like(array)
            for name, array in state.items()
            for kind in ("first", "second")
        }
        return state | moments | {f"{side}_count": jnp.zeros((shape[0], 1), jnp.int32) for side in SIDES}

    def phase(self, done: int, history: list[dict[str, Any]]) -> str | None:
        """What comes next; None at the end."""
        return self.plan[done] if done < len(self.plan) else None

    def ahead(self, done: int, history: list[dict[str, Any]]) -> dict[str, float]:
        """How many steps of each phase are to come."""
        return {phase: float(self.plan[done:].count(phase)) for phase in PHASES}

    def is_due(self, done: int) -> bool:
        """Whether it is time to look at the objective: now and then, and at the end of a phase."""
        ends = done == len(self.plan) or self.plan[done] != self.plan[done - 1]
        return ends or done % self.look == 0

    def seen(self, before: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        """What is noted of a step."""
        return {"objective": self.objective(state)}

    def verdict(self, history: list[dict[str, Any]]) -> Verdict:
        """The published algorithm has a number of steps, and no rule that would end it."""
        return Verdict(
            False, f"the published optimiser took its {len(self.plan):,} steps, and has no other end"
        )

    def given(self, state: dict[str, Any]) -> Problem:
        """The problem; nothing of its prior is learnt."""
        return self.problem

    def rows(self, state: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Means of words and of contexts at all knots."""
        means = (chains.from_natural(self.chains, state[f"{side}_natural"]) for side in SIDES)
        words, contexts = (np.asarray(mean) for mean in means)
        return words, contexts

    def advance(self, state: dict[str, Any], phase: str, index: int) -> dict[str, Any]:
        """The state after step number `index` of the optimiser."""
        if index and self.plan[index - 1] != phase:
            stale = ("first_", "second_", "word_count", "context_count")
            state = state | {
                name: jnp.zeros_like(array) for name, array in state.items() if name.startswith(stale)
            }
        key = jr.fold_in(jr.key(self.problem.settings.seed), index)
        noise_key, *keys = jr.split(key, 3)
        if phase == "full" or self.num_words <= SAMPLE:
            priors, links = (self.chains, self.chains), (self.linked, self.linked)
            draws, deviations = _draw(priors, state, noise_key)
            slopes = likelihood.gradients(self.counts, Moments(*draws))
            return _step(priors, links, state, draws, deviations, slopes, RATES[phase])
        rows = self._rows_of([_choose(key, self.num_words) for key in keys])
        priors, links, part = _take(self.chains, self.linked, state, rows)
        draws, deviations = _draw(priors, part, noise_key)
        slopes = self._sampled_slopes(draws, rows)
        return _put(state, rows, _step(priors, links, part, draws, deviations, slopes, RATES[phase]))

    def _rows_of(self, chosen):
        """Rows of the chosen words and of the chosen contexts, padded to one of a few lengths."""
        word = self.problem.knots.word
        rows = [np.flatnonzero(np.isin(word, np.asarray(choice))) for choice in chosen]
        unit = 16 + len(word) // NUM_LENGTHS
        length = max(1, -(-max(map(len, rows)) // unit)) * unit
        pad = [np.pad(found, (0, length - len(found)), constant_values=len(word)) for found in rows]
        return tuple(jnp.asarray(found, jnp.int32) for found in pad)

    def _sampled_slopes(self, draws, rows):
        """Slopes from pairs of chosen words and chosen contexts.

        A chosen word sees only the chosen contexts, so its slope is scaled up by how many it does not see.
        """
        slopes = tuple(jnp.zeros_like(draw) for draw in draws)
        scale = np.asarray(self.num_words / SAMPLE, self.problem.dtype)
        num_rows = len(self.problem.knots)
        local = tuple(_inverse(found, num_rows) for found in rows)
        for batch in self.counts:
            size = batch.rows.shape[1]
            expected = size * SAMPLE / self.num_words
            # Six standard deviations above what is expected, so that none is lost.
            room = int(min(size, np.ceil(expected + 6.0 * np.sqrt(expected) + 6.0)))
            slopes = _collect_sampled(slopes, batch, Moments(*draws), local, scale, room)
        return slopes

    def moments(self, state: dict[str, Any]) -> Moments:
        """Means and variances of all rows."""
        means = [chains.from_natural(self.chains, state[f"{side}_natural"]) for side in SIDES]
        spreads = [_band(state[f"{side}_diag"], state[f"{side}_upper"])[0] for side in SIDES]
        return Moments(*means, *spreads)

    def objective(self, state: dict[str, Any]) -> float:
        """The ELBO in nats."""
        fit = likelihood.log_likelihood(self.counts, self.moments(state))
        return fit - sum(float(_divergence(self.chains, state, side)) for side in SIDES)

    def finish(self, state: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
        """The problem, moments of all rows, and the ELBO."""
        moments = self.moments(state)
        found = {"words": moments.words, "contexts": moments.contexts}
        for side in SIDES:
            variances, lags = _band(state[f"{side}_diag"], state[f"{side}_upper"])
            found |= {
                f"{side}_variances": variances,
                f"{side}_lag_covariances": jnp.pad(lags, ((0, 1), (0, 0))),
            }
        found = {name: np.asarray(value) for name, value in found.items()}
        return self.problem, found | {"elbo": self.objective(state)}


@functools.partial(jax.jit, static_argnames="total")
def _choose(key, total):
    """Which words take part."""
    return jr.permutation(key, total)[:SAMPLE]


@functools.partial(jax.jit, static_argnames="num_rows")
def _inverse(rows, num_rows):
    """Where each row is among those chosen; past their end if it is not."""
    places = jnp.arange(len(rows), dtype=jnp.int32)
    return jnp.full(num_rows, len(rows), jnp.int32).at[rows].set(places, mode="drop")


@jax.jit
def _take(prior, linked, state, rows):
    """The prior, the links and the state of whole chains; rows past the end are chains of their own."""

    def take(array, places, fill):
        return array.at[places].get(mode="fill", fill_value=fill)

    priors, links, part = [], [], {}
    for side, places in zip(SIDES, rows, strict=True):
        ahead = places[:-1]  # the last row of a chain has no link, whichever row follows it here
        priors.append(chains.Chains(take(prior.diag, places, 1), take(prior.upper, ahead, 0)))
        links.append(take(linked, ahead, False))
        for name in _of_side(state, side):
            fill = 1 if name == f"{side}_diag" else 0
            part[name] = take(state[name], ahead if name.endswith("upper") else places, fill)
    return tuple(priors), tuple(links), part


@functools.partial(jax.jit, donate_argnums=0)
def _put(state, rows, part):
    """The state with that of some chains put back."""
    for side, places in zip(SIDES, rows, strict=True):
        for name in _of_side(state, side):
            where = places[:-1] if name.endswith("upper") else places
            state[name] = state[name].at[where].set(part[name], mode="drop")
    return state


def _of_side(state, side):
    return [name for name in state if side in name]


@jax.jit
def _draw(priors, state, key):
    draws, deviations = [], []
    for side, prior, side_key in zip(SIDES, priors, jr.split(key), strict=True):
        natural = state[f"{side}_natural"]
        mean = chains.from_natural(prior, natural)
        q = GaussMarkov(mean, state[f"{side}_diag"], state[f"{side}_upper"])
        deviations.append(q.unwhiten(noise.standard_normal(side_key, mean.shape, mean.dtype)))
        draws.append(mean + deviations[-1])
    return draws, deviations


@functools.partial(jax.jit, donate_argnums=0, static_argnames="room")
def _collect_sampled(slopes, batch, moments, local, scale, room):
    ends = [len(moments.words), len(moments.contexts)]

    def step(slopes, counts):
        size = len(counts.rows)
        here = [
            where.at[counts.place].get(mode="fill", fill_value=end)
            for where, end in zip(local, ends, strict=True)
        ]
        chosen = [
            jnp.nonzero(where < end, size=room, fill_value=size)[0]
            for where, end in zip(here, ends, strict=True)
        ]
        places = [
            where.at[some].get(mode="fill", fill_value=end)
            for where, some, end in zip(here, chosen, ends, strict=True)
        ]
        rows = counts.rows.at[chosen[0]].get(mode="fill", fill_value=0)
        columns = counts.columns.at[chosen[1]].get(mode="fill", fill_value=0)
        positives = _dense_part(counts, chosen)
        some = Moments(
            moments.words.at[places[0]].get(mode="fill", fill_value=0),
            moments.contexts.at[places[1]].get(mode="fill", fill_value=0),
        )
        found = likelihood.tile_gradients(positives, jnp.outer(rows, columns), some)
        return tuple(
            slope.at[place].set(scale * part, mode="drop")
            for slope, place, part in zip(slopes, places, found, strict=True)
        ), None

    return jax.lax.scan(step, slopes, batch)[0]


def _dense_part(counts, chosen):
    """Positive counts of chosen words with chosen contexts, as a matrix; see `likelihood.dense`."""
    room = len(chosen[0])
    slots = [
        jnp.full(len(counts.rows), room, jnp.int32)
        .at[some]
        .set(jnp.arange(room, dtype=jnp.int32), mode="drop")
        for some in chosen
    ]
    first, second = counts.first.astype(jnp.int32), counts.second.astype(jnp.int32)
    part = jnp.zeros((room, room), counts.values.dtype)
    part = part.at[slots[0][first], slots[1][second]].add(counts.values, mode="drop")
    mirrored = jnp.where(first == second, 0, counts.values)
    return part.at[slots[0][second], slots[1][first]].add(mirrored, mode="drop")


def slope_of_elbo(
    prior: chains.Chains, q: GaussMarkov, draw: Array, deviation: Array, slope: Array
) -> GaussMarkov:
    """The paper's estimate of the ELBO's gradient, from one draw, on one side.

    Args:
        prior: The prior.
        q: The member of the family; its mean is not used.
        draw: A draw from it.
        deviation: The draw less the mean.
        slope: Derivative of the log-likelihood at the draws of both sides, by this one.
    """
    factor = jnp.broadcast_to(prior.diag, draw.shape), jnp.broadcast_to(prior.upper, draw[1:].shape)
    score = slope - bidiagonal.matvec_transposed(*factor, bidiagonal.matvec(*factor, draw))
    return jax.tree.map(jnp.add, q.pull_back(deviation, score), q.entropy_gradient())


@functools.partial(jax.jit, donate_argnums=2)
def _step(priors, links, state, draws, deviations, slopes, rate):
    stepped = {}
    for k, side in enumerate(SIDES):
        q = GaussMarkov(draws[k], state[f"{side}_diag"], state[f"{side}_upper"])
        gradient = slope_of_elbo(priors[k], q, draws[k], deviations[k], slopes[k])
        parts = {
            "natural": chains.natural_gradient(priors[k], gradient.mean),
            "diag": gradient.diag,
            "upper": jnp.where(links[k], gradient.upper, 0.0),
        }
        count, steps = state[f"{side}_count"], {}
        for part, slope in parts.items():
            name = f"{side}_{part}"
            # Every chain has its own number of steps so far; there is one link less than rows.
            old = adam.Moments(count[: len(slope)], state[f"first_{name}"], state[f"second_{name}"])
            direction, new = adam.direction(slope, old, floor=adam.PUBLISHED_FLOOR)
            steps[part] = rate * direction
            stepped |= {f"first_{name}": new.first, f"second_{name}": new.second}
        moved = q.moved(GaussMarkov(jnp.zeros_like(draws[k]), steps["diag"], steps["upper"]))
        stepped |= {
            f"{side}_natural": state[f"{side}_natural"] + steps["natural"],
            f"{side}_diag": moved.diag,
            f"{side}_upper": moved.upper,
            f"{side}_count": count + 1,
        }
    return stepped


@jax.jit
def _band(diag, upper):
    return tridiagonal.band_of_inverse(diag, upper)


@functools.partial(jax.jit, static_argnames="side")
def _divergence(prior, state, side):
    """KL divergence of one side from the prior; the trace by conditionals on the next row, as in `chains`."""
    diag, upper = state[f"{side}_diag"], state[f"{side}_upper"]
    variances = tridiagonal.band_of_inverse(diag, upper)[0]
    ratio = prior.diag / diag
    carried = (prior.upper - ratio[:-1] * upper) ** 2 * variances[1:]
    trace = jnp.sum(ratio**2 - 1.0 + jnp.pad(carried, ((0, 1), (0, 0))))
    log_det = jnp.sum(-2.0 * jnp.log(ratio))
    return 0.5 * (trace + log_det + jnp.sum(state[f"{side}_natural"] ** 2))
