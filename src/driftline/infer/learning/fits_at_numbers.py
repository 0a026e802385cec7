"""Fits of the path with the learnt numbers held fixed: at one point, or at many.

The gradient with respect to the numbers needs no derivative of q, because q is at its own optimum (the
envelope theorem).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractBanded
from driftline.infer import newton, threads
from driftline.infer.expectation import expected_log_joint
from driftline.infer.learning.problem import LearningProblem
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import with_values

# Fits side by side save calls as long as they stay in the cache; a few long ones are faster one by one.
NUMBERS_AT_ONCE, FEW = 1 << 15, 8


class Fitted(NamedTuple):
    """A fit of the path with the learnt numbers held fixed.

    Attributes:
        value: Log posterior density of the numbers, up to a constant.
        gradient: Its gradient.
        elbo: ELBO of the path's fit.
        q: The fitted family.
        rise: By how much its last step raised the ELBO; of a panel, the most of all series.
    """

    value: Float[Array, ""]
    gradient: Float[Array, " K"]
    elbo: Float[Array, ""]
    q: AbstractBanded
    rise: Float[Array, ""]


@eqx.filter_jit
def fit_at(raw: Float[Array, " K"], q: AbstractBanded, problem: LearningProblem) -> Fitted:
    """Fit the path, or every path of a panel, with the numbers at one point."""
    model, observations = problem.model_at(raw), problem.observations

    def fit_path(pair):
        q, observations = pair
        start = newton.begin(q, model, observations)
        state = newton.iterate(start, model, observations, problem.limit, problem.tolerance)

        def expected(raw):
            return expected_log_joint(state.q.moments(), problem.model_at(raw), observations)

        return state.elbo, jax.grad(expected)(raw), state.q, state.rise

    if problem.is_panel:
        many = min(len(q.mean), threads.SIDE_BY_SIDE)
        elbos, slopes, q, rises = jax.lax.map(fit_path, (q, observations), batch_size=many)
        elbo, slope, rise = jnp.sum(elbos), jnp.sum(slopes, axis=0), jnp.max(rises)
    else:
        elbo, slope, q, rise = fit_path((q, observations))
    log_prior, prior_slope = jax.value_and_grad(problem.layout.log_prior)(raw)
    return Fitted(elbo + log_prior, slope + prior_slope, elbo, q, rise)


def fit_together(raws: np.ndarray, q: AbstractBanded, problem: LearningProblem) -> Fitted:
    """Fit the path, or all paths of a panel, with the numbers at one point; arrays get a leading axis."""
    return _as_numpy(_fit_together(jnp.asarray(raws), q, problem))


@eqx.filter_jit
def _fit_together(raws: Float[Array, " one K"], q: AbstractBanded, problem: LearningProblem) -> Fitted:
    fitted = fit_at(raws[0], jax.tree.map(lambda leaf: leaf[0], q), problem)
    return jax.tree.map(lambda leaf: leaf[None], fitted)


def fit_apart(raws: np.ndarray, q: AbstractBanded, problem: LearningProblem) -> Fitted:
    """Fit every path of a panel with the numbers at a point of its own; arrays have a leading axis."""

    def some(part):
        own, families, series = jax.tree.map(lambda leaf: leaf[part.rows], (raws, q, problem.observations))
        fitted = _fit_apart(own, families, problem.of_series(series))
        return jax.tree.map(lambda leaf: np.asarray(leaf)[part.known :], fitted)

    found = list(threads.share_out(some, threads.parts(len(raws))))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)


@eqx.filter_jit
def _fit_apart(raws: Any, q: AbstractBanded, problem: LearningProblem) -> Fitted:
    def one(own):
        raw, q, observations = own
        return fit_at(raw, q, problem.of_series(observations))

    return jax.lax.map(one, (raws, q, problem.observations), batch_size=min(len(raws), threads.SIDE_BY_SIDE))


def _as_numpy(fitted: Fitted) -> Fitted:
    return fitted._replace(
        value=np.asarray(fitted.value),
        gradient=np.asarray(fitted.gradient),
        elbo=np.asarray(fitted.elbo),
        rise=np.asarray(fitted.rise),
    )


def fit_points(
    model: Model,
    observations: Observations,
    numbers: dict[str, np.ndarray],
    q: AbstractBanded,
    steps: np.ndarray | None = None,
) -> newton.State:
    """Fit the path once for every point of the learnt numbers; returns the fits with a leading axis.

    Args:
        model: The model, with learnt numbers at any value.
        observations: The series.
        numbers: Values of each learnt number, with a leading axis for the points.
        q: Where every fit starts.
        steps: The steps of which the densities are kept, increasing; None for all. Of a long path, the fits
            at many points would not fit into memory.
    """
    kept = None if steps is None else jnp.asarray(steps)
    if not numbers:
        return jax.tree.map(lambda leaf: leaf[None], _fit_point({}, q, model, observations, kept))
    return _fit_points(jax.tree.map(jnp.asarray, numbers), q, model, observations, kept)


@eqx.filter_jit
def _fit_points(
    numbers: dict[str, Array],
    q: AbstractBanded,
    template: Model,
    observations: Observations,
    steps: Array | None,
) -> newton.State:
    def one(own):
        return _fit_point(own, q, template, observations, steps)

    num_points = len(next(iter(numbers.values())))
    return jax.lax.map(one, numbers, batch_size=min(at_once(q), num_points))


@eqx.filter_jit
def _fit_point(
    own: dict[str, Array],
    q: AbstractBanded,
    template: Model,
    observations: Observations,
    steps: Array | None,
) -> newton.State:
    state = newton.refit(with_values(template, own), observations, q)
    return state if steps is None else state._replace(q=state.q.at_steps(steps), slope=None)


def at_once(q: AbstractBanded) -> int:
    """How many fits are made side by side."""
    count = NUMBERS_AT_ONCE // q.mean.size
    return count if count >= FEW else 1
