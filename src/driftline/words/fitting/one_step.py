"""One time step of a method that goes step by step: the climb to its mode, or up its ELBO, compiled."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from driftline.infer.bbvi import adam
from driftline.words.fitting import likelihood
from driftline.words.fitting.likelihood import Batch, Embeddings
from driftline.words.fitting.trainer import ROUNDING

FAST_RATE, PAPER_RATE = 0.1, 1e-2  # in standard deviations of the prior, and as published
SECOND_DECAY = 0.99
SETTLE = 4  # updates of the filter's variances; each depends a little on the ones before
ROUND = 60  # passes between two looks at the objective
SLOWER = 0.7  # rate of a round, by that of the one before, near the end
TOLERANCE = 0.02  # of a round's gain: nats a word


@functools.partial(jax.jit, static_argnames=("passes", "is_filter", "published"))
def fit_step(
    batch: Batch,
    prior: Embeddings,
    start: Sequence[np.ndarray],
    key: Array,
    passes: int,
    is_filter: bool,
    published: bool,
) -> tuple[Embeddings, Array, Array | bool]:
    """What is known after a step, the objective of that step, and whether it has come to its end."""
    if published and is_filter:
        found, ended = _published_filter(batch, prior, start, key, passes), False
    else:
        means = Embeddings(*(jnp.asarray(array) for array in start))
        if published:
            found, ended = _climb(batch, prior, means, passes, (PAPER_RATE, PAPER_RATE)), False
        else:
            found, ended = _climb_to_the_end(batch, prior, means, passes)
        for _ in range(SETTLE if is_filter else 0):
            found = _refreshed(batch, prior, found)
    return found, likelihood.value(batch, found) - _divergence(found, prior), ended


def _climb_to_the_end(
    batch: Batch, prior: Embeddings, means: Embeddings, passes: int
) -> tuple[Embeddings, Array]:
    """Rounds of Adam, slower and slower, until one gains next to nothing or passes run out."""
    enough = TOLERANCE * jnp.sum(batch.rows > 0, dtype=batch.rows.dtype)

    def value(means):
        return likelihood.value(batch, means) - _divergence(means, prior)

    def least(value):
        return jnp.maximum(enough, ROUNDING * jnp.abs(value))

    def goes_on(carried):
        _, last, gain, _, gone = carried
        return (gone == 0) | ((gain >= least(last)) & (gone * ROUND < passes))

    def again(carried):
        means, last, before, rate, gone = carried
        length = jnp.clip(passes - gone * ROUND, 0, ROUND)
        ahead = _climb(batch, prior, means, length, (rate, 0.1 * rate))
        reached = value(ahead)
        better = reached > last
        means = jax.tree.map(lambda new, old: jnp.where(better, new, old), ahead, means)
        # A round that fell was too fast, which is not an end; by rounding it may seem to have fallen.
        fell = reached < last - ROUNDING * jnp.abs(last)
        gain = jnp.where(fell, jnp.inf, jnp.maximum(reached - last, 0.0))
        # While rounds gain about as much as the ones before, there is a way to go: no reason to slow down.
        slower = jnp.where(fell | (gain < 0.5 * before), SLOWER * rate, rate)
        return means, jnp.maximum(reached, last), gain, slower, gone + 1

    first = value(means)
    begin = (means, first, jnp.full_like(first, jnp.inf), jnp.full_like(first, FAST_RATE), jnp.asarray(0))
    means, last, gain, _, _ = jax.lax.while_loop(goes_on, again, begin)
    return means, gain < least(last)


def _divergence(found: Embeddings, prior: Embeddings) -> Array:
    """KL divergence from the prior; of points, minus its log density but for constants."""
    twice: Any = 0.0
    for side in ("word", "context"):
        mean, centre = (getattr(moments, f"{side}s") for moments in (found, prior))
        variance, wide = (getattr(moments, f"{side}_variances") for moments in (found, prior))
        twice += jnp.sum((mean - centre) ** 2 / wide)
        if variance is not None:
            twice += jnp.sum(variance / wide - 1.0 - jnp.log(variance / wide))
    return 0.5 * twice


def _climb(
    batch: Batch, prior: Embeddings, means: Embeddings, passes: Any, rates: tuple[Any, Any]
) -> Embeddings:
    """Adam to the mode, in standard deviations of the prior; its rate goes to the last in the second half."""
    first_rate, last_rate = rates
    sds = jnp.sqrt(prior.word_variances), jnp.sqrt(prior.context_variances)
    centres = prior.words, prior.contexts

    def one(i, carried):
        means, moments = carried
        slopes = likelihood.over_tiles(batch, means, likelihood.tile_gradients)
        places = means.words, means.contexts
        slopes = tuple(
            sd * slope - (place - centre) / sd
            for sd, slope, place, centre in zip(sds, slopes, places, centres, strict=True)
        )
        direction, moments = adam.direction(slopes, moments, SECOND_DECAY)
        gone = jnp.maximum(0.0, 2.0 * i / passes - 1.0)
        now = jnp.asarray(first_rate + (last_rate - first_rate) * gone, means.words.dtype)
        words, contexts = (
            place + now * sd * step for place, sd, step in zip(places, sds, direction, strict=True)
        )
        return means._replace(words=words, contexts=contexts), moments

    moments = adam.begin((means.words, means.contexts))
    return jax.lax.fori_loop(0, passes, one, (means, moments))[0]


def _refreshed(batch: Batch, prior: Embeddings, means: Embeddings) -> Embeddings:
    """Optimal variances for the means, in one step of the fixed-point iteration."""
    words, contexts = likelihood.over_tiles(batch, means, likelihood.tile_curvatures)
    return means._replace(
        word_variances=1.0 / (1.0 / prior.word_variances + words),
        context_variances=1.0 / (1.0 / prior.context_variances + contexts),
    )


def _published_filter(
    batch: Batch, prior: Embeddings, start: Sequence[np.ndarray], key: Array, passes: int
) -> Embeddings:
    """Reparameterised gradients from one draw, for means and logarithms of standard deviations."""
    sds = jnp.sqrt(prior.word_variances), jnp.sqrt(prior.context_variances)
    centres = prior.words, prior.contexts
    logs = tuple(jnp.log(sd) for sd in sds)
    parameters = (tuple(jnp.asarray(array) for array in start), logs)

    def one(i, carried):
        (means, logs), moments = carried
        noise = [
            jr.normal(k, sd.shape, sd.dtype) for k, sd in zip(jr.split(jr.fold_in(key, i)), sds, strict=True)
        ]
        widths = [jnp.exp(log) for log in logs]
        draws = [mean + width * e for mean, width, e in zip(means, widths, noise, strict=True)]
        slopes = likelihood.over_tiles(batch, Embeddings(*draws), likelihood.tile_gradients)
        of_means = tuple(
            slope - (mean - centre) / sd**2
            for slope, mean, centre, sd in zip(slopes, means, centres, sds, strict=True)
        )
        of_logs = tuple(
            slope * e * width + 1.0 - (width / sd) ** 2
            for slope, e, width, sd in zip(slopes, noise, widths, sds, strict=True)
        )
        direction, moments = adam.direction(
            (of_means, of_logs), moments, SECOND_DECAY, floor=adam.PUBLISHED_FLOOR
        )
        return jax.tree.map(lambda x, step: x + PAPER_RATE * step, (means, logs), direction), moments

    (means, logs), _ = jax.lax.fori_loop(0, passes, one, (parameters, adam.begin(parameters)))
    return Embeddings(*means, *(jnp.exp(2.0 * log) for log in logs))
