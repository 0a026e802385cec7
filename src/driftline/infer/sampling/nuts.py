"""NUTS in coordinates that are nearly standard normal, all chains side by side.

BlackJAX has the kernel; the steps are those of `rotation`, and chains share what they learn while they warm
up: the length of a step, and centre and width of every coordinate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.infer.sampling.hamiltonian_rotation import rotating

TARGET = 0.8  # acceptance rate that the length of steps is fitted to
FIRST, LONGEST, SHORTEST = 0.4, 0.7, 1e-4  # of steps, in radians
BOLD = 1.2  # by how much a step may be longer than the tuned one, to save half of them
AT_ONCE = 25  # draws of every chain between two looks at the keyboard
BELIEVED = 30  # draws' worth of belief that coordinates are standard normal already
MOST_DOUBLINGS = 10


class Scale(NamedTuple):
    """Centre and width of every coordinate, as found so far."""

    shift: Any
    width: Any


class Tuning(NamedTuple):
    """Of the length of a step, by dual averaging (Hoffman and Gelman 2014)."""

    log_angle: Any
    average: Any
    error: Any
    count: Any


class Chains(NamedTuple):
    """What chains have drawn; a leading axis for them, then one for the draws.

    Attributes:
        draws: What was kept of every position.
        divergent: Whether a draw's trajectory left what the steps can follow.
        steps: Gradients that it took.
        acceptance: Its mean acceptance rate.
        angle: Length of a step.
        interrupted: Whether there are fewer draws than were asked for, because Ctrl-C came first.
    """

    draws: Any
    divergent: np.ndarray
    steps: np.ndarray
    acceptance: np.ndarray
    angle: float
    interrupted: bool


def sample(
    log_density: Callable[[Any], Any],
    keep: Callable[[Any], Any],
    positions: Any,
    *,
    warmup: int,
    draws: int,
    seed: int,
    report: Callable[[int, int, float], None],
) -> Chains:
    """Draw from a density.

    Args:
        log_density: Of a position, any pytree of arrays.
        keep: What to keep of a position.
        positions: Where the chains start, with a leading axis for them.
        warmup: Draws of every chain that are thrown away.
        draws: Draws of every chain that are kept.
        seed: The same seed gives the same draws.
        report: Told about draws made, draws in all, and the step's length.
    """
    # Two thirds of the warm-up find the widths. The last finds the length of a step, which holds only for the
    # widths that it was tuned with.
    third = warmup // 3
    first, second, last = (_in_parts(part) for part in (warmup - 2 * third, third, third))
    run = _Run(log_density, positions, seed, report, first + second + last + _in_parts(draws))
    for window in (first, second):
        seen = [run.advance(tunes=True)[0] for _ in range(window)]
        if seen:
            run.rescale(seen[len(seen) // 2 :])
    for _ in range(last):
        run.advance(tunes=True)
    run.settle()
    found, interrupted = [], False
    try:
        for _ in range(_in_parts(draws)):
            found.append(_kept(keep, run.advance(tunes=False)))
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, :draws], *found)
    return Chains(whole[0], whole[1], whole[2], whole[3], run.angle, interrupted)


def _in_parts(draws):
    return -(-draws // AT_ONCE)


class _Run:
    """Where all chains are, and what they have learnt."""

    def __init__(self, log_density, positions, seed, report, num_parts):
        self._log_density, self._positions, self._report = log_density, positions, report
        self._scale = Scale(
            jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:]), positions),
            jax.tree.map(lambda leaf: jnp.ones(leaf.shape[1:]), positions),
        )
        self._tuning, self._key = _tuning(FIRST), jr.key(seed)
        self._made, self._total = 0, AT_ONCE * num_parts

    @property
    def angle(self):
        """Length of a step."""
        return float(jnp.exp(self._tuning.log_angle))

    def advance(self, *, tunes):
        """Positions of some draws of all chains, and facts about them."""
        self._key, key = jr.split(self._key)
        self._positions, self._tuning, part = _advance(
            self._log_density, self._positions, self._scale, self._tuning, key, jnp.asarray(tunes)
        )
        self._made += AT_ONCE
        self._report(self._made, self._total, self.angle)
        return part

    def rescale(self, seen):
        """Take centre and width of every coordinate from draws, and tune again."""
        self._scale = _rescaled(seen)
        self._tuning = _tuning(float(jnp.exp(self._tuning.average)))

    def settle(self):
        """Keep the step's length from now on."""
        angle = _fitting(float(jnp.exp(self._tuning.average)))
        self._tuning = self._tuning._replace(log_angle=jnp.log(angle))


def _fitting(angle):
    """A step near the tuned one with which half a turn is one less than a power of two of them.

    Trajectories double until they turn back, which they do after half a turn if the fit is good. If that is
    missed by a little, the next double is a whole turn, which ends where it began.
    """
    half_turn = 1.03 * np.pi
    doublings = max(2, int(np.ceil(np.log2(half_turn / angle + 1.0))))
    bold, timid = (half_turn / (2.0**k - 1.0) for k in (doublings - 1, doublings))
    return min(bold if bold <= BOLD * angle else timid, LONGEST)


def _kept(keep, part):
    return jax.tree.map(np.asarray, (_kept_of(keep, part[0]), *part[1:]))


@eqx.filter_jit
def _kept_of(keep, positions):
    return jax.lax.map(jax.vmap(keep), positions)


@eqx.filter_jit
def _advance(log_density, positions, scale, tuning, key, tunes):
    """Some draws of all chains."""
    from blackjax import nuts  # an extra: only who refines a fit needs it

    def inner(position):
        return log_density(_outer(scale, position))

    kernel = nuts.build_kernel(integrator=rotating)
    flat = jax.flatten_util.ravel_pytree(jax.tree.map(lambda leaf: leaf[0], positions))[0]
    start = jax.vmap(lambda position: nuts.init(_inner(scale, position), inner))(positions)

    def step(state, key):
        states, tuning = state

        def one(key, state):
            return kernel(key, state, inner, jnp.exp(tuning.log_angle), jnp.ones_like(flat), MOST_DOUBLINGS)

        states, info = jax.vmap(one)(jr.split(key, len(states.logdensity)), states)
        rates = jnp.where(jnp.isnan(info.acceptance_rate), 0.0, info.acceptance_rate)
        tuning = jax.tree.map(lambda a, b: jnp.where(tunes, a, b), _tuned(tuning, jnp.mean(rates)), tuning)
        outer = jax.vmap(lambda state: _outer(scale, state.position))(states)
        return (states, tuning), (outer, info.is_divergent, info.num_integration_steps, rates)

    (_, tuning), found = jax.lax.scan(step, (start, tuning), jr.split(key, AT_ONCE))
    positions = jax.tree.map(lambda leaf: leaf[-1], found[0])
    return positions, tuning, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, 1), found)


def _outer(scale, position):
    return jax.tree.map(lambda x, shift, width: shift + width * x, position, *scale)


def _inner(scale, position):
    return jax.tree.map(lambda x, shift, width: (x - shift) / width, position, *scale)


def _rescaled(seen):
    """Centre and width of all draws, which are drawn towards those of a standard normal if they are few."""
    draws = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *seen)
    many = jax.tree.leaves(draws)[0].shape[:2]
    share = many[0] * many[1] / (many[0] * many[1] + BELIEVED)
    shift = jax.tree.map(lambda leaf: share * jnp.mean(leaf, axis=(0, 1)), draws)
    width = jax.tree.map(lambda leaf: jnp.sqrt(share * jnp.var(leaf, axis=(0, 1)) + (1 - share)), draws)
    return Scale(shift, width)


def _tuning(angle):
    log = jnp.log(jnp.clip(angle, SHORTEST, LONGEST))
    return Tuning(log, log, jnp.zeros(()), jnp.zeros(()))


def _tuned(tuning: Tuning, acceptance) -> Tuning:
    count = tuning.count + 1.0
    share = 1.0 / (count + 10.0)
    error = (1.0 - share) * tuning.error + share * (TARGET - acceptance)
    log = jnp.log(FIRST) - jnp.sqrt(count) / 0.05 * error
    log = jnp.clip(log, jnp.log(SHORTEST), jnp.log(LONGEST))
    weight = count**-0.75
    return Tuning(log, weight * log + (1.0 - weight) * tuning.average, error, count)
