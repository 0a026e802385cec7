"""Newton's method for all series of a panel, side by side."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from driftline.families import AbstractBanded, AbstractFamily, GaussMarkov
from driftline.infer import newton, threads
from driftline.infer.curvature import chain_precision
from driftline.infer.progress import Reporter
from driftline.infer.skewed_marginals import is_tilted, marginal_quantiles
from driftline.models.model import Model
from driftline.models.observations import Observations

SERIES_PER_CALL = 500  # after which progress is shown and Ctrl-C is heard


class Fits(NamedTuple):
    """Fits of all series, each array with a leading axis for them.

    Attributes:
        q: The fitted families.
        variances: Their marginal variances.
        first_elbo: ELBO where the fit began.
        elbo: ELBO at the end.
        iterations: Number of steps tried.
        converged: Whether the stopping rule was met.
        quantiles: Of every step at `intervals.SCORES`, in standard deviations from the mean; None where
            marginals are normal.
    """

    q: AbstractBanded
    variances: Float[Array, " N T"]
    first_elbo: Float[Array, " N"]
    elbo: Float[Array, " N"]
    iterations: Float[Array, " N"]
    converged: Bool[Array, " N"]
    quantiles: Float[Array, " N S T"] | None


def maximise(model: Model, observations: Observations, settings: newton.Settings, reporter: Reporter) -> Fits:
    """Fit every series of a panel on its own, with the same fixed numbers."""
    count = len(observations.values)
    limits = jnp.asarray(settings.max_iterations), jnp.asarray(settings.tolerance)

    def fit_some(part):
        some = jax.tree.map(lambda leaf: np.asarray(leaf)[part.rows], observations)
        fits = _fit_side_by_side(model, some, *limits)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[part.known :], fits)

    done = []
    for fits in threads.share_out(fit_some, threads.parts(count, SERIES_PER_CALL)):
        done.append(fits)
        elbos = np.concatenate([fits.elbo for fits in done])
        reporter.update(len(elbos), float(elbos.sum()), 0.0)
    reporter.close()
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *done)


@eqx.filter_jit
def start(model: Model, observations: Observations) -> GaussMarkov:
    """Where the fit of every series begins."""
    return jax.lax.map(lambda one: _start(model, one), observations, batch_size=_batch(observations))


@eqx.filter_jit
def variances(q: AbstractFamily) -> Float[Array, " N T"]:
    """Marginal variances of every series."""
    return jax.vmap(lambda one: one.variances())(q)


@eqx.filter_jit
def _fit_side_by_side(
    model: Model, observations: Observations, limit: Int[Array, ""], tolerance: Float[Array, ""]
) -> Fits:
    def one(observations):
        first = newton.begin(_start(model, observations), model, observations)
        state = newton.iterate(first, model, observations, limit, tolerance)
        converged = newton.has_converged(state, tolerance)
        quantiles = marginal_quantiles(model, observations, state.q) if is_tilted(model) else None
        return Fits(
            state.q, state.q.variances(), first.elbo, state.elbo, state.iteration, converged, quantiles
        )

    return jax.lax.map(one, observations, batch_size=_batch(observations))


def _batch(observations: Observations) -> int:
    return min(threads.SIDE_BY_SIDE, len(observations.values))


def _start(model: Model, observations: Observations) -> GaussMarkov:
    """The prior's mean with the curvature there, or independent unit Gaussians where that is not positive."""
    path = model.prior.mean_path(observations.gaps)
    q = GaussMarkov.from_precision(path, *chain_precision(model, path, observations))
    fine = jnp.all(jnp.isfinite(q.diag)) & jnp.all(jnp.isfinite(q.upper))
    unit = GaussMarkov(path, jnp.ones_like(path), jnp.zeros_like(path[1:]))
    return jax.tree.map(lambda a, b: jnp.where(fine, a, b), q, unit)
