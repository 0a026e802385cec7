"""The way to the most probable learnt numbers, and the curvature there: one climb, or many side by side."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from driftline.families import AbstractBanded
from driftline.infer import newton
from driftline.infer.learning.fits_at_numbers import Fitted
from driftline.infer.progress import Reporter

CLIMB_TOLERANCE = 1e-7  # twice the expected rise, in nats, below which the climb ends
INNER_TOLERANCE = 1e-9  # of the fits of the path on the way: a gradient that is off by more has no such rise
NOISE, WORST_NOISE = 10.0, 1e-4  # what the last step of a fit leaves open, as a multiple of its rise; at most
LONGEST_MOVE = 2.0  # units of the first moves; longer, if such moves rise
DIFFERENCE = 0.02  # for the curvature, in units
TOO_SHORT, TOO_LONG, RIGHT = 0.01, 0.5, 0.1  # of that difference, in standard deviations
MOST_CHANGE, WIDEST = 30.0, 1e9  # of it at once; and in all, beside the size of a number
WIDTHS = 30.0  # standard deviations that are the unit of a number which has none
MOST_HALVINGS = 12

Fit = Callable[[np.ndarray, AbstractBanded], Fitted]


class Summits(NamedTuple):
    """Where climbs ended; every array has a leading axis for them.

    Attributes:
        raws: The modes, on the scale without bounds.
        best: The fits of the paths there.
        covariances: Inverses of minus the Hessians there.
        units: Of the numbers, (N, K).
        climbs: Numbers of moves.
        reached: Whether each is a mode, rather than where the climb gave up.
        interrupted: Whether the climbs were interrupted; they are then where they had come to.
    """

    raws: np.ndarray
    best: Fitted
    covariances: np.ndarray
    units: np.ndarray
    climbs: np.ndarray
    reached: np.ndarray
    interrupted: np.ndarray


def climb(
    raws: np.ndarray,
    q: AbstractBanded,
    fit: Fit,
    reporter: Reporter,
    names: Sequence[Any] = (),
    free: np.ndarray | None = None,
) -> Summits:
    """Quasi-Newton ascents; every fit of a path starts from the one before.

    A `KeyboardInterrupt` ends them where they are, unless nothing has moved yet: that is not a result.

    Where the moves become small, the true curvature decides whether this is the top or only a ridge that
    the gathered curvature knows too little of. A climb ends at the top, where a move promises less than the
    fits of the path are known to; or where even a move by the true curvature brings no more than that.

    Args:
        raws: Where each climb starts, (N, K).
        q: Families from which the first fits start, with a leading axis.
        fit: Fits the paths of all climbs at given points.
        reporter: Told about every move.
        names: Of the climbs, if there are several.
        free: Which numbers have no bounds of their own, and so no unit either; (K,). The logarithms of the
            others are of order one.
    """
    best = fit(raws, q)
    _check_start(best, names)
    free = np.zeros(raws.shape[1], bool) if free is None else free
    steepness = np.linalg.norm(best.gradient, axis=1)
    inverses = 0.1 * np.eye(raws.shape[1]) / np.maximum(1.0, steepness)[:, None, None]
    many = len(raws)
    going, reached, is_true = np.ones(many, bool), np.zeros(many, bool), np.zeros(many, bool)
    climbs, made, interrupted = np.zeros(many, int), np.zeros(many, int), False
    gains, longest, units = np.full(many, np.inf), np.full(many, LONGEST_MOVE), np.ones_like(raws)
    try:
        while going.any():
            enough = _enough(best)
            flat = going & (((climbs >= 2) & (_rises(inverses, best.gradient) < enough)) | (gains < enough))
            if (flat == going).all():  # until then, those that seem to be there wait for the others
                covariances, units, known = _covariances(raws, best, fit, inverses, free)
                inverses[flat] = covariances[flat]
                reached |= flat & known & (_rises(inverses, best.gradient) < enough)
                going &= ~reached & known & ~(is_true & (gains < enough))
                is_true = flat.copy()
                flat = np.zeros_like(going)
            moving = going & ~flat
            if moving.any():
                climbs[moving] += 1
                moves = _moves(inverses, best.gradient, longest)
                new, steps, rose = _backtrack(raws, moves, best, fit, moving)
                falls = best.gradient - new.gradient
                for i in np.flatnonzero(rose):
                    inverses[i] = _updated(inverses[i], steps[i], falls[i], climbs[i])
                gains = np.where(moving, np.where(rose, new.value - best.value, 0.0), gains)
                is_true &= ~moving | (gains < enough)
                longest = np.where((steps == moves).all(axis=1) & moving, 2.0 * longest, longest)
                raws, best, made = raws + steps, new, climbs.copy()
                steepness = float(np.sqrt(np.mean(best.gradient**2)))
                reporter.update(int(climbs.max()), float(best.elbo.sum()), steepness)
        if not reached.all():
            covariances, units, _ = _covariances(raws, best, fit, inverses, free)
            inverses[~reached] = covariances[~reached]
    except KeyboardInterrupt:
        if not made.any():
            raise
        interrupted = True
    return Summits(raws, best, inverses, units, made, reached, np.full(many, interrupted))


def _enough(best: Fitted):
    """Rises below which nothing is known: the fits of the path end when a step gains little, not nothing."""
    noise = NOISE * np.nan_to_num(best.rise, nan=np.inf) + newton.ROUNDING * np.abs(best.value)
    return CLIMB_TOLERANCE + np.minimum(noise, WORST_NOISE)


def _moves(inverses, gradients, longest):
    moves = np.einsum("nij,nj->ni", inverses, gradients)
    lengths = np.linalg.norm(moves, axis=1)
    return moves * np.minimum(1.0, longest / np.maximum(lengths, 1e-300))[:, None]


def _rises(inverses, gradients):
    """Expected rise of a full move, twice."""
    return np.einsum("ni,nij,nj->n", gradients, inverses, gradients)


def _backtrack(raws, moves, best, fit, moving) -> tuple[Fitted, np.ndarray, np.ndarray]:
    """Halve the moves that do not rise; returns the fits, the steps made, and which of them rose."""
    new, rose, steps = best, np.zeros_like(moving), np.zeros_like(moves)
    for halvings in range(MOST_HALVINGS):
        waiting = moving & ~rose
        tried = np.where(waiting[:, None], moves * 0.5**halvings, 0.0)
        found = fit(raws + steps + tried, best.q)
        slopes = np.einsum("ni,ni->n", best.gradient, tried)
        accepted = waiting & (found.value >= best.value + 1e-4 * slopes)
        accepted &= np.isfinite(found.gradient).all(axis=1)
        new = _chosen(accepted, found, new)
        steps[accepted] = tried[accepted]
        rose |= accepted
        if (rose == moving).all():
            break
    return new, steps, rose


def _chosen(mask, yes: Fitted, no: Fitted) -> Fitted:
    if mask.all():
        return yes
    if not mask.any():
        return no

    return jax.tree.map(lambda a, b: np.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b), yes, no)


def _updated(inverse, step, fall, count):
    """The BFGS update of the inverse curvature; `fall` is by how much the gradient fell."""
    curvature = step @ fall
    if curvature <= 1e-10 * np.linalg.norm(step) * np.linalg.norm(fall):
        return inverse
    if count == 1:
        inverse = np.eye(len(step)) * curvature / (fall @ fall)
    left = np.eye(len(step)) - np.outer(step, fall) / curvature
    return left @ inverse @ left.T + np.outer(step, step) / curvature


def _covariances(raws, best, fit, otherwise, free):
    """Inverses of minus the Hessians, from differences of the gradient; kept positive definite.

    Where a gradient nearby is not finite, what there was `otherwise`. Returns the units of the numbers, too,
    and where the Hessian is known.
    """
    hessians, units = _hessians(raws, best, fit, free)
    known = np.isfinite(hessians.sum(axis=(1, 2)))
    hessians[~known] = np.eye(raws.shape[1])
    scaled = 0.5 * (hessians + hessians.mT) * units[:, :, None] * units[:, None, :]
    sizes, axes = np.linalg.eigh(scaled)
    covariances = (axes / np.clip(sizes, 0.1, None)[:, None]) @ axes.mT
    covariances *= units[:, :, None] * units[:, None, :]
    return np.where(known[:, None, None], covariances, otherwise), units, known


def _hessians(raws, best, fit, free):
    """Minus the Hessians, and the units of the numbers: that of a free one follows from its curvature."""
    hessians, units = np.empty((*raws.shape, raws.shape[1])), np.ones_like(raws)
    for k in range(raws.shape[1]):
        hessians[:, k], steps = _column(k, np.full(len(raws), DIFFERENCE), raws, best, fit)
        grows, shrinks = (np.full(len(raws), bool(free[k])) for _ in range(2))
        while (grows | shrinks).any():
            new = _better_steps(steps, hessians[:, k, k], raws[:, k], grows, shrinks)
            grows, shrinks = grows & (new > steps), shrinks & (new < steps)  # one way only: it has an end
            if (new == steps).all():
                break
            column, _ = _column(k, new, raws, best, fit)
            better = np.isfinite(column).all(axis=1)
            hessians[better, k], steps = column[better], np.where(better, new, steps)
            grows, shrinks = grows & better, shrinks & better
        if free[k]:
            units[:, k] = WIDTHS / np.sqrt(np.maximum(hessians[:, k, k], (TOO_SHORT / steps) ** 2))
    return hessians, units


def _column(k, steps, raws, best, fit):
    apart = np.zeros_like(raws)
    apart[:, k] = steps
    up, down = (fit(raws + sign * apart, best.q).gradient for sign in (1.0, -1.0))
    return (down - up) / (2.0 * steps[:, None]), steps


def _better_steps(steps, curvature, raw, grows, shrinks):
    """Steps that are as long as the standard deviation asks for, where they were not nearly so."""
    length = steps * np.sqrt(np.maximum(curvature, 0.0))  # in standard deviations
    size = 1.0 + np.abs(raw)
    wanted = steps * np.clip(RIGHT / np.maximum(length, 1e-300), 1.0 / MOST_CHANGE, MOST_CHANGE)
    longer = grows & (length < TOO_SHORT) & (wanted < WIDEST * size)
    shorter = shrinks & (length > TOO_LONG) & (wanted > size / WIDEST)
    return np.where(longer | shorter, wanted, steps)


def _check_start(fitted: Fitted, names) -> None:
    bad = ~(np.isfinite(fitted.value) & np.isfinite(fitted.gradient).all(axis=1))
    if bad.any():
        one = int(np.argmax(bad))
        whose = f"series {names[one]!r}: " if names else ""
        raise ValueError(
            f"{whose}the log posterior of the learnt numbers is {float(fitted.value[one])} with gradient "
            f"{fitted.gradient[one]} where they start; start them elsewhere"
        )
