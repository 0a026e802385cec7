"""Standard streams that were closed before the command began, as by `2>&-` in a shell."""

import os
import sys


def fill_closed() -> None:
    """Open the null device in place of streams that are closed.

    Otherwise the next file that is opened, such as a result, takes the number of the stream, and whatever
    writes warnings there writes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if _is_closed(number):
            _open_nothing(number)
        if getattr(sys, name) is None and number > 0:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, as long as the process


def _open_nothing(number):
    handle = os.open(os.devnull, os.O_RDWR)
    if handle == number:
        os.set_inheritable(handle, True)  # as a standard stream is
    else:
        os.dup2(handle, number)
        os.close(handle)


def _is_closed(number):
    try:
        os.fstat(number)
    except OSError:
        return True
    return False
