"""The yardstick of the limits: what a plain copy takes that moves the same number of bytes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FRESH, IN_USE = "fresh copy", "copy in place"


def copies(num_arrays: float, size: int, dtype: Any) -> dict[str, Callable[[], Any]]:
    """Two ways to copy `num_arrays` arrays of `size` numbers; a fraction means a shorter last array.

    The result of a compiled function lies in memory that the system first has to hand out and to clear,
    page by page. The fresh copy, by XLA, pays for that as any single call does. The copy in place, by
    `np.copyto` into memory already in use, does not: it is the bare speed of memory on one core.
    """
    whole = int(num_arrays)
    sizes = [size] * whole + ([round(size * (num_arrays - whole))] if num_arrays > whole else [])
    sources = [jnp.ones(length, dtype) for length in sizes]
    views = [np.asarray(source) for source in sources]
    targets = [np.ones_like(view) for view in views]
    copy = jax.jit(lambda arrays: [jnp.copy(array) for array in arrays]).lower(sources).compile()

    def copy_in_place():
        for target, view in zip(targets, views, strict=True):
            np.copyto(target, view)

    return {FRESH: lambda: copy(sources), IN_USE: copy_in_place}
