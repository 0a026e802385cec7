r"""DSG-S, the fast way: the papers' model and family, with deterministic steps.

Four phases, the first ones a few dozen passes through the counts each (`docs/words.md` says what else was
tried):

1. *level*: all steps are pooled and every path is constant. One pass costs a fraction of a pass through all
   steps, and all steps come out in the same rotation of the space, which gradient steps alone reach slowly.
2. *mode*: paths move to the most probable ones, by Adam in the prior's natural coordinates.
3. *variational*: a few passes in which means climb the ELBO, whose expectations go through the mean and
   variance of each logit.
4. *precision*: precisions are made optimal for the means, $\Pi + \mathrm{diag}(h)$ with h the expected
   curvature.

Before the third, or the fourth if there is no third, the space is turned to its principal axes, where
components depend least on each other.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.infer import adam
from driftline.words.embedding import chains, likelihood
from driftline.words.embedding.likelihood import Moments
from driftline.words.embedding.problem import Problem

PHASES = ("level", "mode", "variational", "precision")
LEVEL_RATE, MODE_RATE, VARIATIONAL_RATE = 0.3, 0.04, 0.03  # in standard deviations of the prior
SECOND_DECAY = 0.99  # gradients are without noise, so what was long ago need not count
WARM_UP = 5  # passes: Adam's first steps are of full size in every coordinate, whether it matters or not
SETTLE = 2  # passes of the last phase; variances depend a little on the ones before
REFRESH = 5  # passes of the third phase between two updates of the variances


class Smoother:
    """Trains a `Problem`; its state is a dictionary of arrays.

    Args:
        problem: What is trained.
        precisions: Whether to end with the precisions; the means do not change there.

    Attributes:
        plan: Phase of every pass.
        effort: What a pass of each phase takes beside the others, about: by pairs of words, and twice for
            each pair whose logit is uncertain.
        without_elbo: Phases whose objective is the log joint density.
        look: Passes between two looks at the objective, which costs about as much as a pass.
    """

    look = 10
    without_elbo = ("level", "mode")

    def __init__(self, problem: Problem, *, precisions: bool = True):
        self.problem = problem
        passes = *problem.settings.passes, SETTLE if precisions else 0
        self.plan = [name for name, many in zip(PHASES, passes, strict=True) for _ in range(many)]
        self.pooled = problem.pooled()
        self.counts = problem.batches()
        self.chains = chains.prior_chains(problem.knots, problem.drift, problem.dtype)
        pairs = {"level": _num_pairs(self.pooled), "mode": _num_pairs(self.counts)}
        self.effort = pairs | {"variational": 2.0 * pairs["mode"], "precision": pairs["mode"]}
        self.level_sd = float(problem.drift.constant() ** -0.5)  # of a path that does not move, a priori

    def begin(self) -> dict[str, Any]:
        """The state before the first pass: small random levels."""
        shape = (len(self.problem.counts.vocabulary), self.problem.settings.dim)
        keys = jr.split(jr.key(self.problem.settings.seed))
        return _with_moments(
            {
                name: 0.5 * jr.normal(key, shape, self.problem.dtype)
                for name, key in zip(("words", "contexts"), keys, strict=True)
            }
        )

    def advance(self, state: dict[str, Any], index: int) -> dict[str, Any]:
        """The state after pass number `index`; the state before it is used up."""
        phase = self.plan[index]
        state = self._enter(phase, self.plan[index - 1] if index else PHASES[0], state)
        first = self.plan.index(phase)
        done = index - first, self.plan.count(phase)
        if phase == "level":
            slopes = likelihood.gradients(self.pooled, self._levels(state))
            slopes = [self.level_sd * slope for slope in slopes]
            return _step(state, slopes, _rate(LEVEL_RATE, *done))
        if phase == "precision":
            return self.refresh(state)
        if phase == "variational" and index > first and (index - first) % REFRESH == 0:
            state = self._refreshed_on_the_way(state)
        slopes = likelihood.gradients(self.counts, self.moments(state))
        slopes = [chains.natural_gradient(self.chains, slope) for slope in slopes]
        rate = MODE_RATE if phase == "mode" else VARIATIONAL_RATE
        return _step(state, slopes, _rate(rate, *done))

    def _levels(self, state):
        return Moments(self.level_sd * state["words"], self.level_sd * state["contexts"])

    def _enter(self, phase, last, state):
        """The state at the beginning of a phase, if it is not the last one, through all phases between."""
        if phase == last:
            return state
        entered = PHASES[PHASES.index(last) + 1 : PHASES.index(phase) + 1]
        # Adam's averages are most of the memory. Whoever called still holds the state, so they leave it here.
        for name in _moment_names(state):
            del state[name]
        if "mode" in entered:
            state = self._unrolled(state)
        if "variational" in entered:
            state = self._turned(state)
        if phase == "variational":
            state = self._refreshed_on_the_way(state)
        return state if phase == "precision" else _with_moments(state)  # the last phase moves no means

    def _unrolled(self, state):
        """Constant paths in natural coordinates."""
        rows = jnp.asarray(self.problem.knots.word)
        return {
            name: chains.to_natural(self.chains, level[rows])
            for name, level in zip(("words", "contexts"), self._levels(state)[:2], strict=True)
        }

    def _turned(self, state):
        """The space turned to its principal axes; natural coordinates, linear in the path, turn with it."""
        axes = self._axes(self.moments(state))
        return {name: state[name] @ axes for name in ("words", "contexts")}

    def _axes(self, moments):
        """Principal axes of words and contexts, each weighted by how often it occurs."""
        weight = np.zeros(len(self.problem.knots), self.problem.dtype)
        for place, negatives in zip(self.problem.places, self.problem.negatives, strict=True):
            weight[place] = negatives.rows
        weight = jnp.asarray(weight / weight.sum())[:, None]
        spread = sum((x * weight).T @ x for x in (moments.words, moments.contexts))
        return jnp.asarray(np.linalg.eigh(np.asarray(spread))[1][:, ::-1].copy())

    def moments(self, state: dict[str, Any]) -> Moments:
        """Means of all rows, with variances once there are any."""
        words, contexts = (chains.from_natural(self.chains, state[name]) for name in ("words", "contexts"))
        return Moments(words, contexts, state.get("word_variances"), state.get("context_variances"))

    def refresh(self, state: dict[str, Any]) -> dict[str, Any]:
        """Make the precisions optimal for the means, in one step of the fixed-point iteration."""
        curvatures = likelihood.curvatures(self.counts, self.moments(state))
        words, contexts = (chains.spread(self.chains, curvature) for curvature in curvatures)
        return state | {
            "word_variances": words.variances,
            "context_variances": contexts.variances,
            "word_lag_covariances": words.lag_covariances,
            "context_lag_covariances": contexts.lag_covariances,
            "divergence": words.divergence + contexts.divergence,
        }

    def _refreshed_on_the_way(self, state):
        """The same, without what only the atlas needs: these passes hold the most memory of all."""
        return {name: array for name, array in self.refresh(state).items() if "lag" not in name}

    def objective(self, state: dict[str, Any], phase: str) -> float:
        """The ELBO once there are precisions, before it the log joint density without constants; in nats."""
        if phase == "level":
            fit = likelihood.log_likelihood(self.pooled, self._levels(state))
        else:
            fit = likelihood.log_likelihood(self.counts, self.moments(state))
        return fit - 0.5 * float(_squares(state)) - float(state.get("divergence", 0.0))

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Moments of all rows."""
        moments = self.moments(state)
        found = {
            "words": moments.words,
            "contexts": moments.contexts,
            "word_variances": moments.word_variances,
            "context_variances": moments.context_variances,
            "word_lag_covariances": _with_last(state["word_lag_covariances"]),
            "context_lag_covariances": _with_last(state["context_lag_covariances"]),
        }
        return {name: np.asarray(array) for name, array in found.items()}


def _with_last(lag_covariances):
    return jnp.pad(lag_covariances, ((0, 1), (0, 0)))


def _num_pairs(batches):
    """Pairs of words present, over all steps."""
    return float(sum(len(batch.rows) * batch.rows.shape[1] ** 2 for batch in batches))


def _moment_names(state):
    return [name for name in state if "_moment_" in name or name == "count"]


def _with_moments(state):
    zeros = {
        f"{kind}_moment_{name}": jnp.zeros_like(array)
        for name, array in state.items()
        for kind in ("first", "second")
    }
    return state | zeros | {"count": jnp.zeros((), jnp.int32)}


def _rate(rate, done, planned):
    """Up to the full rate in the first passes; in the second half down to a tenth."""
    rise = min(1.0, (done + 1) / WARM_UP)
    return rate * rise * (1.0 - 0.9 * max(0.0, 2.0 * done / planned - 1.0))


def _step(state, slopes, rate):
    names = ["words", "contexts", *_moment_names(state)]
    return state | _ascend({name: state[name] for name in names}, slopes, rate)


@functools.partial(jax.jit, donate_argnums=0)
def _ascend(state, slopes, rate):
    """One step of Adam up the objective; in natural coordinates the prior's slope is their negative."""
    slopes = dict(zip(("words", "contexts"), slopes, strict=True))
    slopes = {name: slope - state[name] for name, slope in slopes.items()}
    old = adam.Moments(
        state["count"],
        {name: state[f"first_moment_{name}"] for name in slopes},
        {name: state[f"second_moment_{name}"] for name in slopes},
    )
    direction, new = adam.direction(slopes, old, SECOND_DECAY)
    stepped = {name: state[name] + rate * direction[name] for name in slopes}
    first = {f"first_moment_{name}": array for name, array in new.first.items()}
    second = {f"second_moment_{name}": array for name, array in new.second.items()}
    return stepped | first | second | {"count": new.count}


@jax.jit
def _squares(state):
    return jnp.sum(state["words"] ** 2) + jnp.sum(state["contexts"] ** 2)
