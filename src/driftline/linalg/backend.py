"""Choose between the sequential and the parallel order by the device that the program runs on."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

from collections.abc import Callable
from typing import cast

import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array

from driftline.linalg import parallel, sequential

Kernel = Callable[..., Array]


def by_backend(name: str) -> Kernel:
    """The function `name` of `sequential` on CPUs and of `parallel` on every other backend."""
    on_cpu: Kernel = getattr(sequential, name)
    elsewhere: Kernel = getattr(parallel, name)

    def chosen(*arrays: ArrayLike) -> Array:
        operands = [jnp.asarray(array) for array in arrays]
        types = [operand.dtype for operand in operands]
        if len(set(types)) > 1 or not jnp.issubdtype(types[0], jnp.floating):
            raise TypeError(
                f"arrays of one floating-point type are needed, got {', '.join(map(str, types))}; convert "
                "them with astype"
            )
        return cast(Array, lax.platform_dependent(*operands, cpu=on_cpu, default=elsewhere))

    chosen.__name__ = name
    return chosen
