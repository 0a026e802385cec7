"""A run of a trainer from its first round, or a checkpoint, to its end."""

import os
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import numpy as np

from driftline.words.fitting import checkpoints
from driftline.words.fitting.failures import diverged
from driftline.words.fitting.interruption import Interruption, Limit
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.progress import FitProgress, FitReporter
from driftline.words.fitting.trainer import Entry, Phase, Trainer, TrainingState

StateT = TypeVar("StateT", bound=TrainingState)


class Checkpoint(NamedTuple):
    """Where the state of a run is kept.

    Attributes:
        path: The file.
        resume: Whether to go on from it.
        every: Seconds between two states.
    """

    path: str | os.PathLike
    resume: bool = False
    every: float = 60.0


def run(
    trainer: Trainer[StateT],
    problem: FittingProblem,
    held_out: np.ndarray,
    checkpoint: Checkpoint | None = None,
    progress: bool | None | Callable[[FitProgress], object] = None,
    limit: Limit | None = None,
) -> tuple[StateT, list[Entry]]:
    """Train to the end; returns the last state and what was seen on the way.

    Args:
        trainer: What trains.
        problem: What is trained.
        held_out: Steps that it must not see; their scores are shown.
        checkpoint: Where the state is kept, if it is.
        progress: As in `words.fit`.
        limit: The time that the run may take.
    """
    state, done, history = _begin(trainer, problem, checkpoint)
    saved = time.monotonic()
    with _reporter(trainer, progress) as report, Interruption() as interruption:
        while (phase := trainer.phase(done, history)) is not None:
            state = jax.block_until_ready(trainer.advance(state, phase, done))
            done += 1
            objective, score = None, None
            if trainer.is_due(done):
                seen = trainer.seen(state)
                objective = _checked(seen["objective"], problem, done, phase)
                score = trainer.score(held_out, state, done, history)
                history.append({"done": done, "phase": phase.name, "score": score} | seen)
            report.update(phase.name, done, trainer.ahead(done, history), objective, score)
            late = checkpoint is not None and time.monotonic() - saved >= checkpoint.every
            if checkpoint is not None and (late or interruption.asked):
                _save(checkpoint, problem, state, done, history)
                saved = time.monotonic()
            if interruption.asked:
                raise KeyboardInterrupt(interruption.signal)
            if limit is not None and limit.check():
                break
    return state, history


def _begin(
    trainer: Trainer[StateT], problem: FittingProblem, checkpoint: Checkpoint | None
) -> tuple[StateT, int, list[Entry]]:
    """The state to begin with, how many rounds it has behind it, and what was seen in them."""
    if checkpoint is None or not checkpoint.resume:
        return trainer.begin(), 0, []
    arrays, done, history = checkpoints.read(checkpoint.path, problem)
    return trainer.state_type.from_arrays(arrays), done, history


def _reporter(trainer: Trainer, progress: bool | None | Callable[[FitProgress], object]) -> FitReporter:
    efforts = {phase.name: phase.effort for phase in trainer.phases if phase.effort is not None}
    return FitReporter(progress, efforts, [each.name for each in trainer.phases if each.objective != "ELBO"])


def _save(
    checkpoint: Checkpoint, problem: FittingProblem, state: TrainingState, done: int, history: list[Entry]
) -> None:
    """Save the state. If that fails, as on a full disk, the fit is not lost: it goes on."""
    try:
        checkpoints.write(checkpoint.path, problem, state.to_arrays(), done, history)
    except OSError as error:
        warnings.warn(f"{error.strerror}; the fit goes on", stacklevel=4)


def _checked(objective: float, problem: FittingProblem, done: int, phase: Phase) -> float:
    if not np.isfinite(objective):
        what = f"the objective is {objective} after {done} rounds (phase {phase.name})"
        raise diverged(what, problem.settings)
    return objective
