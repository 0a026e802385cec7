r"""DSG-S, the fast way: the papers' model and family, up the ELBO by deterministic steps until it ends.

Two phases, each with the ELBO as its objective and a rule that ends it (`docs/develop/experiments.md` says
what else was tried):

1. *level*: paths that do not move. The likelihood is that of the summed counts, so a pass costs a fraction of
   one through all steps, and all steps come out in the same rotation of the space. Components that the texts
   do not support end at zero.
2. *paths*: all paths move, under counts that are divided by the noise between steps (`step_noise`).

Both go in rounds. In a round, precisions are made the best for the means, $\Pi + \mathrm{diag}(h)$ with h the
expected curvature; the prior's numbers are learnt, if they were not given; and means climb by L-BFGS, with
those precisions as their metric. A phase ends when a round gains less than `TOLERANCE` nats a word
(`phase_ends`).
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftline.words.fitting import chains, closing, lbfgs, likelihood, phase_ends, pooling, step_noise
from driftline.words.fitting.held_out import interpolated_scores
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.phase_ends import SETTLED
from driftline.words.fitting.prior_numbers import Data, Learner, Prior
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.smoothing_state import Rounds, SmoothingState, plain_prior
from driftline.words.fitting.trainer import Entry, Phase, Verdict
from driftline.words.paths.priors import years

LEVEL, PATHS = "level", "paths"
STEPS = {LEVEL: 60, PATHS: 24}  # of L-BFGS in a round, at most
USUAL_STEPS = 15  # of a round: it ends with a step that gains less than such a share of the tolerance
MEMORY = {LEVEL: 10, PATHS: 5}
LARGE, MEMORY_OF_LARGE = 2e8, 1  # numbers in all paths from which on little is remembered
TOLERANCE = 0.02  # nats a word, in a round
BOLDER = 1.5  # by how much the first step grows on that of the round before


class Smoother:
    """Trains a `FittingProblem` in two phases of rounds.

    Args:
        problem: What is trained.
        start: Means of words and of contexts, (V, d), to begin with.

    Attributes:
        phases: Levels, and paths; both climb the ELBO.
    """

    state_type = SmoothingState

    def __init__(self, problem: FittingProblem, *, start: tuple[np.ndarray, np.ndarray] | None = None):
        self.problem = problem
        self.start = start
        num_words = len(problem.counts.vocabulary)
        pairs = sum(float(len(step.words)) ** 2 for step in problem.steps)
        efforts = USUAL_STEPS * float(num_words) ** 2, USUAL_STEPS * pairs
        self.phases = tuple(
            Phase(name, "ELBO", limit, TOLERANCE * num_words, effort)
            for name, limit, effort in zip((LEVEL, PATHS), problem.settings.passes, efforts, strict=True)
        )
        self.learner = Learner(problem)
        self._last_counts: tuple[Any, ...] = None, None, []
        self._last_chain: tuple[Any, ...] = None, None, None

    def phase(self, done: int, history: list[Entry]) -> Phase | None:
        """See `Trainer`."""
        return phase_ends.next_phase(self.phases, history)

    def verdict(self, history: list[Entry]) -> Verdict:
        """Whether all phases ended by themselves."""
        return phase_ends.verdict(self.phases, history)

    def ahead(self, done: int, history: list[Entry]) -> dict[str, float]:
        """See `Trainer`."""
        return phase_ends.rounds_ahead(self.phases, history)

    def begin(self) -> SmoothingState:
        """The state before the first round: levels near the best ones."""
        problem, prior = self.problem, plain_prior(self.learner.begin())
        chain = self._chain_of(prior, moves=False)
        if self.start is None:
            pooled, num_words = self._kept_counts(False, None)[0], len(problem.counts.vocabulary)
            found = pooling.start(pooled, num_words, problem.dim, prior.scale, problem.settings.seed)[:2]
        else:
            found = tuple(jnp.asarray(side, problem.dtype) for side in self.start)
        spread = jnp.broadcast_to(0.5 / chain.diag**2, found[0].shape)
        words, contexts = (chains.to_natural(chain, side) for side in found)
        return SmoothingState(words, contexts, spread, spread, prior)

    def advance(self, state: SmoothingState, phase: Phase, done: int) -> SmoothingState:
        """The state after another round; it is as before but for its boldness if the ELBO fell."""
        if phase.name == PATHS and not state.moves:
            state = self._unrolled(state)
        if phase.name == LEVEL:
            state = self._cut(state)
        turned = phase.name == LEVEL and state.rounds.turns and not state.rounds.settled
        after, first = self._climbed(self._turned(state) if turned else state, phase)
        objective = self.objective(after)
        enough = phase.enough(objective)
        if not objective >= state.rounds.objective - enough:
            return state.with_rounds(
                boldness=first / 4.0,
                settled=True,
                # It may be the turn that it fell by. If there were another after each round that gained much,
                # every second round would be taken back, with shorter and shorter steps.
                turns=state.rounds.turns and not turned,
                passes=after.rounds.passes,
                taken_back=True,
            )
        return after.with_rounds(
            objective=objective,
            # No step at all: there is no slope left.
            boldness=min(1.0, BOLDER * first) if first else after.rounds.boldness,
            settled=objective - state.rounds.objective < SETTLED * enough,
            taken_back=False,
        )

    def _climbed(self, state: SmoothingState, phase: Phase) -> tuple[SmoothingState, float]:
        """The state with precisions refreshed, prior learnt and means climbed; length of the first step."""
        state, curvatures = self._refreshed(state)
        counts, moments = self._counts(state), self.moments(state)
        held = likelihood.hold(counts, moments)
        slopes = likelihood.held_gradients(counts, moments.words, moments.contexts, held)
        state = self._learnt_unless_worse(state, moments, slopes, curvatures)
        chain = self._chain(state)

        def gradient(place):
            means = [chains.from_natural(chain, side) for side in place]
            slopes = likelihood.held_gradients(counts, means[0], means[1], held)
            return tuple(_with_prior(chain, *pair) for pair in zip(slopes, place, strict=True))

        def precondition(slopes):
            return tuple(
                chains.precondition(chain, h, slope) for h, slope in zip(curvatures, slopes, strict=True)
            )

        slope = tuple(_with_prior(chain, *pair) for pair in zip(slopes, state.means, strict=True))
        del moments, slopes  # four arrays of the size of all paths, at the peak of memory
        climbed = lbfgs.climb(
            gradient,
            precondition,
            state.means,
            slope,
            steps=STEPS[phase.name],
            memory=self._memory(phase),
            boldness=state.rounds.boldness,
            enough=phase.enough(state.rounds.objective) / USUAL_STEPS,
        )
        passes = int(state.rounds.passes + climbed.gradients)
        return state.with_means(*climbed.place).with_rounds(passes=passes), float(climbed.first)

    def is_due(self, done: int) -> bool:
        """Every round ends with a look at the objective."""
        return True

    def seen(self, state: SmoothingState) -> Entry:
        """See `Trainer`."""
        return {
            "objective": state.rounds.objective,
            "passes": state.rounds.passes,
            "drift": state.prior.mean_drift,
            "scale": state.prior.scale,
            "boldness": state.rounds.boldness,
            "dim": int(state.words.shape[1]),
            "taken_back": state.rounds.taken_back,
        }

    def score(
        self, held_out: np.ndarray, state: SmoothingState, done: int, history: list[Entry]
    ) -> float | None:
        """Mean score of the held-out steps, predicted from both sides."""
        if not len(held_out):
            return None
        return float(interpolated_scores(self.given(state), held_out, *self.rows(state)).mean())

    def _memory(self, phase: Phase) -> int:
        numbers = 2.0 * len(self.problem.knots) * self.problem.dim
        return MEMORY_OF_LARGE if phase.name == PATHS and numbers > LARGE else MEMORY[phase.name]

    def _counts(self, state: SmoothingState) -> list[Any]:
        """Counts of a phase, divided by the noise between steps if the state has it."""
        noise = None if state.word_noise is None else (state.word_noise, state.context_noise)
        return self._kept_counts(state.moves, noise)

    def _kept_counts(self, moves: bool, noise: Sequence[Any] | None) -> list[Any]:
        """The last counts are kept, and no others, as they are large."""
        words = None if noise is None else noise[0]
        if self._last_counts[0] != moves or self._last_counts[1] is not words:
            self._last_counts = None, None, []
            self._last_counts = moves, words, self._counted(moves, noise)
        return self._last_counts[2]

    def _counted(self, moves: bool, noise: Sequence[Any] | None) -> list[Any]:
        if not moves:
            return [pooling.pool(self.problem)]
        batches = self.problem.batches()
        if noise is None:
            return batches
        every = [np.asarray(side, np.float64).mean(1) for side in noise]
        return step_noise.divided(batches, self.problem.knots, 0.5 * (every[0] + every[1]))

    def _chain(self, state: SmoothingState) -> chains.PriorChains:
        return self._chain_of(state.prior, state.moves)

    def _chain_of(self, prior: Prior, moves: bool) -> chains.PriorChains:
        """The prior over the rows; the last one is kept."""
        last_prior, last_kind, _ = self._last_chain
        if last_prior is None or last_kind != moves or not _same(last_prior, prior):
            given = self.problem.given(*prior[:4])
            if moves:
                made = chains.prior_chains(self.problem.knots, given.drift, self.problem.dtype)
            else:
                num_words = len(self.problem.counts.vocabulary)
                width = np.full((num_words, 1), given.drift.constant() ** 0.5)
                made = chains.PriorChains(
                    *(jnp.asarray(x, self.problem.dtype) for x in (width, np.zeros((num_words - 1, 1))))
                )
            self._last_chain = prior, moves, made
        return self._last_chain[2]

    def _unrolled(self, state: SmoothingState) -> SmoothingState:
        """Constant paths, from levels, and the noise between steps, as long as they do not follow it."""
        means = self.moments(state)
        rows = jnp.asarray(self.problem.knots.word)
        state = state._replace(moves=True, rounds=Rounds())
        chain = self._chain(state)
        state = state.with_means(*(chains.to_natural(chain, mean[rows]) for mean in means[:2]))
        state = state._replace(
            word_variances=state.word_variances[rows], context_variances=state.context_variances[rows]
        )
        state, curvatures = self._refreshed(state)
        moments = self.moments(state)
        slopes = likelihood.gradients(self._counts(state), moments)
        words, contexts = self._noise(moments, slopes, curvatures, state.prior.scale)
        return state._replace(word_noise=words, context_noise=contexts)

    def _noise(
        self, moments: Embeddings, slopes: Sequence[Array], curvatures: Sequence[Array], scale: float
    ) -> tuple[Array, Array]:
        """Noise between steps of words and of contexts, as the paths leave it."""
        times = years(self.problem.dates)
        words, contexts = (
            step_noise.dispersions(self.problem.knots, times, mean, slope, h, scale)
            for mean, slope, h in zip(moments[:2], slopes, curvatures, strict=True)
        )
        return words, contexts

    def _turned(self, state: SmoothingState) -> SmoothingState:
        """Levels turned to the principal axes, where components depend least on each other.

        The ELBO is that of the same means with other precisions, so it may change a little; it rises in the
        round that follows.
        """
        weight = self._weights()
        spread = sum((side * weight).T @ side for side in state.means)
        axes = jnp.asarray(np.linalg.eigh(np.asarray(spread, np.float64))[1][:, ::-1], self.problem.dtype)
        return state.with_means(*(side @ axes for side in state.means))

    def _cut(self, state: SmoothingState) -> SmoothingState:
        """Levels without the components that no text supports, once that is clear, if that is wanted."""
        if self.problem.settings.dim is not None or not state.rounds.settled:
            return state
        # Principal axes are in the order of their part in the logits.
        principal = state if state.rounds.turns else self._turned(state)
        kept = max(1, closing.supported(self.moments(principal), np.asarray(self._weights())[:, 0]))
        if kept == state.words.shape[1]:
            return state
        cut = {name: getattr(principal, name)[:, :kept] for name in Embeddings._fields}
        return state._replace(**cut).with_rounds(objective=-math.inf)

    def _weights(self) -> Array:
        """Share of each word in all counts, (V, 1)."""
        weight = np.zeros(len(self.problem.counts.vocabulary), self.problem.dtype)
        for step, negatives in zip(self.problem.steps, self.problem.negatives, strict=True):
            weight[step.words] += negatives.rows
        return jnp.asarray(weight / weight.sum())[:, None]

    def _refreshed(self, state: SmoothingState) -> tuple[SmoothingState, tuple[Array, Array]]:
        """The best precisions for the means, and the curvatures that they come from.

        Wide words ask for narrow contexts and these for wide words. Where there is little else to go by, both
        would swing back and forth from round to round; so contexts follow words that are refreshed already.
        """
        counts, chain = self._counts(state), self._chain(state)
        curvatures = likelihood.curvatures(counts, self.moments(state))
        if not state.moves or state.rounds.taken_back:
            words = state._replace(word_variances=chains.spread(chain, curvatures[0]).variances)
            curvatures = curvatures[0], likelihood.curvatures(counts, self.moments(words))[1]
        return _spread(state, chain, curvatures), curvatures

    def _learnt_unless_worse(
        self,
        state: SmoothingState,
        moments: Embeddings,
        slopes: Sequence[Array],
        curvatures: Sequence[Array],
    ) -> SmoothingState:
        """As `_learnt`, but near the end the prior stays if the ELBO would fall.

        The best numbers are those for a quadratic in the place of the likelihood. Far from the end it does
        not matter that they are not quite the best; near it, rounds would fall by them, however short their
        steps are, and be taken back for ever.
        """
        learnt = self._learnt(state, moments, slopes, curvatures)
        if learnt is state or not state.rounds.settled:
            return learnt
        return learnt if self.objective(learnt) >= self.objective(state) else state

    def _learnt(
        self,
        state: SmoothingState,
        moments: Embeddings,
        slopes: Sequence[Array],
        curvatures: Sequence[Array],
    ) -> SmoothingState:
        """The best numbers of the prior, and the same paths under them."""
        if None not in (self.problem.settings.drift, self.problem.settings.scale):
            return state
        old = state.prior
        data = [
            Data(h, h * mean + slope) for h, mean, slope in zip(curvatures, moments[:2], slopes, strict=True)
        ]
        if not state.moves:
            new = self.learner.level(old, data)
        else:  # in the end paces stay, so that there is an end
            new = self.learner.paths(old, data, paces=not state.rounds.settled)
        # A wider prior asks for higher curvatures and these for a narrower one: half way back is the middle.
        if math.log(new.scale / old.scale) * state.rounds.widened < 0.0:
            new = self.learner.with_width(new, math.sqrt(new.scale * old.scale))
        state = state._replace(prior=plain_prior(new))
        state = state.with_rounds(widened=math.log(new.scale / old.scale))
        chain = self._chain(state)
        words, contexts = (chains.to_natural(chain, mean) for mean in moments[:2])
        return _spread(state.with_means(words, contexts), chain, curvatures)

    def moments(self, state: SmoothingState) -> Embeddings:
        """Means and variances of all rows; of levels, of all words."""
        chain = self._chain(state)
        means = [chains.from_natural(chain, side) for side in state.means]
        return Embeddings(means[0], means[1], state.word_variances, state.context_variances)

    def objective(self, state: SmoothingState) -> float:
        """The ELBO in nats, of the counts of the phase; of levels, that of paths that do not move."""
        assert state.divergence is not None, "variances come with their divergence"
        fit = likelihood.log_likelihood(self._counts(state), self.moments(state))
        squares = sum(float(_squares(side)) for side in state.means)
        return fit - 0.5 * squares - state.divergence + state.prior.log_density

    def given(self, state: SmoothingState) -> FittingProblem:
        """The problem with the numbers of the prior that the state has."""
        return self.problem.given(*state.prior[:4])

    def rows(self, state: SmoothingState) -> tuple[np.ndarray, np.ndarray]:
        """Means of words and of contexts at all knots, also where levels have not begun to move."""
        moments = self.moments(state)
        at = slice(None) if state.moves else self.problem.knots.word
        return np.asarray(moments.words)[at], np.asarray(moments.contexts)[at]

    def finish(self, state: SmoothingState) -> tuple[FittingProblem, dict[str, Any]]:
        """The problem with the drift beyond noise, and moments of all rows that allow for noise."""
        if not state.moves:
            state = self._unrolled(state)
        state = state._replace(word_noise=None, context_noise=None)  # all counts
        state, curvatures = self._refreshed(state)
        moments, prior = self.moments(state), state.prior
        elbo = self.objective(state)
        slopes = likelihood.gradients(self._counts(state), moments)
        noises = self._noise(moments, slopes, curvatures, prior.scale)
        beyond, found = closing.close(self.problem, self.learner, prior, moments, slopes, curvatures, noises)
        share = np.asarray(self._weights())[:, 0][self.problem.knots.word]
        found["learnt"]["supported_dim"] = closing.supported(moments, share)
        return self.problem.given(*beyond[:4]), found | {"elbo": elbo}


def _spread(state: SmoothingState, chain: chains.PriorChains, curvatures: Sequence[Array]) -> SmoothingState:
    """The state with the best variances for curvatures, and the divergence that they cost."""
    spreads = [chains.spread(chain, h) for h in curvatures]
    return state._replace(
        word_variances=spreads[0].variances,
        context_variances=spreads[1].variances,
        divergence=sum(float(spread.divergence) for spread in spreads),
    )


def _same(one: Prior, other: Prior) -> bool:
    return one[:3] == other[:3] and np.array_equal(one.pace, other.pace)


@jax.jit
def _with_prior(chain: chains.PriorChains, slope: Array, place: Array) -> Array:
    return chains.natural_gradient(chain, slope) - place


@jax.jit
def _squares(array: Array) -> Array:
    return jnp.sum(array**2)
