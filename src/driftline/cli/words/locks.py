"""One process at a time for one result: a lock that goes with the process that holds it, however it ends."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None
try:
    import msvcrt
except ImportError:  # only there
    msvcrt = None

BUSY = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Refuse to go on while another process is writing to the same place.

    A hidden file beside it is locked, and removed at the end. A process that is killed leaves the file there
    but not the lock, so that nothing needs to be cleaned up. Where files cannot be locked, nothing is.

    Args:
        path: Where the result will go, in a folder that exists.
    """
    place = path.resolve()
    lock = place.with_name(f".{place.name}.lock")
    handle = _taken(lock, path)
    try:
        yield
    finally:
        # Removed while it is held, so that it is not somebody else's; Windows removes closed files only.
        if fcntl is None:
            os.close(handle)
        with contextlib.suppress(OSError):
            lock.unlink()
        if fcntl is not None:
            os.close(handle)


def _taken(lock, path):
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(handle)
        except OSError as error:
            if error.errno in BUSY:
                os.close(handle)
                raise ValueError(
                    f"another process is writing {path} at this moment; wait until it has ended, or name "
                    "another place with -o"
                ) from None
        if _is_still(lock, handle):
            return handle
        os.close(handle)


def _lock(handle):
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]


def _is_still(lock, handle):
    """Whether the file that was locked has not been removed by who held it before."""
    try:
        return os.path.samestat(os.stat(lock), os.fstat(handle))
    except FileNotFoundError:
        return False
