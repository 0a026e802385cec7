"""Exit codes of commands that a signal stopped."""

import signal


def stopped_by(stop: KeyboardInterrupt) -> int:
    """128 and the number of the signal, as shells have it: 130 for Ctrl-C, 143 for SIGTERM."""
    return 128 + int(stop.args[0] if stop.args else signal.SIGINT)
