"""Progress of a fit, for people: one line on a terminal, rewritten in place."""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """How far a fit is.

    Attributes:
        method: Name of the method.
        iteration: Steps taken.
        max_iterations: Steps after which the fit stops in any case.
        elbo: Latest estimate of the ELBO.
        gradient_norm: Root mean square of the gradient.
        seconds: Time since the start.
        seconds_left: Time that is left at most.
    """

    method: str
    iteration: int
    max_iterations: int
    elbo: float
    gradient_norm: float
    seconds: float
    seconds_left: float


class Reporter:
    """Tells a user's function, or a terminal, how far a fit is.

    Args:
        method: Name of the method.
        max_iterations: Steps after which the fit stops in any case.
        progress: A function of a `Progress`; True or False; or None to write only to a terminal.
    """

    def __init__(
        self,
        method: str,
        max_iterations: int,
        progress: bool | None | Callable[[Progress], object],
    ):
        self._method = method
        self._max_iterations = max_iterations
        self._started = time.monotonic()
        self._last_written = float("-inf")
        self._width = 0
        if callable(progress):
            self._tell = progress
        elif progress or (progress is None and sys.stderr.isatty()):
            self._tell = self._write
        else:
            self._tell = None

    def update(self, iteration: int, elbo: float, gradient_norm: float) -> None:
        """Report a number of steps taken."""
        if self._tell is None:
            return
        seconds = time.monotonic() - self._started
        left = seconds / max(iteration, 1) * (self._max_iterations - iteration)
        self._tell(
            Progress(self._method, iteration, self._max_iterations, elbo, gradient_norm, seconds, left)
        )

    def close(self) -> None:
        """End the line."""
        if self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._width = 0

    def _write(self, progress):
        if progress.seconds - self._last_written < 0.1:
            return
        self._last_written = progress.seconds
        line = (
            f"{progress.method} {progress.iteration}/{progress.max_iterations}  "
            f"ELBO {progress.elbo:.2f}  gradient {progress.gradient_norm:.2g}  "
            f"{progress.seconds:.0f} s, at most {progress.seconds_left:.0f} s left"
        )
        self._width = max(self._width, len(line))
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
