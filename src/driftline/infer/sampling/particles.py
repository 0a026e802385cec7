r"""A particle filter whose proposals are the fitted Gaussian's own conditionals.

The weight of a path drawn from q splits into one factor per step that looks at that step and its neighbour
only, and that would be constant if q were the posterior (`docs/maths.md`, eq. 28). So resampling has
little to do, and the product of the average weights is an unbiased estimate of the evidence. The filter runs
from the last step to the first, because that is the direction in which the factor of q gives conditionals.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, Key

from driftline.families import AbstractBanded, AbstractFamily
from driftline.linalg import small
from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.model import Model
from driftline.models.observations import Observations


class Steps(NamedTuple):
    """What the filter needs to know of every step, time first; a step is also told of the one after it.

    Attributes:
        mean: Mean of q.
        diag: Diagonal of q's factor.
        upper: Its superdiagonal; zero at the last step.
        next_mean: Mean of q at the step after.
        score: Gradient of the log prior at the mean.
        within: The prior's precision less that of q, at the step.
        between: The same between the step and the one after; zero at the last step.
        values: The observations.
        observed: Which of them were seen.
        gap: Length of time to the step after; infinite at the last step.
        likelihood: Those arrays of the likelihood that have a number for every step, cut up.
    """

    mean: Any
    diag: Any
    upper: Any
    next_mean: Any
    score: Any
    within: Any
    between: Any
    values: Any
    observed: Any
    gap: Any
    likelihood: Any


class Filtered(NamedTuple):
    """What a filter has found.

    Attributes:
        log_evidence: Logarithm of an unbiased estimate of the evidence.
        rises: What every step added to it, beyond a constant.
        expected: What every step adds to the ELBO, beyond the same constant.
        log_weights: Log weights of draws from q, summed over windows of time, (windows, particles).
    """

    log_evidence: Float[Array, ""]
    rises: Float[Array, " T"]
    expected: Float[Array, " T"]
    log_weights: Float[Array, " windows particles"]


class Guide(eqx.Module):
    """A model, seen from a Gaussian that was fitted to it."""

    model: Model
    steps: Steps
    constant: Float[Array, ""]
    num_steps: int = eqx.field(static=True)
    family: type[AbstractBanded] = eqx.field(static=True)  # of q
    coupled: bool = eqx.field(static=True)  # whether the differences of precisions have blocks

    def __init__(self, q: AbstractFamily, model: Model, observations: Observations):
        path, gaps, prior = q.mean, observations.gaps, model.prior
        self.num_steps = len(path)
        banded = q.banded()
        q_diag, q_off = banded.precision()
        self.family = type(banded)
        self.coupled = q.structure == "block" or not prior.is_gaussian
        if self.coupled:
            diag, off = prior.precision_blocks(path, gaps)
            dim = math.prod(path.shape[1:])
            q_diag, q_off = _blocks(q_diag, dim), _blocks(q_off, dim)
        else:
            diag, off = prior.precision_diagonals(path, gaps)
        self.constant = prior.log_prob(path, gaps) - q.log_prob_of_noise(jnp.zeros_like(path))
        self.model = model
        self.steps = Steps(
            path,
            banded.diag,
            _with_last(banded.upper, 0.0),
            jnp.concatenate([path[1:], path[-1:]]),
            jax.grad(prior.log_prob)(path, gaps),
            diag - q_diag,
            _with_last(off - q_off, 0.0),
            observations.values,
            observations.observed,
            _with_last(gaps, jnp.inf),
            _cut_up(model.likelihood, observations.values),
        )

    def noise_of(self, step: Steps, deviation: Array, later: Array) -> Array:
        """The noise that makes a deviation from the mean, given the deviation one step later."""
        return self.family.noise_of_step(step.diag, step.upper, deviation, later)

    def deviation_of(self, step: Steps, noise: Array, later: Array) -> Array:
        """The deviation from the mean that noise makes, given the deviation one step later."""
        return self.family.deviation_of_step(step.diag, step.upper, noise, later)

    def own_weight(self, step: Steps, deviation: Array) -> Array:
        """The part of a step's log weight that does not look at the step after it."""
        likelihood = eqx.combine(step.likelihood, self.model.likelihood)
        model = eqx.tree_at(lambda model: model.likelihood, self.model, likelihood)
        seen = Observations(step.values[None], step.observed[None], jnp.ones(()))
        fit = jnp.sum(model.log_likelihoods((step.mean + deviation)[None], seen))
        product = self._product(step.within, deviation)
        return fit + jnp.sum(step.score * deviation) - 0.5 * jnp.sum(product * deviation)

    def pair_weight(self, step: Steps, deviation: Array, later: Array) -> Array:
        """The rest of a step's log weight."""
        weight = -jnp.sum(self._product(step.between, later) * deviation)
        values, moves = (step.next_mean, step.mean), (later, deviation)
        return weight + self.model.prior.transition_remainder(values, moves, step.gap)

    def _product(self, band, vector):
        return (band @ vector.ravel()).reshape(vector.shape) if self.coupled else band * vector

    def last_weight(self, deviation: Array) -> Array:
        """What the density of the very first step adds beyond second order."""
        return self.model.prior.initial_remainder(self.steps.mean[0], deviation)


def run(guide: Guide, key: Key[Array, ""], *, num_particles: int, window: int) -> Filtered:
    """Filter from the last step to the first.

    Args:
        guide: The model and the Gaussian that guides.
        key: For all randomness.
        num_particles: Number of particles.
        window: Number of steps per window for which the weights of plain draws are gathered.
    """
    shape = guide.steps.mean.shape[1:]
    dtype = guide.steps.mean.dtype
    num_windows = -(-guide.num_steps // window)
    even = jnp.full(num_particles, -math.log(num_particles), dtype)

    def step(state, row):
        t, step = row
        later, log_weights, plain_later, sums = state
        key_noise, key_resample = jr.split(jr.fold_in(key, t))
        noise = jr.normal(key_noise, (num_particles, *shape), dtype)
        draw = jax.vmap(lambda noise, later: _advance(guide, step, noise, later))
        deviation, weights = draw(noise, later)
        plain, plain_weights = draw(noise, plain_later)
        first = t == 0
        weights, plain_weights = (
            w + jnp.where(first, jax.vmap(guide.last_weight)(y), 0.0)
            for w, y in ((weights, deviation), (plain_weights, plain))
        )
        # NaN means that the model gives the path no density: it must not survive.
        weights = jnp.where(jnp.isnan(weights), -jnp.inf, weights)
        log_weights = log_weights + weights
        rise = jax.nn.logsumexp(log_weights)
        log_weights = log_weights - rise
        uneven = -jax.nn.logsumexp(2.0 * log_weights) < math.log(0.5 * num_particles)
        chosen = _systematic(key_resample, log_weights)
        deviation = jnp.where(uneven, deviation[chosen], deviation)
        log_weights = jnp.where(uneven, even, log_weights)
        sums = sums.at[t // window].add(plain_weights)
        return (deviation, log_weights, plain, sums), (rise, jnp.mean(plain_weights))

    start = jnp.zeros((num_particles, *shape), dtype)
    sums = jnp.zeros((num_windows, num_particles), dtype)
    state = (start, even, start, sums)
    rows = (jnp.arange(guide.num_steps), guide.steps)
    (*_, sums), (rises, expected) = jax.lax.scan(step, state, rows, reverse=True)
    return Filtered(guide.constant + jnp.sum(rises), rises, expected, sums)


def _advance(guide: Guide, step: Steps, noise: Array, later: Array) -> tuple[Array, Array]:
    deviation = guide.deviation_of(step, noise, later)
    return deviation, guide.own_weight(step, deviation) + guide.pair_weight(step, deviation, later)


def _systematic(key: Key[Array, ""], log_weights: Float[Array, " P"]) -> Int[Array, " P"]:
    """Indices of as many particles as there are, each as often as its weight says, to within one."""
    count = len(log_weights)
    shares = jnp.cumsum(jnp.exp(log_weights))
    levels = (jr.uniform(key, (), shares.dtype) + jnp.arange(count, dtype=shares.dtype)) / count * shares[-1]
    return jnp.minimum(jnp.searchsorted(shares, levels), count - 1)


def _blocks(band: Float[Array, " T *entry"], dim: int) -> Float[Array, " T D D"]:
    if band.shape[1:] == (dim, dim):
        return band
    return small.from_diagonals(band)


def _cut_up(likelihood: AbstractLikelihood, values: Array) -> AbstractLikelihood:
    """The numbers of a likelihood for every step, as series of one step each; None for all others."""
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf)[:, None] if likelihood.is_per_step(leaf, values) else None, likelihood
    )


def _with_last(array: Float[Array, " T *entry"], value: float) -> Float[Array, " T+1 *entry"]:
    return jnp.concatenate([array, jnp.full((1, *array.shape[1:]), value, array.dtype)])
