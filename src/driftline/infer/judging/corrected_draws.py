"""Draws of the posterior itself, from a fit: by tempering."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.families import AbstractBanded
from driftline.infer.number_vector import Layout
from driftline.infer.sampling.tempering import Particles, temper
from driftline.infer.sampling.whitened_coordinates import Coordinates, Place, Position, coordinates
from driftline.models.model import Model
from driftline.models.observations import Observations

FEWEST = 32  # particles of a group


def corrected_sample(
    model: Model,
    observations: Observations,
    q: AbstractBanded,
    layout: Layout,
    points: tuple[np.ndarray, np.ndarray],
    num_draws: int,
    seed: int,
) -> np.ndarray:
    """Draw paths from the posterior itself, as near as tempering comes to it: (draws, T, *shape).

    Args:
        model: The model, with learnt numbers at any value.
        observations: The series.
        q: A fit of the path.
        layout: How the learnt numbers lie in a vector.
        points: Points of them without bounds, (P, K), and their weights.
        num_draws: Number of paths.
        seed: The same seed gives the same numbers.
    """
    found = coordinates(model, observations, q, layout, *points)
    groups = max(2, -(-num_draws // FEWEST))
    paths = places(found, tempered(found, jr.key(seed), groups, FEWEST)).path
    flat = np.asarray(paths).reshape(-1, *paths.shape[2:])
    return np.random.default_rng(seed).permutation(flat)[:num_draws]


def tempered(found: Coordinates, key: jax.Array, groups: int, particles: int) -> Particles:
    """Particles of the posterior in the coordinates of a fit."""
    like = Position(jnp.zeros_like(found.center), jnp.zeros_like(found.q.mean))
    return temper(found.log_weight, like, key, groups=groups, particles=particles)


@eqx.filter_jit
def places(found: Coordinates, particles: Particles) -> Place:
    """Numbers and paths of all particles, (groups, particles, ...)."""
    return jax.lax.map(jax.vmap(found.place), particles.positions)
