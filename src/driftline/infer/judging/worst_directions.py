"""Along which direction a fit is farthest from draws of the posterior.

A fit may be right in every step on its own and wrong in a sum of them, so what is looked at are single
steps, sums that swing slowly through time, sums and differences of elements, and directions that the
draws themselves single out. These are sought with one half of the draws and judged with the other, so that
chance does not make them.
"""

import itertools
from statistics import NormalDist
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from driftline.families import AbstractFamily

SOUGHT = 3  # directions that draws single out, from each half
SLOW = 4  # swings through time: none, half a one, one, one and a half
MOST_PAIRED = 4  # elements of a step up to which their sums and differences are looked at
FALSE_ALARM = 1e-3  # rate at which a right fit is said to be wrong beyond chance


class Worst(NamedTuple):
    """The direction in which a fit is farthest off.

    Attributes:
        shift: By how many of the fit's standard deviations its mean is off, at least: beyond chance.
        ratio: The posterior's standard deviation divided by the fit's, as near to one as chance allows.
        shift_along: Where the shift is, in words.
        ratio_along: Where the ratio is, in words.
    """

    shift: float
    ratio: float
    shift_along: str
    ratio_along: str


class _Columns(NamedTuple):
    """Standardised draws along some directions, (groups, draws, directions), and what they are called."""

    values: np.ndarray
    names: list[str]


def worst(
    paths: np.ndarray,
    q: AbstractFamily,
    mean: np.ndarray,
    sd: np.ndarray,
    *,
    white: np.ndarray | None = None,
    numbers: dict[str, np.ndarray],
) -> Worst:
    """Hold draws of the posterior against a fit.

    Args:
        paths: Draws, (groups, draws, T, *shape); groups know nothing of each other.
        q: The fit.
        mean: Its mean.
        sd: Its standard deviations.
        white: The draws in coordinates in which the fit is a standard normal; None for those of `q`. With
            learnt numbers `q` has only some moments of the fit, which is a mixture.
        numbers: Draws of the learnt numbers, already standardised by what the fit says of them.
    """
    steps = ((paths - mean) / sd).reshape(*paths.shape[:2], -1)
    every = [_Columns(steps, _step_names(mean.shape))]
    if white is None:
        white = np.asarray(_whitened(q, jnp.asarray(paths - mean)))
    white = white.reshape(steps.shape)
    half = len(paths) // 2
    for sought, judged in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        every.append(_singled_out(white[sought], white[judged]))
    every.append(_slow(paths - mean, q))
    for place, values in numbers.items():
        columns = values.reshape(*values.shape[:2], -1)
        every.append(_Columns(columns, [place] * columns.shape[2]))
    return _farthest(every)


def _step_names(shape):
    if len(shape) == 1:
        return [f"step {t}" for t in range(shape[0])]
    return [f"step {place[0]}, element {place[1:]}" for place in itertools.product(*map(range, shape))]


@eqx.filter_jit
def _whitened(q, deviations):
    return jax.lax.map(jax.vmap(q.whiten), deviations)


def _singled_out(sought, judged):
    """Directions of the most variance, and that of the mean, of some draws; and others along them."""
    flat = sought.reshape(-1, sought.shape[2])
    center = flat.mean(axis=0)
    axes = np.linalg.svd(flat - center, full_matrices=False)[2][:SOUGHT]
    length = np.linalg.norm(center)
    axes = np.concatenate([axes, center[None] / (length if length > 0 else 1.0)])
    return _Columns(judged @ axes.T, ["a direction through many steps"] * len(axes))


def _slow(deviations, q):
    """Sums over all steps that swing slowly, for elements and for sums and differences of two of them."""
    num_steps, size = deviations.shape[2], int(np.prod(deviations.shape[3:]))
    when = (np.arange(num_steps) + 0.5) / num_steps
    swings = [np.cos(np.pi * k * when) for k in range(min(SLOW, num_steps))]
    units = [(f"element {i}" if size > 1 else "the path", np.eye(size)[i]) for i in range(min(size, 64))]
    if 1 < size <= MOST_PAIRED:
        for i, j in itertools.combinations(range(size), 2):
            units.append((f"the sum of elements {i} and {j}", np.eye(size)[i] + np.eye(size)[j]))
            units.append((f"the difference of elements {i} and {j}", np.eye(size)[i] - np.eye(size)[j]))
    names = [f"{name}, over all of the time" for name, _ in units for _ in swings]
    weights = np.stack([np.outer(swing, unit) for _, unit in units for swing in swings])
    weights = weights.reshape(len(weights), num_steps, *deviations.shape[3:])
    roots = np.sqrt(np.asarray(_variances(q, jnp.asarray(weights))))
    flat = deviations.reshape(*deviations.shape[:2], -1)
    return _Columns(flat @ (weights.reshape(len(weights), -1) / roots[:, None]).T, names)


@eqx.filter_jit
def _variances(q, weights):
    """Variance under q of weighted sums of all steps."""

    def one(weight):
        (half,) = jax.linear_transpose(q.unwhiten, jnp.zeros_like(q.mean))(weight)
        return jnp.sum(half**2)

    return jax.lax.map(one, weights)


def _farthest(every: list[_Columns]) -> Worst:
    names = [name for part in every for name in part.names]
    # Groups of half of the draws are fewer, so that errors are worked out for each part.
    found = [_moments(part.values) for part in every]
    shift, shift_error, log_ratio, ratio_error = (
        np.concatenate(column) for column in zip(*found, strict=True)
    )
    surely = NormalDist().inv_cdf(1.0 - FALSE_ALARM / (4 * len(names)))
    shift = np.maximum(np.abs(shift) - surely * shift_error, 0.0)
    off = np.sign(log_ratio) * np.maximum(np.abs(log_ratio) - surely * ratio_error, 0.0)
    a, b = int(np.argmax(shift)), int(np.argmax(np.abs(off)))
    return Worst(float(shift[a]), float(np.exp(off[b])), names[a], names[b])


def _moments(values):
    """Mean and log standard deviation of columns, with their standard errors.

    Errors are those of independent draws, times what groups differ by more than such.
    """
    groups, many = values.shape[:2]
    flat = values.reshape(groups * many, -1)
    mean, sd = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    sd = np.maximum(sd, 1e-300)
    kurtosis = np.mean(((flat - mean) / sd) ** 4, axis=0)
    error = sd / np.sqrt(len(flat))
    log_error = np.sqrt(np.maximum(kurtosis - 1.0, 0.5) / (4.0 * len(flat)))
    if groups > 1:
        between = values.mean(axis=1).var(axis=0, ddof=1) / groups
        extra = np.sqrt(max(1.0, float(np.mean(between / error**2))))
        error, log_error = extra * error, extra * log_error
    return mean, error, np.log(sd), log_error
