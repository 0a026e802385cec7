"""The way to the most probable learnt numbers, and the curvature there."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from driftline.infer.given_numbers import Fitted, fit_at, fit_many

MOST_CLIMBS = 60
CLIMB_TOLERANCE = 1e-4  # expected rise, in nats, below which the climb ends
LONGEST_MOVE = 2.0  # of one climb, on the scale without bounds
DIFFERENCE = 0.02  # for the curvature at the mode, in units of the scale without bounds


class Summit(NamedTuple):
    """Where a climb ended.

    Attributes:
        raw: The mode, on the scale without bounds.
        best: The fit of the path there.
        covariance: Inverse of minus the Hessian there.
        climbs: Number of moves.
        reached: Whether it is a mode, rather than where the climb gave up.
    """

    raw: np.ndarray
    best: Fitted
    covariance: np.ndarray
    climbs: int
    reached: bool


def climb(raw, q, problem, reporter) -> Summit:
    """Quasi-Newton ascent; every fit of the path starts from the one before.

    Where the moves become small, the true curvature decides whether this is the top or only a ridge that
    the gathered curvature knows too little of.
    """
    best = fit_at(jnp.asarray(raw), q, *problem)
    _check_start(best)
    inverse = 0.1 * np.eye(len(raw)) / max(1.0, float(np.linalg.norm(best.gradient)))
    for climb in range(1, MOST_CLIMBS + 1):
        gradient = np.asarray(best.gradient)
        if climb > 2 and gradient @ inverse @ gradient < CLIMB_TOLERANCE:
            inverse = covariance_at(raw, best, problem)
            if gradient @ inverse @ gradient < CLIMB_TOLERANCE:
                return Summit(raw, best, inverse, climb, reached=True)
        move = inverse @ gradient
        new, step = _backtrack(raw, move * min(1.0, LONGEST_MOVE / np.linalg.norm(move)), best, problem)
        reporter.update(climb, float(best.elbo), float(np.linalg.norm(gradient)))
        if new is None:
            return Summit(raw, best, covariance_at(raw, best, problem), climb, reached=False)
        raw, inverse = raw + step, _updated(inverse, step, gradient - np.asarray(new.gradient), climb)
        best = new
    return Summit(raw, best, covariance_at(raw, best, problem), MOST_CLIMBS, reached=False)


def _backtrack(raw, move, best, problem) -> tuple[Fitted | None, np.ndarray]:
    for halvings in range(12):
        step = move * 0.5**halvings
        new = fit_at(jnp.asarray(raw + step), best.q, *problem)
        if float(new.value) >= float(best.value) + 1e-4 * float(np.asarray(best.gradient) @ step):
            return new, step
    return None, move


def _updated(inverse, step, fall, climb):
    """The BFGS update of the inverse curvature; `fall` is by how much the gradient fell."""
    curvature = step @ fall
    if curvature <= 1e-10 * np.linalg.norm(step) * np.linalg.norm(fall):
        return inverse
    if climb == 1:
        inverse = np.eye(len(step)) * curvature / (fall @ fall)
    left = np.eye(len(step)) - np.outer(step, fall) / curvature
    return left @ inverse @ left.T + np.outer(step, step) / curvature


def covariance_at(raw, best, problem):
    """Inverse of minus the Hessian at the mode, from differences of the gradient; kept positive definite."""
    steps = DIFFERENCE * np.eye(len(raw))
    fits = fit_many(jnp.asarray(np.concatenate([raw + steps, raw - steps])), best.q, *problem)
    up, down = np.split(np.asarray(fits.gradient), 2)
    hessian = (down - up) / (2 * DIFFERENCE)
    sizes, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return axes @ np.diag(1.0 / np.clip(sizes, 0.1, None)) @ axes.T


def _check_start(fitted: Fitted) -> None:
    if not np.isfinite(float(fitted.value)) or not np.isfinite(np.asarray(fitted.gradient)).all():
        raise ValueError(
            f"the log posterior of the learnt numbers is {float(fitted.value)} with gradient "
            f"{np.asarray(fitted.gradient)} where they start; start them elsewhere"
        )
