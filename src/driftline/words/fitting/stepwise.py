r"""SGI, SGP and DSG-F: one time step after the other, each with what is known before it.

SGI and SGP are point estimates under the prior $N(0, \sigma_0^2)$, without dynamics; SGI starts every step
from random numbers and is turned to fit the step before, SGP starts from it. DSG-F is the papers' filter: a
Gaussian with independent components at each step, whose prior is the step before, carried forward. Its fast
form takes the mode for the mean and then the optimal variances; the published one climbs the ELBO by draws.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from driftline.words.fitting import likelihood, one_step
from driftline.words.fitting.failures import diverged
from driftline.words.fitting.held_out import scores_ahead
from driftline.words.fitting.likelihood import Batch, Embeddings
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.trainer import Entry, Phase, Verdict
from driftline.words.paths.priors import carry, years
from driftline.words.paths.rotation import common_rotation
from driftline.words.settings import WordSettings

FIRST_SIZE = 0.1  # of random starts, in standard deviations of the prior


class StepwiseState(NamedTuple):
    """The state of a fit that goes step by step; its arrays are written over from step to step.

    Attributes:
        now: What is known of all words after the last step, (V, d) each; point estimates have no variances.
        rows: The same at the knots so far, (R, d) each.
        objective: Sum over the steps so far.
        open: How many of these have not come to their end.
    """

    now: Embeddings
    rows: Embeddings
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
            Embeddings(
                **{name: arrays[prefix + name] for name in Embeddings._fields if prefix + name in arrays}
            )
            for prefix in ("now_", "")
        )
        return cls(now, rows, float(arrays["now_objective"]), int(arrays["now_open"]))


class Stepwise:
    """Trains a `FittingProblem` step by step.

    Attributes:
        phases: One for each step, called by its date. A filter climbs an ELBO, the others a log joint.
    """

    state_type = StepwiseState

    def __init__(self, problem: FittingProblem):
        problem = self.problem = problem.given(*problem.settings.numbers)
        self.is_filter = problem.settings.method == "dsg-f"
        tolerance = one_step.TOLERANCE if problem.settings.optimiser == "fast" else None
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
            Embeddings(*both(known, 0.0), *widths[0]),  # pyright: ignore[reportArgumentType]
            Embeddings(*both(rows, 0.0), *widths[1]),  # pyright: ignore[reportArgumentType]
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
        fitted, objective, ended = one_step.fit_step(
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

    def _prior(self, state: StepwiseState, present: np.ndarray, size: int) -> Embeddings:
        """Means and variances before the step is seen; of words that are not there, those of anything."""
        scale = self.scale**2
        if not self.is_filter:
            zero = jnp.zeros((size, self.problem.dim), self.problem.dtype)
            return Embeddings(zero, zero, zero + scale, zero + scale)
        return Embeddings(
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

    def finish(self, state: StepwiseState) -> tuple[FittingProblem, dict[str, Any]]:
        """The problem, the rows of the knots, and the objective of a filter."""
        found: dict[str, Any] = {
            name: array for name, array in state.rows._asdict().items() if array is not None
        }
        return self.problem, found | ({"elbo": self.objective(state)} if self.is_filter else {})


def predict(state: StepwiseState, gap: float, settings: WordSettings) -> StepwiseState:
    """What a filter knows of all words, carried over a gap; `gap` is the variance gained in it."""
    words, contexts, of_words, of_contexts = state.now
    sides = (words, of_words), (contexts, of_contexts)
    after = [carry(settings.prior, *side, gap, settings.numbers[1]) for side in sides]  # pyright: ignore[reportArgumentType]
    return state._replace(now=Embeddings(after[0][0], after[1][0], after[0][1], after[1][1]))  # pyright: ignore[reportArgumentType]


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
