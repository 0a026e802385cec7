r"""From the fit to the posterior by small steps: draws of the fit, carried along a path of densities.

In coordinates in which the fit is standard normal, the densities are $N(\epsilon)\,e^{\beta w(\epsilon)}$
with $\beta$ from 0, the fit, to 1, the posterior. Particles are weighted, resampled and moved by Hamiltonian
steps that leave each density as it is (Neal 2001; Del Moral et al. 2006). The product of mean weights
estimates the evidence, the last particles are draws of the posterior. A move never takes particles farther
from the density that it leaves as it is; what chance adds is that of finitely many particles.

Particles come in groups that know nothing of each other but the steps of $\beta$; how far groups differ is
the error of whatever is worked out from them.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key

from driftline.infer.sampling.hamiltonian_rotation import rotated

SPREAD = 0.5  # standard deviation of log weights that a step of beta may add
HALVINGS = 40  # of the interval in which the next beta is sought
STEPS = 4  # of a trajectory
FIRST, LONGEST, SHORTEST = 0.4, 0.6, 1e-3  # of steps, in radians
TARGET, PACE = 0.8, 0.5  # acceptance rate that the step is fitted to, and how fast
LAST_MOVES = 16  # at the posterior itself
MOST = 400  # temperatures: a fit that needs more is not near its posterior


class Particles(NamedTuple):
    """Where a run of tempering ended.

    Attributes:
        positions: Of all particles, (groups, particles, ...), with equal weights.
        log_evidence: Estimate of each group.
        temperatures: How many densities there were between fit and posterior.
        acceptance: Of the last moves.
        reached: Whether the posterior was reached.
    """

    positions: Any
    log_evidence: Float[Array, " groups"]
    temperatures: Any
    acceptance: Any
    reached: Any


class _State(NamedTuple):
    positions: Any
    weights: Any  # log weights w of the positions, and their gradients
    gradients: Any
    log_evidence: Any
    log_shares: Any  # of particles within their groups
    beta: Any
    angle: Any
    acceptance: Any
    count: Any
    moves_left: Any  # at the posterior itself


def temper(
    log_weight: Callable[[Any], Array], like: Any, key: Key[Array, ""], *, groups: int, particles: int
) -> Particles:
    """Carry draws of a standard normal to the posterior.

    Args:
        log_weight: Log density of the posterior beside the standard normal, at a position.
        like: A position, for shapes.
        key: For all randomness.
        groups: Number of groups.
        particles: Of each of them.
    """
    return _temper(log_weight, like, key, groups, particles)


@eqx.filter_jit
def _temper(log_weight, like, key, groups, particles):
    weigh = jax.value_and_grad(log_weight)

    def goes_on(state):
        return (state.moves_left > 0) & (state.count < MOST)

    def step(state):
        key_resample, key_move = jr.split(jr.fold_in(key, state.count))
        rise = _next_rise(state.weights, state.beta)
        log_shares = state.log_shares + jnp.where(rise > 0, rise * state.weights, 0.0)
        gained = jax.nn.logsumexp(log_shares, axis=1)
        beta = jnp.where(state.beta + rise > 1.0 - 1e-12, 1.0, state.beta + rise)
        # At the posterior shares are made even, so that all that follows may forget them.
        at_end = (beta >= 1.0) & (state.beta < 1.0)
        chosen, log_shares = _resampled(key_resample, log_shares - gained[:, None], at_end)
        carried = _taken((state.positions, state.weights, state.gradients), chosen)
        carried, acceptance = _moved(weigh, carried, beta, state.angle, key_move)
        return _State(
            *carried,
            log_evidence=state.log_evidence + gained,
            log_shares=log_shares,
            beta=beta,
            angle=_tuned(state.angle, acceptance),
            acceptance=acceptance,
            count=state.count + 1,
            moves_left=state.moves_left - (beta >= 1.0).astype(int),
        )

    positions = _normal(jr.fold_in(key, MOST), like, (groups, particles))
    weights, gradients = jax.lax.map(jax.vmap(weigh), positions)
    start = _State(
        positions, _no_nan(weights), gradients,
        log_evidence=jnp.zeros(groups),
        log_shares=jnp.full((groups, particles), -math.log(particles)),
        beta=jnp.zeros(()),
        angle=jnp.asarray(FIRST),
        acceptance=jnp.ones(()),
        count=jnp.zeros((), int),
        moves_left=jnp.asarray(LAST_MOVES),
    )  # fmt: skip
    end = jax.lax.while_loop(goes_on, step, start)
    temperatures = end.count - (LAST_MOVES - end.moves_left)
    return Particles(end.positions, end.log_evidence, temperatures, end.acceptance, end.beta >= 1.0)


def _no_nan(weights):
    """NaN means that the model gives a path no density: it must not survive."""
    return jnp.where(jnp.isnan(weights), -jnp.inf, weights)


def _normal(key, like, leading):
    leaves, structure = jax.tree.flatten(like)
    keys = jr.split(key, len(leaves))
    draws = [jr.normal(key, (*leading, *leaf.shape)) for key, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, draws)


def _next_rise(weights, beta):
    """By how much beta may rise for log weights to differ by no more than `SPREAD`, or up to one."""
    usable = jnp.isfinite(weights)
    mean = jnp.sum(jnp.where(usable, weights, 0.0)) / jnp.maximum(1.0, jnp.sum(usable.astype(weights.dtype)))
    apart = jnp.where(usable, weights - mean, 0.0)
    # Light tails of the weights do no harm, heavy ones do: so their effective share, not their variance.

    def share(rise):
        logs = rise * apart
        logs = jnp.where(usable, logs, -jnp.inf)
        return 2.0 * jax.nn.logsumexp(logs) - jax.nn.logsumexp(2.0 * logs) - jnp.log(weights.size)

    least = jnp.log(1.0 / (1.0 + SPREAD**2))

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        fine = share(middle) >= least
        return jnp.where(fine, middle, low), jnp.where(fine, high, middle)

    left = 1.0 - beta
    low, _ = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros(()), left))
    return jnp.where(share(left) >= least, left, jnp.maximum(low, 1e-6))


def _resampled(key, log_shares, always):
    """Which particles go on in each group, and their shares; all do where shares are even enough."""
    groups, many = log_shares.shape
    shares = jnp.cumsum(jnp.exp(log_shares), axis=1)
    rows = jnp.arange(many)[None]
    levels = (jr.uniform(key, (groups, 1)) + rows.astype(shares.dtype)) / many * shares[:, -1:]
    chosen = jnp.minimum(jax.vmap(jnp.searchsorted)(shares, levels).astype(rows.dtype), many - 1)
    uneven = always | (-jax.nn.logsumexp(2.0 * log_shares, axis=1) < math.log(0.5 * many))
    chosen = jnp.where(uneven[:, None], chosen, rows)
    return chosen, jnp.where(uneven[:, None], -math.log(many), log_shares)


def _taken(tree, chosen):
    return jax.tree.map(lambda leaf: jax.vmap(lambda rows, index: rows[index])(leaf, chosen), tree)


def _moved(weigh, carried, beta, angle, key):
    """Every particle at the end of a trajectory, or where it was; and how many were accepted."""

    def kicked(momentum, gradient, angle):
        return jax.tree.map(lambda p, g: p + angle * beta * g, momentum, gradient)

    def energy(position, momentum, weight):
        leaves = jax.tree.leaves((position, momentum))
        return 0.5 * sum(jnp.sum(leaf**2) for leaf in leaves) - beta * weight

    def one(row):
        key, (position, weight, gradient) = row
        key_momentum, key_accept, key_angle = jr.split(key, 3)
        momentum = _normal(key_momentum, position, ())
        own = angle * jr.uniform(key_angle, (), minval=0.6, maxval=1.4)  # so that no period fits

        def step(_, state):
            position, momentum, _, gradient = state
            momentum = kicked(momentum, gradient, 0.5 * own)
            position, momentum = rotated(position, momentum, own)
            weight, gradient = weigh(position)
            return position, kicked(momentum, gradient, 0.5 * own), weight, gradient

        start = position, momentum, weight, gradient
        end = jax.lax.fori_loop(0, STEPS, step, start)
        log_ratio = _no_nan(energy(*start[:3]) - energy(*end[:3]))
        accepted = jnp.log(jr.uniform(key_accept)) < log_ratio
        before, after = (position, weight, gradient), (end[0], end[2], end[3])
        chosen = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), after, before)
        return chosen, jnp.minimum(1.0, jnp.exp(log_ratio))

    keys = jr.split(key, carried[1].shape)
    # One group after the other: what belongs to a group stays in the cache.
    carried, rates = jax.lax.map(jax.vmap(one), (keys, carried))
    return carried, jnp.mean(rates)


def _tuned(angle, acceptance):
    return jnp.clip(angle * jnp.exp(PACE * (acceptance - TARGET)), SHORTEST, LONGEST)
