r"""DSG-S as it was published: the structured black box algorithm, with one draw a step.

Every component of every word has its own mean, $\nu$ and $\omega$. A first phase moves random words and
random contexts at all steps, and lets them see only each other, with the likelihood's slopes scaled up; a
second moves all. Means move in the prior's natural coordinates, $\nu$ by a mirror step, all at rates of Adam
(`docs/maths.md`, sections 2 and 3).
"""

import functools
from collections.abc import Sequence
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
from driftline.words.fitting.held_out import interpolated_scores
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.published_state import Parameters, PublishedState, Side
from driftline.words.fitting.trainer import Entry, Phase, Verdict

MINIBATCH, FULL = "minibatch", "full"
RATES = {MINIBATCH: 1e-2, FULL: 1e-3}
SAMPLE = 1000  # words, and contexts, of a minibatch
NUM_LENGTHS = 32  # to which the rows of a minibatch are padded


class PublishedSmoother:
    """Trains a `FittingProblem` by as many steps as it is told to.

    Attributes:
        phases: Random words, and all words; both climb the ELBO. A step takes as long as it moves rows.
        plan: Phase of every step of the optimiser.
        look: Steps between two looks at the objective, which costs a little more than one on all words.
    """

    state_type = PublishedState
    look = 100

    def __init__(self, problem: FittingProblem):
        self.problem = problem
        self.counts = problem.batches()
        self.chains = chains.prior_chains(problem.knots, problem.drift, problem.dtype)
        self.linked = jnp.asarray(problem.knots.linked)[:, None]
        self.num_words = len(problem.counts.vocabulary)
        efforts = min(1.0, SAMPLE / self.num_words), 1.0
        self.phases = tuple(
            Phase(name, "ELBO", limit, effort=effort)
            for name, limit, effort in zip((MINIBATCH, FULL), problem.settings.passes, efforts, strict=True)
        )
        self.plan = [phase for phase in self.phases for _ in range(phase.limit)]

    def begin(self) -> PublishedState:
        """Mean zero, and the prior's precision."""
        shape = (len(self.problem.knots), self.problem.dim)
        sides = []
        for _ in PublishedState._fields:
            now = Parameters(
                jnp.zeros(shape, self.problem.dtype),
                jnp.broadcast_to(self.chains.diag, shape).copy(),
                jnp.broadcast_to(self.chains.upper, (shape[0] - 1, shape[1])).copy(),
            )
            first, second = (jax.tree.map(jnp.zeros_like, now) for _ in range(2))
            sides.append(Side(now, first, second, jnp.zeros((shape[0], 1), jnp.int32)))
        return PublishedState(*sides)

    def phase(self, done: int, history: list[Entry]) -> Phase | None:
        """See `Trainer`."""
        return self.plan[done] if done < len(self.plan) else None

    def ahead(self, done: int, history: list[Entry]) -> dict[str, float]:
        """How many steps of each phase are to come."""
        return {phase.name: float(self.plan[done:].count(phase)) for phase in self.phases}

    def is_due(self, done: int) -> bool:
        """Whether it is time to look at the objective: now and then, and at the end of a phase."""
        ends = done == len(self.plan) or self.plan[done] != self.plan[done - 1]
        return ends or done % self.look == 0

    def seen(self, state: PublishedState) -> Entry:
        """See `Trainer`."""
        return {"objective": self.objective(state)}

    def score(
        self, held_out: np.ndarray, state: PublishedState, done: int, history: list[Entry]
    ) -> float | None:
        """Mean score of the held-out steps, predicted from both sides."""
        if not len(held_out):
            return None
        return float(interpolated_scores(self.given(state), held_out, *self.rows(state)).mean())

    def verdict(self, history: list[Entry]) -> Verdict:
        """The published algorithm has a number of steps, and no rule that would end it."""
        return Verdict(
            False, f"the published optimiser took its {len(self.plan):,} steps, and has no other end"
        )

    def given(self, state: PublishedState) -> FittingProblem:
        """The problem; nothing of its prior is learnt."""
        return self.problem

    def rows(self, state: PublishedState) -> tuple[np.ndarray, np.ndarray]:
        """Means of words and of contexts at all knots."""
        means = (chains.from_natural(self.chains, side.now.natural) for side in state)
        words, contexts = (np.asarray(mean) for mean in means)
        return words, contexts

    def advance(self, state: PublishedState, phase: Phase, done: int) -> PublishedState:
        """The state after another step of the optimiser; arrays of the last state are used up."""
        if done and self.plan[done - 1] != phase:
            state = PublishedState(*(_begun_again(side) for side in state))
        key = jr.fold_in(jr.key(self.problem.settings.seed), done)
        noise_key, *keys = jr.split(key, 3)
        rate = RATES[phase.name]
        if phase.name == FULL or self.num_words <= SAMPLE:
            priors, links = (self.chains, self.chains), (self.linked, self.linked)
            draws, deviations = _draw(priors, state, noise_key)
            slopes = likelihood.gradients(self.counts, Embeddings(*draws))
            return _step(priors, links, state, draws, deviations, slopes, rate)
        rows = self._rows_of([_choose(key, self.num_words) for key in keys])
        priors, links, part = _take(self.chains, self.linked, state, rows)
        draws, deviations = _draw(priors, part, noise_key)
        slopes = self._sampled_slopes(draws, rows)
        return _put(state, rows, _step(priors, links, part, draws, deviations, slopes, rate))

    def _rows_of(self, chosen: Sequence[Array]) -> tuple[Array, ...]:
        """Rows of the chosen words and of the chosen contexts, padded to one of a few lengths."""
        word = self.problem.knots.word
        rows = [np.flatnonzero(np.isin(word, np.asarray(choice))) for choice in chosen]
        unit = 16 + len(word) // NUM_LENGTHS
        length = max(1, -(-max(map(len, rows)) // unit)) * unit
        pad = [np.pad(found, (0, length - len(found)), constant_values=len(word)) for found in rows]
        return tuple(jnp.asarray(found, jnp.int32) for found in pad)

    def _sampled_slopes(self, draws: Sequence[Array], rows: Sequence[Array]) -> tuple[Array, ...]:
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
            slopes = _collect_sampled(slopes, batch, Embeddings(*draws), local, scale, room)
        return slopes

    def moments(self, state: PublishedState) -> Embeddings:
        """Means and variances of all rows."""
        means = [chains.from_natural(self.chains, side.now.natural) for side in state]
        spreads = [_band(side.now.diag, side.now.upper)[0] for side in state]
        return Embeddings(*means, *spreads)

    def objective(self, state: PublishedState) -> float:
        """The ELBO in nats."""
        fit = likelihood.log_likelihood(self.counts, self.moments(state))
        return fit - sum(float(_divergence(self.chains, side.now)) for side in state)

    def finish(self, state: PublishedState) -> tuple[FittingProblem, dict[str, Any]]:
        """The problem, moments of all rows, and the ELBO."""
        moments = self.moments(state)
        found = {"words": moments.words, "contexts": moments.contexts}
        for name, side in state._asdict().items():
            variances, lags = _band(side.now.diag, side.now.upper)
            found |= {
                f"{name}_variances": variances,
                f"{name}_lag_covariances": jnp.pad(lags, ((0, 1), (0, 0))),
            }
        found = {name: np.asarray(value) for name, value in found.items()}
        return self.problem, found | {"elbo": self.objective(state)}


def _begun_again(side: Side) -> Side:
    """The same paths, with an Adam that knows nothing yet."""
    return Side(side.now, *(jax.tree.map(jnp.zeros_like, part) for part in side[1:]))


@functools.partial(jax.jit, static_argnames="total")
def _choose(key: Array, total: int) -> Array:
    """Which words take part."""
    return jr.permutation(key, total)[:SAMPLE]


@functools.partial(jax.jit, static_argnames="num_rows")
def _inverse(rows: Array, num_rows: int) -> Array:
    """Where each row is among those chosen; past their end if it is not."""
    places = jnp.arange(len(rows), dtype=jnp.int32)
    return jnp.full(num_rows, len(rows), jnp.int32).at[rows].set(places, mode="drop")


@jax.jit
def _take(
    prior: chains.PriorChains, linked: Array, state: PublishedState, rows: Sequence[Array]
) -> tuple[tuple[chains.PriorChains, ...], tuple[Array, ...], PublishedState]:
    """The prior, the links and the state of whole chains; rows past the end are chains of their own."""

    def take(array, places, fill):
        return array.at[places].get(mode="fill", fill_value=fill)

    def taken(parts, places, diag=0):
        natural, ahead = take(parts.natural, places, 0), places[:-1]
        return Parameters(natural, take(parts.diag, places, diag), take(parts.upper, ahead, 0))

    priors, links, sides = [], [], []
    for side, places in zip(state, rows, strict=True):
        ahead = places[:-1]  # the last row of a chain has no link, whichever row follows it here
        priors.append(chains.PriorChains(take(prior.diag, places, 1), take(prior.upper, ahead, 0)))
        links.append(take(linked, ahead, False))
        now = taken(side.now, places, diag=1)
        first, second = taken(side.first, places), taken(side.second, places)
        sides.append(Side(now, first, second, take(side.count, places, 0)))
    return tuple(priors), tuple(links), PublishedState(*sides)


@functools.partial(jax.jit, donate_argnums=0)
def _put(state: PublishedState, rows: Sequence[Array], part: PublishedState) -> PublishedState:
    """The state with that of some chains put back."""

    def put(array, places, values):
        return array.at[places].set(values, mode="drop")

    def put_each(old, places, values):
        return Parameters(*map(put, old, (places, places, places[:-1]), values))

    sides = []
    for old, places, new in zip(state, rows, part, strict=True):
        now, first, second = (put_each(old[k], places, new[k]) for k in range(3))
        sides.append(Side(now, first, second, put(old.count, places, new.count)))
    return PublishedState(*sides)


@jax.jit
def _draw(
    priors: Sequence[chains.PriorChains], state: PublishedState, key: Array
) -> tuple[list[Array], list[Array]]:
    draws, deviations = [], []
    for side, prior, side_key in zip(state, priors, jr.split(key), strict=True):
        mean = chains.from_natural(prior, side.now.natural)
        q = GaussMarkov(mean, side.now.diag, side.now.upper)
        deviations.append(q.unwhiten(noise.standard_normal(side_key, mean.shape, mean.dtype)))
        draws.append(mean + deviations[-1])
    return draws, deviations


@functools.partial(jax.jit, donate_argnums=0, static_argnames="room")
def _collect_sampled(
    slopes: Any, batch: likelihood.Batch, moments: Embeddings, local: Any, scale: Any, room: int
) -> tuple[Array, ...]:
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
        some = Embeddings(
            moments.words.at[places[0]].get(mode="fill", fill_value=0),
            moments.contexts.at[places[1]].get(mode="fill", fill_value=0),
        )
        found = likelihood.tile_gradients(positives, jnp.outer(rows, columns), some)
        return tuple(
            slope.at[place].set(scale * part, mode="drop")
            for slope, place, part in zip(slopes, places, found, strict=True)
        ), None

    return jax.lax.scan(step, slopes, batch)[0]


def _dense_part(counts: likelihood.Batch, chosen: Sequence[Array]) -> Array:
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
    prior: chains.PriorChains, q: GaussMarkov, draw: Array, deviation: Array, slope: Array
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
def _step(
    priors: Sequence[chains.PriorChains],
    links: Sequence[Array],
    state: PublishedState,
    draws: Sequence[Array],
    deviations: Sequence[Array],
    slopes: Sequence[Array],
    rate: float,
) -> PublishedState:
    sides = []
    for k, side in enumerate(state):
        q = GaussMarkov(draws[k], side.now.diag, side.now.upper)
        gradient = slope_of_elbo(priors[k], q, draws[k], deviations[k], slopes[k])
        by_part = Parameters(
            chains.natural_gradient(priors[k], gradient.mean),
            gradient.diag,
            jnp.where(links[k], gradient.upper, 0.0),
        )
        steps, firsts, seconds = [], [], []
        for slope, first, second in zip(by_part, side.first, side.second, strict=True):
            # Every chain has its own number of steps so far; there is one link less than rows.
            old = adam.Moments(side.count[: len(slope)], first, second)
            direction, new = adam.direction(slope, old, floor=adam.PUBLISHED_FLOOR)
            steps.append(rate * direction)
            firsts.append(new.first)
            seconds.append(new.second)
        moved = q.moved(GaussMarkov(jnp.zeros_like(draws[k]), steps[1], steps[2]))
        now = Parameters(side.now.natural + steps[0], moved.diag, moved.upper)
        sides.append(Side(now, Parameters(*firsts), Parameters(*seconds), side.count + 1))
    return PublishedState(*sides)


@jax.jit
def _band(diag: Array, upper: Array) -> tuple[Array, Array]:
    return tridiagonal.band_of_inverse(diag, upper)


@jax.jit
def _divergence(prior: chains.PriorChains, now: Parameters) -> Array:
    """KL divergence of one side from the prior; the trace by conditionals on the next row, as in `chains`."""
    natural, diag, upper = now
    variances = tridiagonal.band_of_inverse(diag, upper)[0]
    ratio = prior.diag / diag
    carried = (prior.upper - ratio[:-1] * upper) ** 2 * variances[1:]
    trace = jnp.sum(ratio**2 - 1.0 + jnp.pad(carried, ((0, 1), (0, 0))))
    log_det = jnp.sum(-2.0 * jnp.log(ratio))
    return 0.5 * (trace + log_det + jnp.sum(natural**2))
