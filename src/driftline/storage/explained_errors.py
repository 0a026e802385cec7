"""Errors with the place and a remedy: of the operating system, and of contents that are not sound."""

import contextlib
import errno
import os
from collections.abc import Generator

# What comes of contents that do not go together, although the checksum fits.
UNSOUND = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def explained(error: OSError, what: str, remedy: str) -> OSError:
    """The same error, of the same kind and number, that says what failed and what to do.

    Args:
        error: What was raised.
        what: What failed, such as "could not write x.atlas".
        remedy: What to do about it.
    """
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = "the disk is full"
    return type(error)(error.errno, f"{what}: {reason}; {remedy}")


@contextlib.contextmanager
def refusing_unsound(path: str | os.PathLike[str], what: str, remedy: str) -> Generator[None, None, None]:
    """Whatever goes wrong when a file's contents are checked and used becomes one error that names the file.

    Args:
        path: The file.
        what: What it should hold, such as "a sound posterior".
        remedy: What to do about it.
    """
    try:
        yield
    except UNSOUND as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{os.fspath(path)} does not hold {what} ({reason}); {remedy}") from error
