"""Progress of a fit of word embeddings, for people and for functions."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Self

from driftline.terminal import Line, listener


class FitProgress(NamedTuple):
    """How far a fit is.

    Attributes:
        phase: What it is doing: a phase of the optimiser, or the date of a step.
        done: Rounds, passes or steps that are done.
        planned: All of them; about, if the fit ends when there is nothing more to gain.
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
        effort: What a round of each phase takes beside the others, about: a guess until one is timed. Phases
            that are not named are of one kind.
        without_elbo: Phases whose objective is the log joint density.
    """

    def __init__(
        self,
        progress: bool | None | Callable[[FitProgress], object],
        effort: Mapping[str, float],
        without_elbo: Collection[str] = (),
    ):
        self._effort, self._without_elbo = effort, frozenset(without_elbo)
        self._started = self._last = time.monotonic()
        self._spent: dict[str, _Spent] = {}
        self._line = Line()
        self._shown: dict[str, str] = {}
        self._tell = listener(progress, self._write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()

    def update(
        self, phase: str, done: int, ahead: Mapping[str, float], objective: float | None, score: float | None
    ) -> None:
        """Report that `done` rounds are done, the last of them in a phase, and how many are ahead in each."""
        now = time.monotonic()
        kind = phase if phase in self._effort else ""
        passes, total, first = self._spent.get(kind, _Spent(0, 0.0, now - self._last))
        self._spent[kind] = _Spent(passes + 1, total + now - self._last, first)
        self._last = now
        if self._tell is not None:
            planned = done + round(sum(ahead.values()))
            told = FitProgress(phase, done, planned, objective, score, now - self._started, self._left(ahead))
            self._tell(told)

    def _left(self, ahead: Mapping[str, float]) -> float | None:
        """From the time that rounds of the same phase took; of phases to come, from that of the last one."""
        if not sum(ahead.values()):
            return 0.0
        if sum(spent.passes for spent in self._spent.values()) < 2:
            return None  # the only one so far has compiled
        last = next(reversed(self._spent))
        of_effort = self._spent[last].mean / self._effort.get(last, 1.0)
        seconds = 0.0
        for kind, rounds in ahead.items():
            known = self._spent.get(kind)
            seconds += rounds * (known.mean if known else of_effort * self._effort.get(kind, 1.0))
        return seconds

    def _write(self, progress: FitProgress) -> None:
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
