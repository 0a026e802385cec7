"""L-BFGS up an objective that is known by its gradient only, from a start whose curvature is about known.

Values of an ELBO over millions of counts are rounded to whole nats in single precision, and cost as much as
gradients; slopes along a line are exact enough, and are there anyway. Whoever calls looks at the objective
after some steps, and takes them back if it fell.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

OVERSHOT = 0.9  # a step is taken back if the slope at its end is below minus this much of that at its start
SHORTEST = 1e-4  # of a full step
LAST = 3  # steps that are looked at, to tell whether more are worth it
LITTLE = 0.01  # of all that was gained: what a step must gain for another to be taken


class Climbed(NamedTuple):
    """Where some steps have led, how many gradients they took, and the length of the first of them."""

    place: Any
    gradients: int
    first: float


def climb(
    gradient: Callable[[Any], Any],
    precondition: Callable[[Any], Any],
    place: Any,
    slope: Any = None,
    *,
    steps: int,
    memory: int,
    boldness: float = 1.0,
    enough: float | None = None,
) -> Climbed:
    """Take some steps up, until they gain little.

    Args:
        gradient: Of the objective, at a place; a place is any pytree of arrays.
        precondition: Multiplies by an approximate inverse of the curvature.
        place: Where to begin.
        slope: The gradient there, if it is known.
        steps: How many, at most.
        memory: How many steps are remembered.
        boldness: Length of the first step, in units of the one that the curvature asks for.
        enough: What a step must gain for another to be taken; more, after steps that gained much. If None,
            all steps are taken.
    """
    gradients, first = int(slope is None), 0.0
    gains: list[float] = []
    slope = gradient(place) if slope is None else slope
    pairs: list[tuple[Any, Any]] = []
    for _ in range(steps):
        direction = _direction(slope, precondition, pairs)
        rise = _dot(slope, direction)
        if not rise > 0.0:  # what is remembered does not fit this place
            pairs = []
            direction = precondition(slope)
            rise = _dot(slope, direction)
        if not rise > 0.0:
            break
        length = 1.0 if pairs else boldness
        while True:
            ahead = _move(place, direction, length)
            slope_ahead = gradient(ahead)
            gradients += 1
            rise_ahead = _dot(slope_ahead, direction)
            if rise_ahead >= -OVERSHOT * rise or length < SHORTEST:
                break
            # The zero of the line through both slopes; not finite, or far out: well back.
            shorter = rise / (rise - rise_ahead) if rise_ahead > -1e6 * rise else 0.1
            length *= min(max(shorter, 0.1), 0.6)
        first = first or length
        pairs = _remembered(pairs, place, ahead, slope, slope_ahead, memory)
        place, slope = ahead, slope_ahead
        gains.append(0.5 * length * (rise + rise_ahead))  # by the trapezium of the slopes at both ends
        if length < SHORTEST or (enough is not None and _is_little(gains, enough)):
            break
    return Climbed(place, gradients, first)


def _is_little(gains, enough):
    """Whether the last steps have gained little; a single one may do so by chance."""
    return len(gains) >= LAST and sum(gains[-LAST:]) < LAST * max(enough, LITTLE * sum(gains))


def _remembered(pairs, place, ahead, slope, slope_ahead, memory):
    """The last steps and by how much the slope fell on each; those on which it did not tell nothing."""
    pairs = pairs[max(0, len(pairs) - memory + 1) :]
    step, fall = _difference(ahead, place), _difference(slope, slope_ahead)
    return [*pairs, (step, fall)] if _dot(step, fall) > 0.0 else pairs


def _direction(slope, precondition, pairs):
    """The two loops of L-BFGS."""
    shares = []
    for step, fall in reversed(pairs):
        share = _dot(step, slope) / _dot(step, fall)
        slope = _move(slope, fall, -share)
        shares.append(share)
    direction = precondition(slope)
    for (step, fall), share in zip(pairs, reversed(shares), strict=True):
        direction = _move(direction, step, share - _dot(fall, direction) / _dot(step, fall))
    return direction


@jax.jit
def _inner(first, second):
    products = jax.tree.map(lambda a, b: jnp.vdot(a, b, precision="highest"), first, second)
    return sum(jax.tree.leaves(products))


def _dot(first, second):
    return float(_inner(first, second))


@jax.jit
def _move(place, direction, length):
    return jax.tree.map(lambda x, step: x + jnp.asarray(length, x.dtype) * step, place, direction)


@jax.jit
def _difference(first, second):
    return jax.tree.map(jnp.subtract, first, second)
