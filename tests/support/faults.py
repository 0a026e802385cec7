"""Faults of the operating system while a file is written: at any write, flush to disk or renaming."""

import contextlib
import io
import os
from collections.abc import Callable, Iterator

from driftline.storage import checked_files as files

BUFFER = 512  # bytes, so that small files take several writes, too


class Faults:
    """Counts operations, and raises an error at one of them.

    Args:
        at: Number of that operation, from 1 on; 0 for none.
        error: Makes the error.
    """

    def __init__(self, at: int = 0, error: Callable[[], BaseException] = KeyboardInterrupt):
        self.count = 0
        self._at, self._error = at, error

    def _tick(self):
        self.count += 1
        if self.count == self._at:
            raise self._error()

    def _fdopen(self, handle, *_):
        tick = self._tick

        class Raw(io.FileIO):
            def write(self, data):
                tick()
                return super().write(data)

        return io.BufferedWriter(Raw(handle, "w"), BUFFER)

    @contextlib.contextmanager
    def injected(self) -> Iterator[None]:
        """While this lasts, files are written through here."""
        before = {name: getattr(os, name) for name in ("fdopen", "fsync", "replace")}

        def counted(name):
            def function(*arguments):
                self._tick()
                return before[name](*arguments)

            return function

        try:
            files.os.fdopen, files.os.fsync, files.os.replace = (
                self._fdopen,
                counted("fsync"),
                counted("replace"),
            )
            yield
        finally:
            for name, function in before.items():
                setattr(os, name, function)
