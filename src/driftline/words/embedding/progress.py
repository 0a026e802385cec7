"""Progress of a fit of word embeddings, for people and for functions."""

import time
from collections.abc import Callable
from typing import NamedTuple

from driftline.terminal import Line, listener


class FitProgress(NamedTuple):
    """How far a fit is.

    Attributes:
        phase: What it is doing: a phase of the optimiser, or the date of a step.
        done: Passes, or steps, that are done.
        planned: All of them.
        objective: The ELBO in nats (in early phases the log joint density), or None where it is not known.
        score: Mean score of the held-out steps, if there are any.
        seconds: Time since the fit began, or was resumed.
        left: Seconds that it will take from here on, about; None at the beginning.
    """

    phase: str
    done: int
    planned: int
    objective: float | None
    score: float | None
    seconds: float
    left: float | None


class FitReporter:
    """Tells a user's function, or a terminal, how far a fit is.

    Args:
        progress: A function of a `FitProgress`; True or False; or None to write only to a terminal.
        plan: Phase of every pass.
    """

    def __init__(self, progress: bool | None | Callable[[FitProgress], object], plan: list[str]):
        self._plan = plan
        self._started = self._last = time.monotonic()
        self._spent: dict[str, list[float]] = {}
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
        self._spent.setdefault(phase, []).append(now - self._last)
        self._last = now
        if self._tell is not None:
            told = FitProgress(
                phase, done, len(self._plan), objective, score, now - self._started, self._left(done)
            )
            self._tell(told)

    def _left(self, done):
        """From the time that passes of the same phase took; of phases to come, as long as the last one."""
        if done < 2:
            return None
        seconds, known = 0.0, 0.0
        for phase in dict.fromkeys(self._plan):
            if phase in self._spent:
                # The first pass of a phase compiles.
                times = self._spent[phase][1:] or self._spent[phase]
                known = sum(times) / len(times)
            seconds += known * self._plan[done:].count(phase)
        return seconds

    def _write(self, progress):
        parts = [f"{progress.phase}  {progress.done}/{progress.planned}"]
        # Both are known after some passes only; the line keeps the last ones.
        for name, number in (("objective", progress.objective), ("held-out", progress.score)):
            if number is not None:
                self._shown[name] = f"{name} {number:.6g}"
        parts += self._shown.values()
        parts.append(f"{progress.seconds:.0f} s")
        if progress.left is not None:
            parts.append(f"{progress.left:.0f} s left")
        self._line.write("  ".join(parts))
