"""Errors of the operating system, with the place and a remedy."""

import errno


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
