"""What cannot be read as an array, refused in words before NumPy or JAX stumble over it."""

from typing import Any

import numpy as np
from jax.core import Tracer


def refuse_unreadable(what: str, x: Any) -> None:
    """Refuse tracers, text, what has no order or can be read only once, and lists of unequal entries.

    Args:
        what: What the data are, such as "the series".
        x: The data as the user passed them.
    """
    if isinstance(x, str | bytes):
        raise TypeError(f"{what} is text, {x!r}; pass a list or an array with time first")
    if isinstance(x, set | frozenset):
        raise TypeError(f"{what} is a set, which has no order; pass a list or an array with time first")
    if hasattr(x, "__iter__") and not hasattr(x, "__getitem__") and not hasattr(x, "__array__"):
        raise TypeError(f"{what} is a {type(x).__name__}, which is read as it goes; pass list(...) of it")
    if any(isinstance(entry, Tracer) for entry in (x if isinstance(x, list | tuple) else [x])):
        raise TypeError(
            f"{what} is traced by JAX, but a fit cannot be part of jax.jit, jax.grad or jax.vmap, because it "
            "decides by values; call it outside of them"
        )
    if isinstance(x, list | tuple):
        _refuse_ragged(what, x)


def _refuse_ragged(what, x):
    sizes = [len(entry) if _is_list(entry) else None for entry in x]
    odd = next((step for step, size in enumerate(sizes) if size != sizes[0]), None)
    if odd is not None:
        raise ValueError(
            f"{what} has {_size(sizes[0])} at step 0, but {_size(sizes[odd])} at step {odd}; every step "
            "needs the same shape, with NaN where nothing was observed; series of different lengths go into "
            "a dict"
        )
    for step, entry in enumerate(x):
        if isinstance(entry, list | tuple):
            _refuse_ragged(f"step {step} of {what}", entry)


def _is_list(entry):
    return isinstance(entry, list | tuple) or (isinstance(entry, np.ndarray) and entry.ndim > 0)


def _size(size):
    return "one value" if size is None else f"{size} values"
