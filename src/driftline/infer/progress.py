"""Progress of a fit, for people: one line on a terminal, rewritten in place."""

import time
from collections.abc import Callable
from typing import NamedTuple

from driftline.terminal import Line, listener


class Progress(NamedTuple):
    """How far a fit is.

    Attributes:
        method: Name of the method.
        iteration: Steps taken.
        max_iterations: Steps after which the fit stops in any case; None where its tolerance alone ends it.
        elbo: Latest estimate of the ELBO.
        gradient_norm: Root mean square of the gradient.
        seconds: Time since the start.
        seconds_left: Time that is left at most; NaN where nothing is known of it.
    """

    method: str
    iteration: int
    max_iterations: int | None
    elbo: float
    gradient_norm: float
    seconds: float
    seconds_left: float


class Reporter:
    """Tells a user's function, or a terminal, how far a fit is.

    Args:
        method: Name of the method.
        max_iterations: Steps after which the fit stops in any case; None where there are none.
        progress: A function of a `Progress`; True or False; or None to write only to a terminal.
    """

    def __init__(
        self,
        method: str,
        max_iterations: int | None,
        progress: bool | None | Callable[[Progress], object],
    ):
        self._method = method
        self._max_iterations = max_iterations
        self._started = time.monotonic()
        self._line = Line()
        self._tell = listener(progress, self._write)

    def update(self, iteration: int, elbo: float, gradient_norm: float) -> None:
        """Report a number of steps taken."""
        if self._tell is None:
            return
        seconds = time.monotonic() - self._started
        limit = float("nan") if self._max_iterations is None else self._max_iterations
        left = seconds / max(iteration, 1) * (limit - iteration)
        self._tell(
            Progress(self._method, iteration, self._max_iterations, elbo, gradient_norm, seconds, left)
        )

    def close(self) -> None:
        """End the line."""
        self._line.close()

    def _write(self, progress):
        limit = progress.max_iterations
        count = f"{progress.iteration}" if limit is None else f"{progress.iteration}/{limit}"
        left = "" if limit is None else f", at most {progress.seconds_left:.0f} s left"
        self._line.write(
            f"{progress.method} {count}  ELBO {progress.elbo:.2f}  gradient {progress.gradient_norm:.2g}  "
            f"{progress.seconds:.0f} s{left}"
        )


class DrawProgress(NamedTuple):
    """How far a sampler is.

    Attributes:
        draws: Draws of every chain so far, those of the warm-up included.
        total: Draws of every chain in all.
        step: Length of a step, in radians; far below 0.5 the posterior is far from the fit.
        seconds: Time since the start.
        seconds_left: Time that is left, about.
    """

    draws: int
    total: int
    step: float
    seconds: float
    seconds_left: float


class DrawReporter:
    """Tells a user's function, or a terminal, how far a sampler is.

    Args:
        progress: A function of a `DrawProgress`; True or False; or None to write only to a terminal.
    """

    def __init__(self, progress: bool | None | Callable[[DrawProgress], object]):
        self._started = time.monotonic()
        self._line = Line()
        self._tell = listener(progress, self._write)

    def update(self, draws: int, total: int, step: float) -> None:
        """Report a number of draws."""
        if self._tell is None:
            return
        seconds = time.monotonic() - self._started
        self._tell(DrawProgress(draws, total, step, seconds, seconds / draws * (total - draws)))

    def close(self) -> None:
        """End the line."""
        self._line.close()

    def _write(self, progress):
        self._line.write(
            f"refining {progress.draws}/{progress.total} draws of every chain  step {progress.step:.2g}  "
            f"{progress.seconds:.0f} s, about {progress.seconds_left:.0f} s left"
        )
