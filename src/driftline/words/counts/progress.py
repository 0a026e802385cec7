"""Progress of a count, for people: one line on a terminal, rewritten in place."""

import time
from collections.abc import Callable
from typing import NamedTuple

from driftline.terminal import Line, listener


class CountProgress(NamedTuple):
    """How far a count is.

    Attributes:
        phase: "reading" texts, or "pairing" words.
        share: Share of this phase that is done, or None if it is not known.
        tokens: Words that have been read, or paired.
        seconds: Time since the count began.
        tokens_per_second: Words of this phase divided by its time.
    """

    phase: str
    share: float | None
    tokens: int
    seconds: float
    tokens_per_second: float


class CountReporter:
    """Tells a user's function, or a terminal, how far a count is.

    Args:
        progress: A function of a `CountProgress`; True or False; or None to write only to a terminal.
    """

    def __init__(self, progress: bool | None | Callable[[CountProgress], object]):
        self._started = self._phase_started = self._last_told = time.monotonic()
        self._phase = ""
        self._line = Line()
        self._tell = listener(progress, self._write)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._line.close()

    def update(self, phase: str, tokens: int, share: float | None) -> None:
        """Report the words of a phase so far."""
        if self._tell is None:
            return
        now = time.monotonic()
        if phase != self._phase:
            self._phase, self._phase_started = phase, self._last_told
        self._last_told = now
        rate = tokens / max(now - self._phase_started, 1e-9)
        self._tell(CountProgress(phase, share, tokens, now - self._started, rate))

    def _write(self, progress):
        share = "" if progress.share is None else f"  {progress.share:4.0%}"
        self._line.write(
            f"{progress.phase}{share}  {progress.tokens:,} words  "
            f"{progress.tokens_per_second / 1e6:.1f} million a second  {progress.seconds:.0f} s"
        )
