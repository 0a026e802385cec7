"""A line on a terminal that is written again and again in place, and who is told of progress."""

import sys
import time
from collections.abc import Callable
from typing import Any

INTERVAL = 0.1  # seconds for which a text stays


class Line:
    """One line on stderr; writing it again replaces it, at most ten times a second."""

    def __init__(self):
        self._width = 0
        self._last_written = float("-inf")
        self._waiting: str | None = None

    def write(self, text: str) -> None:
        """Show a text in place of the last one; if that is too new, only if it is the last of all."""
        now = time.monotonic()
        if now - self._last_written < INTERVAL:
            self._waiting = text
            return
        self._last_written = now
        self._show(text)

    def _show(self, text):
        self._waiting = None
        self._width = max(self._width, len(text))
        _write("\r" + text.ljust(self._width))

    def close(self) -> None:
        """End the line, if there is one, with the last text."""
        if self._waiting is not None:
            self._show(self._waiting)
        if self._width:
            _write("\n")
            self._width = 0


def is_there() -> bool:
    """Whether somebody reads stderr on a terminal; it may as well be closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def _write(text):
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


def listener(progress: Any, write: Callable[[Any], object]) -> Callable[[Any], object] | None:
    """Who is told: the user's function; or `write` if asked for, or by default on a terminal; or nobody."""
    if callable(progress):
        return progress
    if progress or (progress is None and is_there()):
        return write
    return None
