"""A line on a terminal that is written again and again in place, and who is told of progress."""

import sys
import time
from collections.abc import Callable
from typing import Any


class Line:
    """One line on stderr; writing it again replaces it, at most ten times a second."""

    def __init__(self):
        self._width = 0
        self._last_written = float("-inf")

    def write(self, text: str) -> None:
        """Show a text in place of the last one, unless that is too new."""
        now = time.monotonic()
        if now - self._last_written < 0.1:
            return
        self._last_written = now
        self._width = max(self._width, len(text))
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()

    def close(self) -> None:
        """End the line, if there is one."""
        if self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._width = 0


def listener(progress: Any, write: Callable[[Any], object]) -> Callable[[Any], object] | None:
    """Who is told: the user's function; or `write` if asked for, or by default on a terminal; or nobody."""
    if callable(progress):
        return progress
    if progress or (progress is None and sys.stderr.isatty()):
        return write
    return None
