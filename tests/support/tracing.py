"""What a function does when traced or compiled: shapes of intermediate arrays, loops, residuals."""

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

# Compiles four times as fast as `jax.jit` to a slower program: for large functions that run once.
jit_for_one_run = partial(
    jax.jit,
    compiler_options={"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False},
)


def equations(function, *args) -> Iterator[JaxprEqn]:
    """All equations of the traced function, those of inner functions, loops and branches included."""
    yield from _walk(jax.make_jaxpr(function)(*args))


def count_primitives(function, *args) -> Counter:
    """How often each primitive occurs, in whatever branch or rule."""
    return Counter(equation.primitive.name for equation in equations(function, *args))


def quadratic_shapes(function, *args, num_steps: int) -> set[tuple[int, ...]]:
    """Shapes of intermediate arrays with two axes of T - 1 or more, or with as many numbers as those."""
    limit = num_steps - 1
    closed = jax.make_jaxpr(function)(*args)
    shapes = {variable.aval.shape for equation in _walk(closed) for variable in equation.outvars}
    shapes |= {inner.shape for inner in _constants(closed)}
    return {
        shape
        for shape in shapes
        if sum(axis >= limit for axis in shape) >= 2 or math.prod(shape) >= limit * limit
    }


def count_compiled_loops(function, *args) -> int:
    """The number of loops in the program that XLA makes for this machine."""
    return jax.jit(function).lower(*args).compile().as_text().count(" while(")


def residual_sizes(function, *args) -> list[int]:
    """Sizes of the arrays that reverse mode keeps between its two passes."""
    _, backward = jax.vjp(function, *args)
    return [leaf.size for leaf in jax.tree.leaves(backward)]


def _walk(jaxpr) -> Iterator[JaxprEqn]:
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inner(equation):
            yield from _walk(inner)


def _inner(equation) -> Iterator[Jaxpr | ClosedJaxpr]:
    leaves = jax.tree.leaves(equation.params, is_leaf=_is_jaxpr)
    return (leaf for leaf in leaves if _is_jaxpr(leaf))


def _constants(closed) -> Iterator[jax.Array]:
    yield from closed.consts
    for equation in _walk(closed):
        for inner in _inner(equation):
            yield from getattr(inner, "consts", ())


def _is_jaxpr(value) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)
