"""Progress of a fit of word embeddings, for people and for functions."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from driftline.terminal import Line, listener


class FitProgress(NamedTuple):
    """How far a fit is.

    Attributes:
        phase: What it is doing: a phase of the optimiser, or the date of a step.
        done: Passes, or steps, that are done.
        planned: All of them.
        objective: The ELBO in nats, or None where it is not known. In early phases, and of point estimates,
            the log joint density. Of methods that go step by step, the sum over the steps so far.
        score: Mean score of the held-out steps, if there are any.
        seconds: Time since the fit began, or was resumed.
        left: Seconds that it will take from here on, about; None after the first pass.
    """

    phase: str
    done: int
    planned: int
    objective: float | None
    score: float | None
    seconds: float
    left: float | None


class _Spent(NamedTuple):
    """Passes of one kind so far, what they took, and what the first did, which compiles."""

    passes: int
    total: float
    first: float

    @property
    def mean(self) -> float:
        """Seconds of a pass, of those after the first if there are any."""
        return self.first if self.passes == 1 else (self.total - self.first) / (self.passes - 1)


class FitReporter:
    """Tells a user's function, or a terminal, how far a fit is.

    Args:
        progress: A function of a `FitProgress`; True or False; or None to write only to a terminal.
        plan: Phase of every pass.
        effort: What a pass of each phase takes beside the others, about: a guess until one is timed.
        without_elbo: Phases whose objective is the log joint density.
    """

    def __init__(
        self,
        progress: bool | None | Callable[[FitProgress], object],
        plan: list[str],
        effort: Mapping[str, float],
        without_elbo: Collection[str] = (),
    ):
        self._plan, self._effort, self._without_elbo = plan, effort, frozenset(without_elbo)
        # If each pass has a name of its own, such as a date, all are of one kind.
        self._kinds = plan if len(set(plan)) < len(plan) else [""] * len(plan)
        self._to_come: Counter[str] | None = None
        self._started = self._last = time.monotonic()
        self._spent: dict[str, _Spent] = {}
        self._line = Line()
        self._shown: dict[str, str] = {}
        self._tell = listener(progress, self._write)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._line.close()

    def update(self, done: int, objective: float | None, score: float | None) -> None:
        """Report that `done` passes are done."""
        now = time.monotonic()
        phase = self._plan[done - 1]
        self._note(done, now - self._last)
        self._last = now
        if self._tell is not None:
            told = FitProgress(
                phase, done, len(self._plan), objective, score, now - self._started, self._left(done)
            )
            self._tell(told)

    def _note(self, done, seconds):
        """Keep account of a pass: once through the plan at the first, then by what is added."""
        kind = self._kinds[done - 1]
        if self._to_come is None:
            self._to_come = Counter(self._kinds[done:])
        else:
            self._to_come[kind] -= 1
        passes, total, first = self._spent.get(kind, _Spent(0, 0.0, seconds))
        self._spent[kind] = _Spent(passes + 1, total + seconds, first)

    def _left(self, done):
        """From the time that passes of the same phase took; of phases to come, from that of the last one."""
        if done == len(self._plan):
            return 0.0
        if self._to_come is None or sum(spent.passes for spent in self._spent.values()) < 2:
            return None  # the only one so far has compiled
        seconds, of_effort = 0.0, 0.0
        for kind in dict.fromkeys(self._kinds):
            effort = self._effort.get(kind, 1.0)
            if kind in self._spent:
                of_effort = self._spent[kind].mean / effort
            seconds += of_effort * effort * self._to_come[kind]
        return seconds

    def _write(self, progress):
        parts = [f"{progress.phase}  {progress.done}/{progress.planned}"]
        # Both are known after some passes only; the line keeps the last ones.
        objective = "log joint" if progress.phase in self._without_elbo else "ELBO"
        for field, name in (("objective", objective), ("score", "held-out")):
            if (number := getattr(progress, field)) is not None:
                self._shown[field] = f"{name} {number:.6g}"
        parts += self._shown.values()
        parts.append(f"{progress.seconds:.0f} s")
        if progress.left is not None:
            parts.append(f"{progress.left:.0f} s left")
        self._line.write("  ".join(parts))
