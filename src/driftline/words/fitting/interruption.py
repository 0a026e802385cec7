"""What ends a run before its end: a signal, or the time that it was given."""

import signal
import threading
import time
from typing import Any, Self


class Limit:
    """The time that a fit may take."""

    def __init__(self, minutes: float | None = None):
        if minutes is not None and not minutes > 0:
            raise ValueError(f"minutes={minutes!r}; a positive number is needed")
        self._minutes, self._began = minutes, time.monotonic()
        self.reached = False
        self.message = f"stopped after the {minutes:g} minutes that were given" if minutes else ""

    def check(self) -> bool:
        """Whether the time is up."""
        self.reached = self._minutes is not None and time.monotonic() - self._began >= 60.0 * self._minutes
        return self.reached


class Interruption:
    """Ctrl-C asks for a stop at the end of the pass, when the state is whole; a second one stops at once.

    So does SIGTERM, unless the program does something about it already.

    Attributes:
        signal: Number of the signal that asked, or None.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether a stop was asked for."""
        return self.signal is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._ask)
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt(number)
        self.signal = number
