"""Work shared among processes, with the results in the order of the jobs."""

import collections
import concurrent.futures
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any


class Workers:
    """Runs a function on job after job, here or in several processes; results come in the order of the jobs.

    Processes are spawned, not forked, since a fork of a process that has used JAX may hang. A script that
    asks for them must therefore keep its own work under `if __name__ == "__main__":`.

    Args:
        processes: How many processes; 1 for this one only.
    """

    def __init__(self, processes: int):
        self._processes = processes
        self._pool = self._leash = None
        if processes > 1:
            context = multiprocessing.get_context("spawn")
            theirs, self._leash = context.Pipe(duplex=False)
            self._pool = concurrent.futures.ProcessPoolExecutor(
                processes, context, initializer=_prepare, initargs=(theirs,)
            )

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self._pool is None or self._leash is None:
            return
        if kind is not None:
            self._leash.close()  # nobody waits for the rest of the work
        self._pool.shutdown(cancel_futures=True)
        self._leash.close()

    def map(self, function: Callable[..., Any], jobs: Iterable[tuple]) -> Iterator[Any]:
        """Results of `function(*job)`; only a few jobs are taken ahead of time."""
        if self._pool is None:
            yield from (function(*job) for job in jobs)
            return
        _check_picklable(function)
        with _explained():
            waiting = collections.deque()
            for job in jobs:
                waiting.append(self._pool.submit(function, *job))
                if len(waiting) > 2 * self._processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _prepare(leash: Any) -> None:
    """What a worker does first."""
    # Ctrl-C reaches all processes of a terminal; the one that started this stops it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Any) -> None:
    """End this process when the other end of a pipe is closed: by who started it, or by the system.

    The system does so when that process is gone, even if it was killed and could say nothing.
    """
    leash.poll(None)
    os._exit(1)


def _check_picklable(function):
    # That is how processes hand work to each other; nothing is ever read from a file in this way.
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"the tokeniser cannot be sent to other processes ({error}); define it with `def` at the top of "
            "a module, or pass processes=1"
        ) from None


@contextlib.contextmanager
def _explained():
    try:
        yield
    except BrokenProcessPool as error:
        raise RuntimeError(
            "a worker process ended before its work; a script that asks for processes must keep its own work "
            "under `if __name__ == '__main__':`, and there must be enough memory; or pass processes=1"
        ) from error
