"""What trains a word model: the parts of a training run, and what each method must know to be run."""

from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from driftline.words.fitting.problem import FittingProblem

ROUNDING = 2e-7  # of an objective: what single precision leaves of a gain
Entry = dict[str, Any]  # what was noted after some rounds, as checkpoints keep it
Objective = Literal["ELBO", "log joint"]


class Phase(NamedTuple):
    """A part of the training.

    Attributes:
        name: What it is called: such as "level", or the date of a step.
        objective: What it climbs.
        limit: The most passes that it may take.
        tolerance: Gain of a round, in nats, below which it is at its end; None if its limit is its only end.
        effort: What a round of it takes beside those of other phases, about; None if all are of one kind.
    """

    name: str
    objective: Objective
    limit: int
    tolerance: float | None = None
    effort: float | None = None

    def enough(self, objective: float) -> float:
        """Gain of a round that ends the phase, where the objective is what it is; never below rounding."""
        rounding = ROUNDING * abs(objective) if np.isfinite(objective) else 0.0
        return max(self.tolerance or 0.0, rounding)


class Verdict(NamedTuple):
    """Whether a fit is at its end, and what ended it."""

    converged: bool
    message: str


class TrainingState(Protocol):
    """Where the training is; a tree of arrays and numbers, which checkpoints write and read."""

    def to_arrays(self) -> dict[str, Any]:
        """All of it, by the names that files have."""
        ...

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The state that gave these arrays."""
        ...


StateT = TypeVar("StateT", bound=TrainingState)


class Trainer(Protocol[StateT]):
    """What `runs.run` needs of a method.

    Attributes:
        phases: All that the training may go through.
        state_type: What its states are.
    """

    phases: tuple[Phase, ...]
    state_type: type[StateT]

    def begin(self) -> StateT:
        """The state before the first round."""
        ...

    def phase(self, done: int, history: list[Entry]) -> Phase | None:
        """What comes next, after `done` rounds and what was seen in them; None at the end."""
        ...

    def advance(self, state: StateT, phase: Phase, done: int) -> StateT:
        """The state after another round."""
        ...

    def is_due(self, done: int) -> bool:
        """Whether it is time to look at the objective."""
        ...

    def seen(self, state: StateT) -> Entry:
        """What is noted of a round: its objective, and what the trainer needs to judge it."""
        ...

    def score(self, held_out: np.ndarray, state: StateT, done: int, history: list[Entry]) -> float | None:
        """Mean score of the held-out steps that can be predicted by now; None if there are none."""
        ...

    def ahead(self, done: int, history: list[Entry]) -> dict[str, float]:
        """How many rounds of each phase are to come, about."""
        ...

    def verdict(self, history: list[Entry]) -> Verdict:
        """How the training has ended."""
        ...

    def finish(self, state: StateT) -> tuple[FittingProblem, dict[str, Any]]:
        """The problem with the numbers of its prior; moments of all rows, and what was learnt."""
        ...
