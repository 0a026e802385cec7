"""What signals do to commands, and the exit codes of those that they stopped."""

import contextlib
import signal
import threading
from collections.abc import Iterator


def stopped_by(stop: KeyboardInterrupt) -> int:
    """128 and the number of the signal, as shells have it: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + int(stop.args[0] if stop.args else signal.SIGINT)


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """End on SIGTERM as on Ctrl-C: what was opened is closed, and processes that were started end, too.

    Not for commands that fit: a fit takes the signal itself, to save its state first.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(number, _):
    raise KeyboardInterrupt(number)
