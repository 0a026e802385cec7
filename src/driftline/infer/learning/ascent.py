"""The way to the most probable learnt numbers, and the curvature there: one climb, or many side by side."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from driftline.families import AbstractBanded
from driftline.infer.learning.fits_at_numbers import Fitted
from driftline.infer.progress import Reporter

MOST_CLIMBS = 60
CLIMB_TOLERANCE = 1e-7  # twice the expected rise, in nats, below which the climb ends
LONGEST_MOVE = 2.0  # of one climb, on the scale without bounds
DIFFERENCE = 0.02  # for the curvature at the mode, in units of the scale without bounds
MOST_HALVINGS = 12

Fit = Callable[[np.ndarray, AbstractBanded], Fitted]


class Summits(NamedTuple):
    """Where climbs ended; every array has a leading axis for them.

    Attributes:
        raws: The modes, on the scale without bounds.
        best: The fits of the paths there.
        covariances: Inverses of minus the Hessians there.
        climbs: Numbers of moves.
        reached: Whether each is a mode, rather than where the climb gave up.
        interrupted: Whether the climbs were interrupted; they are then where they had come to.
    """

    raws: np.ndarray
    best: Fitted
    covariances: np.ndarray
    climbs: np.ndarray
    reached: np.ndarray
    interrupted: np.ndarray


def climb(
    raws: np.ndarray, q: AbstractBanded, fit: Fit, reporter: Reporter, names: Sequence[Any] = ()
) -> Summits:
    """Quasi-Newton ascents; every fit of a path starts from the one before.

    A `KeyboardInterrupt` ends them where they are, unless nothing has moved yet: that is not a result.

    Where the moves become small, the true curvature decides whether this is the top or only a ridge that
    the gathered curvature knows too little of.

    Args:
        raws: Where each climb starts, (N, K).
        q: Families from which the first fits start, with a leading axis.
        fit: Fits the paths of all climbs at given points.
        reporter: Told about every move.
        names: Of the climbs, if there are several.
    """
    best = fit(raws, q)
    _check_start(best, names)
    steepness = np.linalg.norm(best.gradient, axis=1)
    inverses = 0.1 * np.eye(raws.shape[1]) / np.maximum(1.0, steepness)[:, None, None]
    going, reached = np.ones(len(raws), bool), np.zeros(len(raws), bool)
    climbs, made, interrupted = np.zeros(len(raws), int), np.zeros(len(raws), int), False
    try:
        while going.any():
            flat = going & (climbs >= 2) & (_rises(inverses, best.gradient) < CLIMB_TOLERANCE)
            if (flat == going).all():  # until then, those that seem to be there wait for the others
                covariances, known = _covariances(raws, best, fit, inverses)
                inverses[flat] = covariances[flat]
                reached |= flat & known & (_rises(inverses, best.gradient) < CLIMB_TOLERANCE)
                going &= ~reached & known & (climbs < MOST_CLIMBS)
                flat = np.zeros_like(going)
            moving = going & ~flat
            if moving.any():
                climbs[moving] += 1
                new, steps, rose = _backtrack(raws, _moves(inverses, best.gradient), best, fit, moving)
                falls = best.gradient - new.gradient
                for i in np.flatnonzero(rose):
                    inverses[i] = _updated(inverses[i], steps[i], falls[i], climbs[i])
                going &= ~moving | (rose & (climbs < MOST_CLIMBS))
                raws, best, made = raws + steps, new, climbs.copy()
                steepness = float(np.sqrt(np.mean(best.gradient**2)))
                reporter.update(int(climbs.max()), float(best.elbo.sum()), steepness)
        if not reached.all():
            inverses[~reached] = _covariances(raws, best, fit, inverses)[0][~reached]
    except KeyboardInterrupt:
        if not made.any():
            raise
        interrupted = True
    return Summits(raws, best, inverses, made, reached, np.full(len(raws), interrupted))


def _moves(inverses, gradients):
    moves = np.einsum("nij,nj->ni", inverses, gradients)
    lengths = np.linalg.norm(moves, axis=1, keepdims=True)
    return moves * np.minimum(1.0, LONGEST_MOVE / np.maximum(lengths, 1e-300))


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


def _covariances(raws, best, fit, otherwise):
    """Inverses of minus the Hessians, from differences of the gradient; kept positive definite.

    Where a gradient nearby is not finite, what there was `otherwise`; the second result says where it is.
    """
    hessians = np.empty((*raws.shape, raws.shape[1]))
    for k, step in enumerate(DIFFERENCE * np.eye(raws.shape[1])):
        up, down = (fit(raws + sign * step, best.q).gradient for sign in (1.0, -1.0))
        hessians[:, k] = (down - up) / (2 * DIFFERENCE)
    known = np.isfinite(hessians.sum(axis=(1, 2)))
    hessians[~known] = np.eye(raws.shape[1])
    sizes, axes = np.linalg.eigh(0.5 * (hessians + hessians.mT))
    covariances = (axes / np.clip(sizes, 0.1, None)[:, None]) @ axes.mT
    return np.where(known[:, None, None], covariances, otherwise), known


def _check_start(fitted: Fitted, names) -> None:
    bad = ~(np.isfinite(fitted.value) & np.isfinite(fitted.gradient).all(axis=1))
    if bad.any():
        one = int(np.argmax(bad))
        whose = f"series {names[one]!r}: " if names else ""
        raise ValueError(
            f"{whose}the log posterior of the learnt numbers is {float(fitted.value[one])} with gradient "
            f"{fitted.gradient[one]} where they start; start them elsewhere"
        )
