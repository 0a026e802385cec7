"""Choose between the sequential and the parallel order by the device that the program runs on."""

from collections.abc import Callable

from jax import lax

from driftline.linalg import parallel, sequential


def by_backend(name: str) -> Callable:
    """The function `name` of `sequential` on CPUs and of `parallel` on every other backend."""
    on_cpu, elsewhere = getattr(sequential, name), getattr(parallel, name)

    def chosen(*arrays):
        return lax.platform_dependent(*arrays, cpu=on_cpu, default=elsewhere)

    chosen.__name__ = name
    return chosen
