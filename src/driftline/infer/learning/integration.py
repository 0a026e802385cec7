"""Learnt numbers: their most probable values, or a posterior over them with the path averaged over it.

Everything happens on a scale without bounds. The optimised ELBO stands in for the log evidence. A
quasi-Newton climb finds the mode; a grid around it, or quasi-random points for more than two numbers, then
cover skew and tails, in the spirit of nested Laplace approximations (Rue et al. 2009). See `docs/maths.md`,
section 10.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from driftline.families import AbstractBanded, GaussMarkov
from driftline.infer import newton
from driftline.infer.learning.ascent import INNER_TOLERANCE, Summits, climb
from driftline.infer.learning.covering import cover
from driftline.infer.learning.first_guess import check_series, first_guess
from driftline.infer.learning.fits_at_numbers import fit_apart, fit_together
from driftline.infer.learning.mixture import mixed
from driftline.infer.learning.problem import LearningProblem, raw_of, start_of
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import Learn, learnt, with_values

POINTS_PER_NUMBER, MOST_POINTS = 48, 1024
POINTS_BUDGET = 200_000  # points times length, as long as it lies between the two above


class Learning(NamedTuple):
    """The result of learning: weighted values of each number, and the averaged fit.

    If it was interrupted, the most probable values so far and the fit that belongs to them.
    """

    values: dict[str, np.ndarray]
    weights: np.ndarray
    outcome: Outcome
    interrupted: bool = False


def learn_numbers(
    model: Model,
    observations: Observations,
    start: Callable[[Model], AbstractBanded],
    settings: newton.Settings,
    *,
    mode: str,
    reporter: Reporter,
    is_panel: bool = False,
) -> Learning:
    """Find the learnt numbers of a model of one series, or of all series of a panel.

    Args:
        model: A model with learnt numbers.
        observations: The series; of a panel all of them, with a leading axis.
        start: Makes a starting family for the model with its numbers at their start; of a panel, families.
        settings: Of the inner fits.
        mode: "maximise" for the most probable values, "integrate" for a posterior over them.
        reporter: Told about every fit of the climb.
        is_panel: Whether the numbers are those of several series.
    """
    flat = mode == "maximise"
    problem = LearningProblem.of(model, observations, settings, flat=flat, is_panel=is_panel)
    numbers = learnt(model)
    check_series(problem, numbers)
    raw, q = _better_start(numbers, start, problem)
    closely = _closely(problem)
    summits = climb(
        raw[None], q, lambda raws, q: fit_together(raws, q, closely), reporter, free=problem.layout.free()
    )
    reporter.close()
    num_points = _num_points(len(raw), q.mean.size)
    return _learning(_summit(summits, 0), problem, mode, num_points)


def learn_numbers_of_each(
    model: Model,
    observations: Observations,
    start: Callable[[Model], GaussMarkov],
    settings: newton.Settings,
    *,
    mode: str,
    names: Sequence[Any],
    reporters: tuple[Reporter, Reporter],
) -> Iterator[Learning]:
    """The same for every series of a panel on its own; all of them climb side by side.

    Args:
        model: A model with learnt numbers.
        observations: The series, with a leading axis for them.
        start: Makes starting families for the model with its numbers at their start.
        settings: Of the inner fits.
        mode: As in `learn_numbers`.
        names: Of the series, for errors.
        reporters: Told about every move of the climbs, and about every series that is done.
    """
    flat = mode == "maximise"
    problem = LearningProblem.of(model, observations, settings, flat=flat, is_panel=False)
    q, raw = start(problem.template), start_of(learnt(model))
    raws = np.tile(raw, (len(q.mean), 1))
    closely = _closely(problem)
    summits = climb(
        raws, q, lambda raws, q: fit_apart(raws, q, closely), reporters[0], names, free=problem.layout.free()
    )
    reporters[0].close()
    # As many points as for a series alone: what is found must not depend on the company that it is in.
    num_points, total, interrupted = _num_points(len(raw), q.mean[0].size), 0.0, False
    for place, name in enumerate(names):
        own = jax.tree.map(lambda leaf, place=place: jnp.asarray(leaf[place]), observations)
        summit = _summit(summits, place)
        if interrupted:
            summit = summit._replace(interrupted=True)
        try:
            learning = _learning(summit, problem.of_series(own), mode, num_points)
        except ValueError as error:
            raise ValueError(f"series {name!r}: {error}") from error
        interrupted = learning.interrupted
        total += learning.outcome.elbo
        reporters[1].update(place + 1, total, 0.0)
        yield learning
    reporters[1].close()


def _closely(problem: LearningProblem) -> LearningProblem:
    """The same problem, with fits of the path that are close enough for a climb."""
    return dataclasses.replace(problem, tolerance=jnp.minimum(problem.tolerance, INNER_TOLERANCE))


def _better_start(
    numbers: dict[str, Learn],
    start: Callable[[Model], AbstractBanded],
    problem: LearningProblem,
) -> tuple[np.ndarray, Any]:
    """Where the numbers start, or where a look at the series would have them, if that is more probable."""
    template, raw = problem.template, start_of(numbers)
    q = jax.tree.map(lambda leaf: leaf[None], start(template))
    if problem.is_panel:
        return raw, q
    guess = first_guess(problem, numbers)
    other = raw_of(numbers, guess)
    if np.array_equal(other, raw):
        return raw, q
    try:
        other_q = jax.tree.map(lambda leaf: leaf[None], start(with_values(template, guess)))
    except ValueError:  # no path can start there
        return raw, q
    here, there = (fit_together(at[None], own, problem) for at, own in ((raw, q), (other, other_q)))
    better = float(there.value[0]) > float(here.value[0]) or not np.isfinite(here.value[0])
    return (other, other_q) if better and np.isfinite(there.gradient).all() else (raw, q)


def _summit(summits: Summits, place: int) -> Summits:
    """One of many summits, without the leading axis."""
    return jax.tree.map(lambda leaf: leaf[place], summits)


def _learning(summit: Summits, problem: LearningProblem, mode: str, num_points: int) -> Learning:
    if mode == "maximise" or summit.interrupted:
        return _single(summit, problem)
    try:
        return _averaged(summit, problem, num_points)
    except KeyboardInterrupt:
        return _single(summit._replace(interrupted=True), problem)


def _averaged(summit: Summits, problem: LearningProblem, num_points: int) -> Learning:
    found = cover(summit, problem, num_points)
    values = problem.layout.values_of_many(found.raws)
    main = np.argsort(-found.weights)[: _num_main(found.weights)]
    shares = found.weights[main] / found.weights[main].sum()
    q, quantiles = mixed(found.raws[main], shares, summit.best.q, problem)
    reached = summit.reached and found.covered
    ending = "converged" if reached else "not converged"
    outcome = _outcome(q, found.log_evidence, summit.climbs, ending, f", {found.how}")
    return Learning(values, found.weights, dataclasses.replace(outcome, quantiles=np.asarray(quantiles)))


def _num_main(weights: np.ndarray) -> int:
    """How many of the heaviest points carry nearly all of the weight."""
    return 1 + int(np.searchsorted(np.cumsum(np.sort(weights)[::-1]), 0.9999))


def _num_points(num_learnt: int, size: int) -> int:
    return int(np.clip(POINTS_BUDGET // size, POINTS_PER_NUMBER * num_learnt, MOST_POINTS))


def _single(summit: Summits, problem: LearningProblem) -> Learning:
    found = problem.layout.values(jnp.asarray(summit.raws))
    values = {name: np.asarray(value)[None] for name, value in found.items()}
    ending = "converged" if summit.reached else "not converged"
    rest = ""
    if summit.interrupted:
        ending, rest = "interrupted", ", not averaged over them"
    outcome = _outcome(summit.best.q, float(summit.best.elbo), summit.climbs, ending, rest)
    return Learning(values, np.ones(1), outcome, bool(summit.interrupted))


def _outcome(q: Any, elbo: float, climbs: Any, ending: str, rest: str) -> Outcome:
    message = f"{ending} after {climbs} moves of the learnt numbers{rest}"
    return Outcome(q, elbo, 0.0, converged=ending == "converged", iterations=int(climbs), message=message)
