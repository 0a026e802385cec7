"""Weighted points that cover the posterior of the learnt numbers, with its tails."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from driftline.infer.learning import cover_points
from driftline.infer.learning.ascent import Summits
from driftline.infer.learning.heights import FEW_AT_A_TIME, known_heights
from driftline.infer.learning.problem import LearningProblem
from driftline.infer.skewed_marginals import is_tilted

ON_A_GRID = 2  # numbers up to which a grid covers them
LONG = 1000  # numbers in a path from which on a grid is coarse
MOST_ROUNDS = 6
ENOUGH = 0.4  # effective share of points at which the rounds end
MISSED = np.log(3.0)  # by which the weight of a point of a tail may exceed that of all points
MOST_GAP = 5.0  # nats that the gap of a point may exceed that of the favoured points by
SMALL = 0.005  # of their units: scales of numbers that axes go along first; points hardly change below
TOO_FEW = 0.05  # effective share below which the posterior of the numbers is not to be trusted

Heights = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # of points: bounds, and gaps to the evidence


class Round(NamedTuple):
    """Weighted points of the learnt numbers.

    Attributes:
        raws: The points, on the scale without bounds.
        weights: Their weights, which sum to one.
        log_ratios: Log of posterior over the density of the points.
        heights: Log posterior.
        share: Effective share of the points.
        log_evidence: Logarithm of the integral of the optimised ELBO's exponential: a lower bound.
        covered: Whether they cover the posterior with its tails.
        how: What they are, in words.
    """

    raws: np.ndarray
    weights: np.ndarray
    log_ratios: np.ndarray
    heights: np.ndarray
    share: float
    log_evidence: float
    covered: bool
    how: str


def cover(summit: Summits, problem: LearningProblem, num_points: int) -> Round:
    """Points that cover the posterior: a grid for one or two numbers, else drawn in rounds.

    Args:
        summit: Where they are most probable.
        problem: What a fit at a vector needs to know.
        num_points: How many points are drawn, if they are.
    """

    def heights(raws):
        return known_heights(raws, summit.best.q, problem)

    # First along numbers that may have any size: where others decide how wide they are, their tails are long.
    scales = np.where(problem.layout.free(), SMALL, 1.0) * summit.units
    frame = cover_points.Frame.of(summit.raws, summit.covariances, scales, summit.units)
    bounds, gaps = heights(frame.center[None])
    usual_gap = float(gaps[0])

    def log_posterior(raws):
        bounds, gaps = heights(raws)
        return (
            bounds + np.minimum(gaps, usual_gap + MOST_GAP)
            if not is_tilted(problem.template)
            else bounds + gaps
        )

    reach = cover_points.reach(frame, float(bounds[0] + gaps[0]), log_posterior)
    _check_ends(frame, reach, problem)
    if len(frame.center) <= ON_A_GRID:
        is_long = summit.best.q.mean.size > LONG
        return _on_a_grid(
            frame, reach, heights, problem, cover_points.COARSE if is_long else cover_points.FINE
        )
    return _in_rounds(frame, reach, heights, problem, num_points)


def _on_a_grid(
    frame: cover_points.Frame,
    reach: cover_points.Reach,
    heights: Heights,
    problem: LearningProblem,
    spacing: Any,
) -> Round:
    ends, unit = reach.end.copy(), np.minimum(1.0, reach.width.min(axis=0))
    lengths = frame.lengths
    while True:
        laid = cover_points.grid(ends, unit, spacing)
        found = _weighed(frame, laid, heights, problem)
        at_ends = np.einsum("skp,p->sk", laid.outermost, found.weights)
        too_much = at_ends > cover_points.EDGE
        too_much &= ends * lengths < cover_points.FARTHEST
        if not too_much.any():
            break
        ends = np.where(too_much, 2.0 * ends, ends)
    how = f"averaged over a grid of {len(found.raws)} points"
    return found._replace(covered=bool(at_ends.max() <= cover_points.EDGE), how=how)


def _in_rounds(
    frame: cover_points.Frame,
    reach: cover_points.Reach,
    heights: Heights,
    problem: LearningProblem,
    num_points: int,
) -> Round:
    """Points drawn around the centre, then again around those that were found, until they cover it."""
    width, rounds = reach.width, 0
    while True:
        rounds += 1
        found = _weighed(frame, cover_points.drawn(num_points, width), heights, problem)
        # Tails that no point has met are known from the search along the axes.
        tails = reach.heights - cover_points.log_density(reach.seen, width) + frame.log_volume
        missed = bool(tails.max() > found.log_ratios.max() + MISSED)
        if rounds == MOST_ROUNDS or (found.share >= ENOUGH and not missed):
            break
        if missed and found.share >= ENOUGH:
            width = _widened(width, reach.seen[int(np.argmax(tails))])
        else:
            frame, width = _recentred(found, frame)
            reach = _seen_again(frame, reach, found)
    how = f"averaged over {num_points} points, effective share {found.share:.0%}"
    how += ", a tail missed" if missed else ""
    return found._replace(covered=found.share >= TOO_FEW and not missed, how=how)


def _widened(width: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """More width to the side of an axis on which a tail lies."""
    axis = int(np.argmax(np.abs(tail)))
    wider = width.copy()
    wider[int(tail[axis] > 0), axis] *= 1.5
    return wider


def _recentred(found: Round, before: cover_points.Frame) -> tuple[cover_points.Frame, np.ndarray]:
    """Axes of the points that were found, and the widths to either side of them."""
    center = found.weights @ found.raws
    apart = found.raws - center
    covariance = apart.T @ (found.weights[:, None] * apart) + 1e-10 * np.diag(before.scales**2)
    frame = cover_points.Frame.of(center, covariance, before.scales, before.units)
    along = np.linalg.solve(frame.axes, apart.T).T
    width = np.ones((2, len(center)))
    for side, mask in enumerate((along < 0, along >= 0)):
        many = np.maximum((found.weights[:, None] * mask).sum(axis=0), 1e-12)
        width[side] = np.sqrt((found.weights[:, None] * mask * along**2).sum(axis=0) / many)
    return frame, np.clip(width, 0.3, 3.0)


def _seen_again(frame: cover_points.Frame, reach: cover_points.Reach, found: Round) -> cover_points.Reach:
    """The points of a round that weigh most, in the place of those of the search along the old axes."""
    heavy = np.argsort(-found.weights)[:FEW_AT_A_TIME]
    seen = np.linalg.solve(frame.axes, (found.raws[heavy] - frame.center).T).T
    return reach._replace(seen=seen, heights=found.heights[heavy])


def _weighed(
    frame: cover_points.Frame, laid: cover_points.Points, heights: Heights, problem: LearningProblem
) -> Round:
    raws = frame.place(laid.apart)
    bounds, gaps = heights(raws)
    if not np.isfinite(bounds).any():
        raise ValueError(
            f"none of {len(raws)} fits of the path around the most probable learnt numbers has a finite "
            "ELBO; give the numbers narrower priors, dl.learn(..., prior=...), or take parameters='maximise'"
        )
    log_density = laid.log_density - frame.log_volume
    log_bounds = bounds - log_density
    log_ratios = log_bounds + (gaps if is_tilted(problem.template) else _credible(gaps, log_bounds))
    weights = _normalised(log_ratios)
    highest = log_bounds.max()
    return Round(
        raws,
        weights,
        log_ratios,
        heights=log_ratios + log_density,
        share=float(1.0 / (len(raws) * np.sum(weights**2))),
        log_evidence=float(highest + np.log(np.mean(np.exp(log_bounds - highest)))),
        covered=True,
        how="",
    )


def _check_ends(frame: cover_points.Frame, reach: cover_points.Reach, problem: LearningProblem) -> None:
    """Refuse numbers whose posterior does not fall off, however far one goes."""
    endless = np.isinf(reach.end)
    if not endless.any():
        return
    side, axis = (int(place[0]) for place in np.nonzero(endless))
    far = reach.seen[np.sign(reach.seen[:, axis]) == (-1.0, 1.0)[side]]
    end = frame.place(far[np.argmax(np.abs(far[:, axis]))][None])[0]
    moved = problem.layout.split(jnp.asarray(np.abs(end - frame.center)))
    place = max(moved, key=lambda place: float(jnp.max(moved[place])))
    cause = problem.template.likelihood.why_endless(problem.seen())
    value = np.asarray(problem.layout.values(jnp.asarray(end))[place])
    raise ValueError(
        f"the data do not hold {place}: {np.array2string(value, precision=3)} is about as probable as "
        f"anything, so that its posterior has no end and the model is improper{cause}; give it a "
        "prior, dl.learn(..., prior=...), or a fixed value"
    )


def _credible(gaps: np.ndarray, log_bounds: np.ndarray) -> np.ndarray:
    """Gaps, cut off where they are far above those of the points that the ELBO favours.

    Where the path's posterior has several tops, as under a Student-t of tiny scale, the log weight has a
    long lower tail, and half of its variance can be hundreds of nats that are not there.
    """
    return np.minimum(gaps, _normalised(log_bounds) @ gaps + MOST_GAP)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()
