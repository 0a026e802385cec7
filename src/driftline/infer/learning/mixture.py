"""The mixture of fits of the path at many points of the learnt numbers: its moments and quantiles."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from driftline.families import BlockGaussMarkov, GaussMarkov
from driftline.infer import mixture_quantiles, threads
from driftline.infer.expectation import Moments, moments, standard_deviations
from driftline.infer.learning.fits_at_numbers import fit_at, is_panel
from driftline.infer.learning.heights import FEW_AT_A_TIME
from driftline.infer.skewed_marginals import is_tilted, tilted
from driftline.models.parameters import with_values


def mixed(
    raws: np.ndarray, weights: np.ndarray, q: GaussMarkov | BlockGaussMarkov, problem: tuple
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
    size = FEW_AT_A_TIME  # always as many, since every other number would compile anew
    missing = max(0, size - len(raws))
    raws = np.concatenate([raws, np.repeat(raws[-1:], missing, axis=0)])
    weights = np.append(weights, np.zeros(missing))

    def some(part):
        own = weights[part.rows].copy()
        own[: part.known] = 0.0  # counted by the part before
        return _sums(jnp.asarray(raws[part.rows]), jnp.asarray(own), q, *problem)

    totals = threads.share_out(some, threads.parts(len(raws), size))
    total = functools.reduce(lambda one, other: jax.tree.map(jnp.add, one, other), totals)
    return _from_sums(total, q, problem[0])


@eqx.filter_jit
def _sums(raws, weights, q, template, observations, layout, tolerance, limit):
    """Weighted sums over fits: of moments around the mean of `q`, and of tails in its standard deviations."""
    each, blocks = _each(q, template), isinstance(q, BlockGaussMarkov)
    start = each(moments)(q)
    unit = standard_deviations(start, blocks=blocks)

    def add(total, row):
        raw, weight = row
        fitted = fit_at(raw, q, template, observations, layout, tolerance, limit)
        # Around the mean of `q`, so that little is lost to rounding.
        found = each(moments)(fitted.q)
        found = found._replace(mean=found.mean - q.mean)
        tails = _tails(with_values(template, layout.values(raw)), observations, found, q, unit)
        found = each(lambda found: _with_products(found, 1.0, blocks))(found)
        parts = jax.tree.map(lambda part: weight.astype(part.dtype) * part, (found, tails))
        return jax.tree.map(jnp.add, total, parts), None

    zero = jax.tree.map(jnp.zeros_like, start), mixture_quantiles.no_tails(unit)
    return jax.lax.scan(add, zero, (raws, weights))[0]


def _tails(model, observations, found, q, unit):
    """How much of every marginal lies beyond the points of a grid around the mean of `q`."""
    sd = standard_deviations(found, blocks=isinstance(q, BlockGaussMarkov))
    if not is_tilted(model):
        return mixture_quantiles.tails(found.mean, sd, unit)

    def one(observations, mean, sd, middle, unit):
        return tilted(model, observations, mean, sd**2, middle, unit).tails

    if is_panel(q, model):
        one = jax.vmap(one, out_axes=1)
    return one(observations, q.mean + found.mean, sd, q.mean, unit)


@eqx.filter_jit
def _from_sums(sums, q, template):
    (total, tails), each, blocks = sums, _each(q, template), isinstance(q, BlockGaussMarkov)
    unit = standard_deviations(each(moments)(q), blocks=blocks)
    mixture = each(lambda total: _with_products(total, -1.0, blocks))(total)
    quantiles = mixture_quantiles.quantiles(
        tails, unit, mixture.mean, standard_deviations(mixture, blocks=blocks)
    )
    return each(type(q).from_moments)(q.mean + mixture.mean, mixture.within, mixture.between), quantiles


def _each(q, template):
    """What makes a function of one family one of all series of a panel, if it is a panel."""
    return jax.vmap if is_panel(q, template) else lambda function: function


def _with_products(found, sign, blocks):
    """Moments, with the products of their means added to the covariances or taken away."""
    mean = found.mean
    if blocks:
        flat = mean.reshape(len(mean), -1)
        within, between = flat[:, :, None] * flat[:, None, :], flat[:-1, :, None] * flat[1:, None, :]
    else:
        within, between = mean * mean, mean[:-1] * mean[1:]
    return Moments(mean, found.within + sign * within, found.between + sign * between)
