"""The mixture of fits of the path at many points of the learnt numbers: its moments and quantiles."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftline.families import AbstractBanded, AbstractMoments
from driftline.infer import mixture_quantiles, threads
from driftline.infer.learning.fits_at_numbers import fit_at
from driftline.infer.learning.heights import FEW_AT_A_TIME
from driftline.infer.learning.problem import LearningProblem
from driftline.infer.skewed_marginals import is_tilted, tilted


def mixed(
    raws: np.ndarray, weights: np.ndarray, q: AbstractBanded, problem: LearningProblem
) -> tuple[Any, Any]:
    """The weighted mixture of fits, one fit after the other.

    Args:
        raws: Points of the learnt numbers without bounds, (P, K).
        weights: Their weights.
        q: Where the fits start.
        problem: What a fit at a point needs to know.

    Returns:
        The Gauss-Markov density with the moments of the mixture, and the quantiles of every step.
    """
    size = FEW_AT_A_TIME  # always as many, since any other number would be compiled again
    missing = max(0, size - len(raws))
    raws = np.concatenate([raws, np.repeat(raws[-1:], missing, axis=0)])
    weights = np.append(weights, np.zeros(missing))

    def some(part):
        own = weights[part.rows].copy()
        own[: part.known] = 0.0  # counted by the part before
        return _sums(jnp.asarray(raws[part.rows]), jnp.asarray(own), q, problem)

    totals = threads.share_out(some, threads.parts(len(raws), size))
    total = functools.reduce(lambda one, other: jax.tree.map(jnp.add, one, other), totals)
    return _from_sums(total, q, problem.each)


@eqx.filter_jit
def _sums(raws: Array, weights: Array, q: AbstractBanded, problem: LearningProblem) -> tuple[Any, Any]:
    """Weighted sums over fits: of moments around the mean of `q`, and of tails in its standard deviations."""
    start = problem.each(lambda q: q.moments())(q)
    unit = problem.each(_standard_deviations)(start)

    def add(total, row):
        raw, weight = row
        fitted = fit_at(raw, q, problem)
        # Around the mean of `q`, so that little is lost to rounding.
        found = problem.each(lambda fitted, q: fitted.moments().moved(-q.mean))(fitted.q, q)
        tails = _tails(problem, raw, found, q, unit)
        found = problem.each(lambda found: found.around_zero())(found)
        parts = jax.tree.map(lambda part: weight.astype(part.dtype) * part, (found, tails))
        return jax.tree.map(jnp.add, total, parts), None

    zero = jax.tree.map(jnp.zeros_like, start), mixture_quantiles.no_tails(unit)
    return jax.lax.scan(add, zero, (raws, weights))[0]


def _tails(
    problem: LearningProblem, raw: Array, found: AbstractMoments, q: AbstractBanded, unit: Array
) -> Array:
    """How much of every marginal lies beyond the points of a grid around the mean of `q`."""
    sd, model = problem.each(_standard_deviations)(found), problem.model_at(raw)
    if not is_tilted(model):
        return mixture_quantiles.tails(found.mean, sd, unit)

    def one(observations, mean, sd, middle, unit):
        return tilted(model, observations, mean, sd**2, middle, unit).tails

    if problem.is_panel:
        one = jax.vmap(one, out_axes=1)
    return one(problem.observations, q.mean + found.mean, sd, q.mean, unit)


@eqx.filter_jit
def _from_sums(
    sums: tuple[AbstractMoments, Array], q: AbstractBanded, each: Callable[[Callable], Callable]
) -> tuple[AbstractBanded, Array]:
    total, tails = sums
    unit = each(lambda q: _standard_deviations(q.moments()))(q)
    mixture = each(lambda total: total.around_mean())(total)
    quantiles = mixture_quantiles.quantiles(tails, unit, mixture.mean, each(_standard_deviations)(mixture))
    return each(lambda q, mixture: q.from_moments(mixture.moved(q.mean)))(q, mixture), quantiles


def _standard_deviations(moments: AbstractMoments) -> Array:
    return moments.standard_deviations()
