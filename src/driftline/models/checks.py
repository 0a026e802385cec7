"""Checks for what a model is built with.

Every number is kept as a float64 array, so that changing it does not trigger a new compilation.
"""

import inspect
from collections.abc import Callable

import jax
import numpy as np

from driftline.models.parameters import Learn, narrowed

ARRAY_OF_LEARNT = (
    "an array of numbers to be learnt; make it one mark of an array, dl.learn([0.1, 0.2], positive=True)"
)


def number(
    owner: str,
    name: str,
    value: object,
    *,
    positive: bool = False,
    between: tuple[float, float] | None = None,
) -> np.ndarray | Learn:
    """A finite number, or array of numbers, that a model is built with.

    Args:
        owner: The class it belongs to, for the error message.
        name: The argument's name.
        value: What the user gave.
        positive: Whether it must be greater than zero.
        between: Ends of where it must be, themselves not allowed.

    Returns:
        The number as an array, or, if it is to be learnt, its mark with the support that is allowed here.
    """
    lower, upper = (0.0, np.inf) if positive else between or (-np.inf, np.inf)
    if isinstance(value, Learn):
        return narrowed(value, f"{owner}({name}=...)", lower, upper)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        if any(isinstance(leaf, Learn) for leaf in jax.tree.leaves(value)):
            raise TypeError(f"{owner}({name}=...) is {ARRAY_OF_LEARNT}") from error
        raise TypeError(
            f"{owner}({name}=...) takes a number or an array of numbers, got {value!r}"
        ) from error
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{owner}({name}=...) must be finite, got {value!r}")
    if positive and not np.all(array > 0):
        raise ValueError(f"{owner}({name}=...) must be greater than zero, got {value!r}")
    if between is not None and not np.all((array > lower) & (array < upper)):
        raise ValueError(f"{owner}({name}=...) must lie between {lower:g} and {upper:g}, got {value!r}")
    return array


def shape_of(owner: str, shape: object) -> tuple[int, ...]:
    """The shape of one time step of the path, as a tuple of positive integers."""
    sizes = (shape,) if isinstance(shape, int | np.integer) else shape
    if not isinstance(sizes, tuple | list) or not all(
        isinstance(size, int | np.integer) and size > 0 for size in sizes
    ):
        raise ValueError(
            f"{owner}(shape=...) takes a tuple of positive integers, () for a scalar path, got {shape!r}"
        )
    return tuple(int(size) for size in sizes)


def numbers(owner: str, params: object) -> object:
    """The numbers that a user's function takes, as arrays, so that new values do not recompile it.

    Args:
        owner: The class that takes them, for the error message.
        params: What the user gave: a number, or dicts and lists of numbers, some of them to be learnt.
    """
    return jax.tree_util.tree_map_with_path(lambda path, leaf: _entry(owner, path, leaf), params)


def _entry(owner, path, leaf):
    if isinstance(leaf, Learn):
        return leaf
    array = np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        where = f"{owner}(params=...): the entry params{jax.tree_util.keystr(path)}"
        if any(isinstance(entry, Learn) for entry in array.flat):
            raise TypeError(f"{where} is {ARRAY_OF_LEARNT}")
        raise TypeError(f"{where} is not a number or an array of numbers, but {leaf!r}")
    return array


def stretches_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of one shape can be broadcast to another."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def fits_shape(owner: str, name: str, value: np.ndarray | Learn, shape: tuple[int, ...]) -> None:
    """Refuse a number that cannot stand at every element of one time step."""
    value = value.start if isinstance(value, Learn) else value
    if not stretches_to(value.shape, shape):
        raise ValueError(
            f"{owner}({name}=...) has shape {value.shape}, which does not fit a time step of shape {shape}; "
            f"pass {owner}(shape={value.shape}, ...) for a path with one element each"
        )


def takes(what: str, function: Callable, names: tuple[str, ...], num_extra: int) -> None:
    """Refuse a user's function that cannot be called with the arguments it will get."""
    if not callable(function):
        raise TypeError(f"{what} takes a function of ({', '.join(names)}), got {function!r}")
    names = names + ("params",) * num_extra
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        raise TypeError(f"{what} is called as function({', '.join(names)}): {error}") from error
    except ValueError:  # a builtin without a signature: it will speak for itself when called
        return
