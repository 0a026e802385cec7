"""Count what XLA compiles."""

import contextlib

import jax
import jax.monitoring

_COMPILED: list[str] = []


@jax.monitoring.register_event_duration_secs_listener
def _listen(event, duration, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        _COMPILED.append(event)


@contextlib.contextmanager
def counted():
    """Yields a list that holds one entry for every program compiled since."""
    before = len(_COMPILED)
    found = []
    yield found
    found.extend(_COMPILED[before:])
