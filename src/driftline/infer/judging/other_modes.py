"""Other tops of a posterior: fits from several starts that end elsewhere."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.families import AbstractBanded
from driftline.infer import newton
from driftline.infer.number_vector import Layout
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import with_values

FAR = 5.0  # standard deviations of the fit, for starts around it
PRIOR_DRAWS, FAR_DRAWS = 4, 2
MOST_NEGATED = 4  # elements of a step up to which the sign of each is turned
APART = 2.0  # standard deviations by which the means of two tops differ somewhere
LOWEST = 6.0  # nats below the best of a top that counts


class Mode(NamedTuple):
    """Another top: the fit there, and its ELBO."""

    q: AbstractBanded
    elbo: float


def other_modes(
    model: Model, observations: Observations, q: AbstractBanded, elbo: float, seed: int
) -> list[Mode]:
    """Fit from several starts, and keep what is neither the given fit nor far below it.

    Args:
        model: The model, with fixed numbers.
        observations: The series.
        q: The fit.
        elbo: Its ELBO.
        seed: For starts.
    """
    starts = jnp.stack(_starts(model, observations, q, jr.key(seed)))
    found = jax.tree.map(np.asarray, _fits(starts, q, model, observations))
    kept: list[Mode] = []
    sds = {id(q): _sd(q)}
    for place in np.argsort(-found.elbo):
        own = jax.tree.map(lambda leaf, place=place: jnp.asarray(leaf[place]), found.q)
        value = float(found.elbo[place])
        settled = bool(np.asarray(newton.has_converged(found, 1e-3))[place])
        if not settled or not value > elbo - LOWEST:
            continue
        sds[id(own)] = _sd(own)
        if all(_are_apart(own, known, sds) for known in (q, *(mode.q for mode in kept))):
            kept.append(Mode(own, value))
    return kept


def other_signs(model: Model, observations: Observations, near, layout: Layout, points) -> list[Mode]:
    """Tops at which a learnt number has the other sign, with log densities in place of ELBOs.

    Args:
        model: The model, with learnt numbers at their means.
        observations: The series.
        near: The fit of the path there.
        layout: How the numbers lie in a vector.
        points: Points of them without bounds, and their weights.
    """
    raws, weights = points
    center = weights @ raws
    found = []
    for place, support in zip(layout.places, layout.supports, strict=True):
        part = layout.parts()[place]
        if np.isfinite(support.lower) or np.isfinite(support.upper) or not np.any(center[part]):
            continue
        other = center.copy()
        other[part] *= -1.0
        change = float(layout.log_prior(jnp.asarray(other)) - layout.log_prior(jnp.asarray(center)))
        turned = with_values(model, layout.values(jnp.asarray(other)))
        for start in (near.q.mean, -near.q.mean):
            state = newton.refit(turned, observations, eqx.tree_at(lambda q: q.mean, near.q, start))
            height = float(state.elbo) + change
            if np.isfinite(height) and height > float(near.elbo) - LOWEST:
                found.append(Mode(state.q, height))
                break
    return found


def share_of_others(modes: list[Mode], elbo: float) -> float:
    """What part of the posterior is around the other tops, as far as their ELBOs tell."""
    total = sum(math.exp(min(mode.elbo - elbo, 600.0)) for mode in modes)
    return total / (1.0 + total)


def _starts(model, observations, q, key):
    """Paths far from the fit, and of as many kinds as there are reasons for a posterior to have two tops."""
    middle = model.prior.mean_path(observations.gaps)
    # The other sign of everything, or of one element; and what the prior would have it be.
    starts = [middle, 2.0 * middle - q.mean, jnp.zeros_like(q.mean), -q.mean, *_negated(q.mean)]
    inside = jnp.append(True, jnp.isfinite(observations.gaps))  # not the steps that fill a series up
    inside = inside.reshape(-1, *(1,) * (q.mean.ndim - 1))
    inside = jnp.broadcast_to(inside, q.mean.shape)
    width = jnp.maximum(jnp.std(q.mean, where=inside), jnp.max(_sd(q), where=inside, initial=0.0))
    starts += [q.mean + FAR * width, q.mean - FAR * width]
    keys = jr.split(key, PRIOR_DRAWS + FAR_DRAWS)
    if model.prior.can_simulate:
        drawn = [model.prior.simulate(own, observations.gaps) for own in keys[:PRIOR_DRAWS]]
        starts += [jnp.where(inside, path, 0.0) for path in drawn]
    for own in keys[PRIOR_DRAWS:]:
        starts.append(q.mean + FAR * q.unwhiten(jr.normal(own, q.mean.shape, q.mean.dtype)))
    return starts


def _negated(mean):
    """The path with the other sign of one element, for each of a few."""
    size = math.prod(mean.shape[1:])
    if not 1 < size <= MOST_NEGATED:
        return []
    signs = 1.0 - 2.0 * np.eye(size)
    return [mean * jnp.asarray(row.reshape(1, *mean.shape[1:])) for row in signs]


@eqx.filter_jit
def _fits(starts, q, model, observations):
    def one(start):
        moved = eqx.tree_at(lambda q: q.mean, q, start)
        return newton.refit(model, observations, moved)

    return jax.lax.map(one, starts)


@eqx.filter_jit
def _sd(q):
    return jnp.sqrt(q.variances())


def _are_apart(one, other, sds):
    width = np.hypot(np.asarray(sds[id(one)]), np.asarray(sds[id(other)]))
    return bool((np.abs(np.asarray(one.mean - other.mean)) > APART * width).any())
