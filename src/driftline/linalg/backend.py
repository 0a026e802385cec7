"""Choose between the sequential and the parallel order by the device that the program runs on."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from driftline.linalg import parallel, sequential


def by_backend(name: str) -> Callable:
    """The function `name` of `sequential` on CPUs and of `parallel` on every other backend."""
    on_cpu, elsewhere = getattr(sequential, name), getattr(parallel, name)

    def chosen(*arrays):
        arrays = [jnp.asarray(array) for array in arrays]
        types = [array.dtype for array in arrays]
        if len(set(types)) > 1 or not jnp.issubdtype(types[0], jnp.floating):
            raise TypeError(
                f"arrays of one floating-point type are needed, got {', '.join(map(str, types))}; convert "
                "them with astype"
            )
        return lax.platform_dependent(*arrays, cpu=on_cpu, default=elsewhere)

    chosen.__name__ = name
    return chosen
