"""A temporary file for passages as numbers, so that texts are read and cut once, and not held."""

import contextlib
import errno
import tempfile
from collections.abc import Iterator

import numpy as np

from driftline.storage.explained_errors import explained
from driftline.words.texts.passages import Encoded

REMEDY = "free some space there, or name another folder in the environment variable TMPDIR"
DTYPES = {
    "ids": np.int32,
    "lengths": np.int32,
    "uses": np.int32,
    "days": np.int32,
    "weights": np.int64,
    "hands": np.int32,
}


class Spool:
    """Passages on disk, four bytes a word; the file has no name and is gone when it is closed."""

    def __init__(self):
        self._file = tempfile.TemporaryFile(prefix="driftline-")  # noqa: SIM115, closed by __exit__
        self._groups = 0
        self.size = 0  # places in all passages

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # What a full disk did not take is not wanted any more.
        with contextlib.suppress(OSError):
            self._file.close()

    def append(self, encoded: Encoded) -> None:
        """Write a group of passages; its words are not kept."""
        arrays = [np.asarray(getattr(encoded, name), dtype) for name, dtype in DTYPES.items()]
        try:
            self._file.write(np.array([len(array) for array in arrays]).tobytes())
            for array in arrays:
                self._file.write(array.tobytes())
            self._file.flush()
        except OSError as error:
            raise explained(error, f"a temporary file in {tempfile.gettempdir()}", REMEDY) from error
        self._groups += 1
        self.size += len(encoded.ids)

    def __iter__(self) -> Iterator[Encoded]:
        self._file.seek(0)
        for _ in range(self._groups):
            lengths = self._array(len(DTYPES), np.int64)
            *arrays, hands = map(self._array, lengths, DTYPES.values())
            yield Encoded([], *arrays, empty=0, hands=hands)

    def _array(self, length, dtype):
        size = int(length) * np.dtype(dtype).itemsize
        try:
            data = self._file.read(size)
        except OSError as error:
            raise explained(error, f"a temporary file in {tempfile.gettempdir()}", REMEDY) from error
        if len(data) != size:
            raise OSError(
                errno.EIO,
                f"a temporary file in {tempfile.gettempdir()} has lost {size - len(data):,} bytes; {REMEDY}",
            )
        return np.frombuffer(data, dtype)
