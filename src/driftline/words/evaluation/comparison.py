"""What each method predicts of time steps that it has not seen."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from driftline.words.counts.counts import Counts
from driftline.words.fitting import memory
from driftline.words.fitting.failures import diverged
from driftline.words.fitting.held_out import interpolated_scores
from driftline.words.fitting.problem import FittingProblem, check_problem
from driftline.words.fitting.progress import FitProgress
from driftline.words.fitting.published import PublishedSmoother
from driftline.words.fitting.runs import run
from driftline.words.fitting.scoring import score
from driftline.words.fitting.smoothing import Smoother
from driftline.words.fitting.stepwise import Stepwise
from driftline.words.settings import COMPARED, WordSettings

Tell = Callable[[str], object]


def check(counts: Counts, chosen: Mapping[str, WordSettings], held_out: np.ndarray) -> None:
    """Refuse now what would stop one of the methods, or leave nothing to compare, after hours of work."""
    everything = np.arange(len(counts))
    for method, settings in chosen.items():
        first = COMPARED[method]
        predicted = held_out[held_out >= first]
        if not len(predicted):
            raise ValueError(
                f"hold_out={held_out.tolist()}: {method} cannot predict a step before step {first}; hold out "
                "a later one"
            )
        earliest = predicted.min()
        if method == "dsg-s-past" and not any(len(counts.step(t).words) for t in range(earliest)):
            raise ValueError(
                f"hold_out={held_out.tolist()}: no step before step {earliest} has a pair of words, so that "
                f"{method} cannot predict it; hold out later ones only"
            )
        # Of the many fits of dsg-s-past the last is the largest.
        seen = {"dsg-s": np.setdiff1d(everything, held_out), "dsg-s-past": everything[: predicted.max()]}
        problem = FittingProblem(counts, settings, seen.get(method, everything))
        check_problem(problem)
        try:
            memory.check(problem)
        except MemoryError as error:
            raise MemoryError(f"{method}: {error}; or leave it out of methods=") from error


def predict(
    counts: Counts,
    method: str,
    held_out: np.ndarray,
    chosen: WordSettings,
    tell: Tell | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Steps that a method predicts, and their scores."""
    everything = np.arange(len(counts))
    if method == "dsg-s":
        problem = FittingProblem(counts, chosen, np.setdiff1d(everything, held_out))
        return held_out, _smoothed(problem, method, held_out, tell)
    if method == "dsg-s-past":
        steps = held_out[held_out >= COMPARED[method]]
        scores = []
        for step in steps:
            problem = FittingProblem(counts, chosen, everything[:step])
            scores.append(_smoothed(problem, method, np.array([step]), None)[0])
            if tell is not None:
                tell(f"{method}: {counts.dates[step]} {scores[-1]:.4f}")
        return steps, np.array(scores)
    return _chronological(FittingProblem(counts, chosen, everything), tell)


def _smoothed(problem: FittingProblem, method: str, held_out: np.ndarray, tell: Tell | None) -> np.ndarray:
    memory.check(problem)
    trainer: Any = (Smoother if problem.settings.optimiser == "fast" else PublishedSmoother)(problem)

    def progress(told: FitProgress) -> None:
        if tell is not None and told.score is not None:
            tell(f"dsg-s: {told.phase} {told.done}/{told.planned} {told.score:.4f}, {told.seconds:.0f} s")

    state, _ = run(trainer, problem, held_out, progress=progress)
    scores = interpolated_scores(trainer.given(state), held_out, *trainer.rows(state))
    for step, found in zip(held_out, scores, strict=True):
        _check_score(problem, method, step, found)
    return scores


def _chronological(problem: FittingProblem, tell: Tell | None) -> tuple[np.ndarray, np.ndarray]:
    memory.check(problem)
    trainer = Stepwise(problem)
    state = trainer.begin()
    steps, scores = [], []
    for index, step in enumerate(problem.steps):
        if index and len(step.words):
            words, contexts = (
                trainer.mode(state, name, index - 1, step.words) for name in ("words", "contexts")
            )
            steps.append(index)
            scores.append(score(step, problem.negatives[index], words, contexts))
            _check_score(problem, problem.settings.method, index, scores[-1])
            if tell is not None and index % 20 == 0:
                tell(f"{problem.settings.method}: {index}/{len(problem.steps)} {np.mean(scores):.4f}")
        state = trainer.advance(state, trainer.phases[index], index)
    return np.array(steps), np.array(scores)


def _check_score(problem: FittingProblem, method: str, step: int, found: float) -> None:
    if not np.isfinite(found):
        place = f"at step {step}, {problem.counts.dates[step]}"
        raise diverged(f"{method} has a score of {found} {place}", problem.settings)
