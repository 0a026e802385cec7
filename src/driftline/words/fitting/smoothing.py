r"""DSG-S, the fast way: the papers' model and family, up the ELBO by deterministic steps until it ends.

Two phases, each with the ELBO as its objective and a rule that ends it (`docs/words.md` says what else was
tried):

1. *level*: paths that do not move. The likelihood is that of the summed counts, so a pass costs a fraction of
   one through all steps, and all steps come out in the same rotation of the space. Components that the texts
   do not support end at zero.
2. *paths*: all paths move, under counts that are divided by the noise between steps (`noise`).

Both go in rounds. In a round, precisions are made the best for the means, $\Pi + \mathrm{diag}(h)$ with h the
expected curvature; the prior's numbers are learnt, if they were not given; and means climb by L-BFGS, with
those precisions as their metric. A phase ends when a round gains less than `TOLERANCE` nats a word.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from driftline.words.fitting import chains, closing, lbfgs, likelihood, pooling, step_noise
from driftline.words.fitting.closing import SIDES
from driftline.words.fitting.likelihood import Moments
from driftline.words.fitting.prior_numbers import Data, Learner, Prior
from driftline.words.fitting.problem import Problem
from driftline.words.fitting.verdict import Verdict
from driftline.words.paths.priors import years

PHASES = ("level", "paths")
STEPS = {"level": 60, "paths": 24}  # of L-BFGS in a round, at most
USUAL_STEPS = 15  # of a round: it ends with a step that gains less than such a share of the tolerance
MEMORY = {"level": 10, "paths": 5}
LARGE, MEMORY_OF_LARGE = 2e8, 1  # numbers in all paths from which on little is remembered
TOLERANCE = 0.02  # nats a word, in a round
ROUNDING = 2e-7  # of the likelihood: what single precision leaves of a gain
SETTLED = 10.0  # times the tolerance: a gain of a phase that is nearly at its end
BOLD, BOLDER = 0.3, 1.5  # length of the first step, and by how much it grows on that of the round before
TIMID = 1e-3  # boldness below which a phase is given up
USUAL = 10  # rounds of a phase of which nothing is known yet
STUCK = (
    "the {phase} phase was given up before its end, since rounds lowered the ELBO however short their steps; "
    "try another seed= (--seed), or fewer dimensions with dim= (--dim)"
)
FRESH = {  # a phase that has not begun
    "boldness": np.float64(BOLD),
    "passes": np.int64(0),
    "objective": np.float64(-math.inf),
    "settled": np.bool_(False),
    "taken_back": np.bool_(False),
    "turns": np.bool_(True),
    "widened": np.float64(0.0),
}


class Smoother:
    """Trains a `Problem`; its state is a dictionary of arrays.

    Args:
        problem: What is trained.
        start: Means of words and of contexts, (V, d), to begin with.

    Attributes:
        effort: What a round of each phase takes beside the others, about: by pairs of words.
        without_elbo: None of the phases: the objective is the ELBO in both.
    """

    without_elbo = ()

    def __init__(self, problem: Problem, *, start: tuple[np.ndarray, np.ndarray] | None = None):
        self.problem = problem
        self.start = start
        pairs = sum(float(len(step.words)) ** 2 for step in problem.steps)
        self.effort = {"level": USUAL_STEPS * float(len(problem.counts.vocabulary)) ** 2}
        self.effort["paths"] = USUAL_STEPS * pairs
        self.learner = Learner(problem)
        self._last_counts: tuple[Any, ...] = None, None, []
        self._last_chain: tuple[Any, ...] = None, None, None

    def phase(self, done: int, history: list[dict[str, Any]]) -> str | None:
        """What comes next, after what was seen so far; None at the end."""
        if not history:
            return PHASES[0]
        last = history[-1]["phase"]
        if self.verdict_of(last, history) is None:
            return last
        later = PHASES[PHASES.index(last) + 1 :]
        return later[0] if later else None

    def verdict_of(self, phase: str, history: list[dict[str, Any]]) -> Verdict | None:
        """How a phase has ended, or None if it goes on."""
        rounds = [entry for entry in history if entry["phase"] == phase]
        limit = self.problem.settings.passes[PHASES.index(phase)]
        if not rounds:
            return Verdict(False, f"the {phase} phase did not begin")
        # A round after one that was taken back begins with a short step, and may gain little for that alone.
        if len(rounds) > 1 and not any(entry["taken_back"] for entry in rounds[-2:]):
            gain = rounds[-1]["objective"] - rounds[-2]["objective"]
            enough = self.tolerance(rounds[-1]["objective"])
            # A single round may gain little, on its way past a saddle or by chance of rounding.
            before = rounds[-2]["objective"] - rounds[-3]["objective"] if len(rounds) > 2 else math.inf
            same = rounds[-1]["dim"] == rounds[-2]["dim"]
            if same and gain < enough and before < SETTLED * enough:
                return Verdict(True, f"the last round of the {phase} phase gained {gain:.3g} nats")
        if rounds[-1]["boldness"] < TIMID:
            return Verdict(False, STUCK.format(phase=phase))
        if rounds[-1]["passes"] >= limit:
            return Verdict(False, f"the {phase} phase reached its limit of {limit:,} passes")
        return None

    def tolerance(self, objective: float) -> float:
        """Gain of a round, in nats, below which a phase is at its end."""
        rounding = ROUNDING * abs(objective) if math.isfinite(objective) else 0.0
        return max(TOLERANCE * len(self.problem.counts.vocabulary), rounding)

    def verdict(self, history: list[dict[str, Any]]) -> Verdict:
        """Whether all phases ended by themselves."""
        for phase in PHASES:
            found = self.verdict_of(phase, history) or Verdict(False, f"stopped in the {phase} phase")
            if not found.converged:
                return found
        return Verdict(True, "converged")

    def ahead(self, done: int, history: list[dict[str, Any]]) -> dict[str, float]:
        """How many rounds of each phase are to come, about: gains are taken to fall as they did last."""
        gone = [phase for phase in PHASES if any(entry["phase"] == phase for entry in history)]
        guess = {phase: float(USUAL) for phase in PHASES[len(gone) :]}
        rounds = [entry["objective"] for entry in history if gone and entry["phase"] == gone[-1]]
        if gone and self.verdict_of(gone[-1], history) is None:
            gains = np.maximum(np.diff(rounds[-3:]), 1e-9)
            guess[gone[-1]] = float(USUAL)
            if len(gains) == 2 and gains[1] < gains[0]:
                left = np.log(self.tolerance(rounds[-1]) / gains[1]) / np.log(gains[1] / gains[0])
                guess[gone[-1]] = float(np.clip(left, 1.0, 5 * USUAL))
        return guess

    def begin(self) -> dict[str, Any]:
        """The state before the first round: levels near the best ones."""
        prior = self.learner.begin()
        state = _numbers(prior) | FRESH | {"paths": np.bool_(False)}
        problem, chain = self.problem, self._chain(state)
        if self.start is None:
            pooled, num_words = self._counts(state)[0], len(problem.counts.vocabulary)
            found = pooling.start(pooled, num_words, problem.dim, prior.scale, problem.settings.seed)[:2]
        else:
            found = tuple(jnp.asarray(side, problem.dtype) for side in self.start)
        spread = jnp.broadcast_to(0.5 / chain.diag**2, found[0].shape)
        return state | {
            "words": chains.to_natural(chain, found[0]),
            "contexts": chains.to_natural(chain, found[1]),
            "word_variances": spread,
            "context_variances": spread,
        }

    def advance(self, state: dict[str, Any], phase: str, done: int) -> dict[str, Any]:
        """The state after another round; it is as before but for its boldness if the ELBO fell."""
        if phase == "paths" and not state["paths"]:
            state = self._unrolled(state)
        if phase == "level":
            state = self._cut(state)
        before = state
        turned = phase == "level" and bool(state["turns"]) and not state["settled"]
        if turned:
            state = self._turned(state)
        state, curvatures = self._refreshed(state)
        counts, moments = self._counts(state), self.moments(state)
        held = likelihood.hold(counts, moments)
        slopes = likelihood.held_gradients(counts, moments.words, moments.contexts, held)
        state = self._learnt(state, moments, slopes, curvatures)
        chain = self._chain(state)

        def gradient(place):
            means = [chains.from_natural(chain, side) for side in place]
            slopes = likelihood.held_gradients(counts, means[0], means[1], held)
            return tuple(_with_prior(chain, *pair) for pair in zip(slopes, place, strict=True))

        def precondition(slopes):
            return tuple(
                chains.precondition(chain, h, slope) for h, slope in zip(curvatures, slopes, strict=True)
            )

        place = state["words"], state["contexts"]
        slope = tuple(_with_prior(chain, *pair) for pair in zip(slopes, place, strict=True))
        del moments, slopes  # four arrays of the size of all paths, at the peak of memory
        climbed = lbfgs.climb(
            gradient,
            precondition,
            place,
            slope,
            steps=STEPS[phase],
            memory=self._memory(phase),
            boldness=float(state["boldness"]),
            enough=self.tolerance(float(state["objective"])) / USUAL_STEPS,
        )
        passes = state["passes"] + climbed.gradients
        state = state | {"words": climbed.place[0], "contexts": climbed.place[1], "passes": passes}
        objective = self.objective(state)
        if not objective >= before["objective"] - self.tolerance(objective):
            return before | {
                "boldness": np.float64(climbed.first / 4.0),
                "settled": np.bool_(True),
                # It may be the turn that it fell by. If there were another after each round that gained much,
                # every second round would be taken back, with shorter and shorter steps.
                "turns": np.bool_(before["turns"] and not turned),
                "passes": passes,
                "taken_back": np.bool_(True),
            }
        gain = objective - before["objective"]
        return state | {
            "objective": np.float64(objective),
            # No step at all: there is no slope left.
            "boldness": np.float64(min(1.0, BOLDER * climbed.first)) if climbed.first else state["boldness"],
            "settled": np.bool_(gain < SETTLED * self.tolerance(objective)),
            "taken_back": np.bool_(False),
        }

    def is_due(self, done: int) -> bool:
        """Every round ends with a look at the objective."""
        return True

    def seen(self, before: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
        """What is noted of a round."""
        return {
            "objective": float(state["objective"]),
            "passes": int(state["passes"]),
            "drift": _prior(state).mean_drift,
            "scale": float(state["scale"]),
            "boldness": float(state["boldness"]),
            "dim": int(state["words"].shape[1]),
            "taken_back": bool(state["taken_back"]),
        }

    def _memory(self, phase):
        numbers = 2.0 * len(self.problem.knots) * self.problem.dim
        return MEMORY_OF_LARGE if phase == "paths" and numbers > LARGE else MEMORY[phase]

    def _counts(self, state):
        """Counts of a phase; the last ones are kept, and no others, as they are large."""
        paths, dispersion = bool(state["paths"]), state.get("word_noise")
        if self._last_counts[0] != paths or self._last_counts[1] is not dispersion:
            self._last_counts = None, None, []
            self._last_counts = paths, dispersion, self._counted(state)
        return self._last_counts[2]

    def _counted(self, state):
        if not state["paths"]:
            return [pooling.pool(self.problem)]
        batches = self.problem.batches()
        if "word_noise" not in state:
            return batches
        every = [np.asarray(state[f"{side}_noise"], np.float64).mean(1) for side in SIDES]
        return step_noise.divided(batches, self.problem.knots, 0.5 * (every[0] + every[1]))

    def _chain(self, state):
        """The prior over the rows; the last one is kept."""
        prior, kind = _prior(state), bool(state["paths"])
        last_prior, last_kind, _ = self._last_chain
        if last_prior is None or last_kind != kind or not _same(last_prior, prior):
            given = self.problem.given(*prior[:4])
            if kind:
                made = chains.prior_chains(self.problem.knots, given.drift, self.problem.dtype)
            else:
                num_words = len(self.problem.counts.vocabulary)
                width = np.full((num_words, 1), given.drift.constant() ** 0.5)
                made = chains.Chains(
                    *(jnp.asarray(x, self.problem.dtype) for x in (width, np.zeros((num_words - 1, 1))))
                )
            self._last_chain = prior, kind, made
        return self._last_chain[2]

    def _unrolled(self, state):
        """Constant paths, from levels, and the noise between steps, as long as they do not follow it."""
        means = self.moments(state)
        rows = jnp.asarray(self.problem.knots.word)
        state = state | FRESH | {"paths": np.bool_(True)}
        chain = self._chain(state)
        for name, mean in zip(("words", "contexts"), means[:2], strict=True):
            state[name] = chains.to_natural(chain, mean[rows])
        for name in ("word_variances", "context_variances"):
            state[name] = state[name][rows]
        state, curvatures = self._refreshed(state)
        moments = self.moments(state)
        slopes = likelihood.gradients(self._counts(state), moments)
        return state | self._noise(moments, slopes, curvatures, float(state["scale"]))

    def _noise(self, moments, slopes, curvatures, scale):
        """Noise between steps, as the paths leave it."""
        times = years(self.problem.dates)
        return {
            f"{side}_noise": step_noise.dispersions(self.problem.knots, times, mean, slope, h, scale)
            for side, mean, slope, h in zip(SIDES, moments[:2], slopes, curvatures, strict=True)
        }

    def _turned(self, state):
        """Levels turned to the principal axes, where components depend least on each other.

        The ELBO is that of the same means with other precisions, so it may change a little; it rises in the
        round that follows.
        """
        weight = self._weights()
        spread = sum((state[name] * weight).T @ state[name] for name in ("words", "contexts"))
        axes = jnp.asarray(np.linalg.eigh(np.asarray(spread, np.float64))[1][:, ::-1], self.problem.dtype)
        return state | {name: state[name] @ axes for name in ("words", "contexts")}

    def _cut(self, state):
        """Levels without the components that no text supports, once that is clear, if that is wanted."""
        if self.problem.settings.dim is not None or not state["settled"]:
            return state
        # Principal axes are in the order of their part in the logits.
        principal = state if state["turns"] else self._turned(state)
        kept = max(1, closing.supported(self.moments(principal), np.asarray(self._weights())[:, 0]))
        if kept == state["words"].shape[1]:
            return state
        shared = ("words", "contexts", "word_variances", "context_variances")
        cut = {name: principal[name][:, :kept] for name in shared}
        return state | cut | {"objective": np.float64(-math.inf)}

    def _weights(self):
        """Share of each word in all counts, (V, 1)."""
        weight = np.zeros(len(self.problem.counts.vocabulary), self.problem.dtype)
        for step, negatives in zip(self.problem.steps, self.problem.negatives, strict=True):
            weight[step.words] += negatives.rows
        return jnp.asarray(weight / weight.sum())[:, None]

    def _refreshed(self, state):
        """The best precisions for the means, and the curvatures that they come from.

        Wide words ask for narrow contexts and these for wide words. Where there is little else to go by, both
        would swing back and forth from round to round; so contexts follow words that are refreshed already.
        """
        counts, chain = self._counts(state), self._chain(state)
        curvatures = likelihood.curvatures(counts, self.moments(state))
        if not state["paths"] or state["taken_back"]:
            words = state | {"word_variances": chains.spread(chain, curvatures[0]).variances}
            curvatures = curvatures[0], likelihood.curvatures(counts, self.moments(words))[1]
        return state | _spreads(chain, curvatures), curvatures

    def _learnt(self, state, moments, slopes, curvatures):
        """The best numbers of the prior, and the same paths under them."""
        if None not in (self.problem.settings.drift, self.problem.settings.scale):
            return state
        old = _prior(state)
        data = [
            Data(h, h * mean + slope) for h, mean, slope in zip(curvatures, moments[:2], slopes, strict=True)
        ]
        if not state["paths"]:
            new = self.learner.level(old, data)
        else:  # in the end paces stay, so that there is an end
            new = self.learner.paths(old, data, paces=not state["settled"])
        # A wider prior asks for higher curvatures and these for a narrower one: half way back is the middle.
        widened = math.log(new.scale / old.scale)
        if widened * float(state["widened"]) < 0.0:
            new = self.learner.with_width(new, math.sqrt(new.scale * old.scale))
        state = state | _numbers(new) | {"widened": np.float64(math.log(new.scale / old.scale))}
        chain = self._chain(state)
        made = {
            "words": chains.to_natural(chain, moments.words),
            "contexts": chains.to_natural(chain, moments.contexts),
        }
        return state | made | _spreads(chain, curvatures)

    def moments(self, state: dict[str, Any]) -> Moments:
        """Means and variances of all rows; of levels, of all words."""
        chain = self._chain(state)
        means = [chains.from_natural(chain, state[name]) for name in ("words", "contexts")]
        return Moments(means[0], means[1], state["word_variances"], state["context_variances"])

    def objective(self, state: dict[str, Any]) -> float:
        """The ELBO in nats, of the counts of the phase; of levels, that of paths that do not move."""
        fit = likelihood.log_likelihood(self._counts(state), self.moments(state))
        squares = sum(float(_squares(state[name])) for name in ("words", "contexts"))
        return fit - 0.5 * squares - float(state["divergence"]) + _prior(state).log_density

    def given(self, state: dict[str, Any]) -> Problem:
        """The problem with the numbers of the prior that the state has."""
        return self.problem.given(*_prior(state)[:4])

    def rows(self, state: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Means of words and of contexts at all knots, also where levels have not begun to move."""
        moments = self.moments(state)
        at = slice(None) if state["paths"] else self.problem.knots.word
        return np.asarray(moments.words)[at], np.asarray(moments.contexts)[at]

    def finish(self, state: dict[str, Any]) -> tuple[Problem, dict[str, Any]]:
        """The problem with the drift beyond noise, and moments of all rows that allow for noise."""
        if not state["paths"]:
            state = self._unrolled(state)
        state = {name: value for name, value in state.items() if not name.endswith("_noise")}  # all counts
        state, curvatures = self._refreshed(state)
        moments, prior = self.moments(state), _prior(state)
        elbo = self.objective(state)
        slopes = likelihood.gradients(self._counts(state), moments)
        noises = list(self._noise(moments, slopes, curvatures, prior.scale).values())
        beyond, found = closing.close(self.problem, self.learner, prior, moments, slopes, curvatures, noises)
        share = np.asarray(self._weights())[:, 0][self.problem.knots.word]
        found["learnt"]["supported_dim"] = closing.supported(moments, share)
        return self.problem.given(*beyond[:4]), found | {"elbo": elbo}


def _spreads(chain, curvatures):
    """The best variances for curvatures, and the divergence that they cost."""
    spreads = [chains.spread(chain, h) for h in curvatures]
    return {
        "word_variances": spreads[0].variances,
        "context_variances": spreads[1].variances,
        "divergence": np.float64(sum(float(spread.divergence) for spread in spreads)),
    }


def _numbers(prior):
    return {
        "drift": np.float64(prior.drift),
        "scale": np.float64(prior.scale),
        "paces": np.asarray(prior.paces, np.float64),
        "pace": prior.pace,
        "shares": prior.shares,
    }


def _prior(state):
    paces = tuple(float(pace) for pace in state["paces"])
    return Prior(
        float(state["drift"]),
        float(state["scale"]),
        paces,
        np.asarray(state["pace"]),
        np.asarray(state["shares"]),
    )


def _same(one, other):
    return one[:3] == other[:3] and np.array_equal(one.pace, other.pace)


@jax.jit
def _with_prior(chain, slope, place):
    return chains.natural_gradient(chain, slope) - place


@jax.jit
def _squares(array):
    return jnp.sum(array**2)
