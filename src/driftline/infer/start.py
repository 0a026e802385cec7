"""Where a fit begins: the prior's mean, with the curvature found there, once the model is seen to work."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractBanded, BlockGaussMarkov, GaussMarkov, MeanField
from driftline.infer.curvature import BANDS
from driftline.models.model import Model
from driftline.models.observations import Observations

# Above this many elements a step, curvature is not probed for a start: one probe costs a gradient.
MOST_PROBES = 64


class Start(NamedTuple):
    """The model at the starting path."""

    path: Float[Array, " T *shape"]
    log_prior: Float[Array, ""]
    log_likelihoods: Float[Array, " T *data"]
    score: Float[Array, " T *shape"]


def begin(model: Model, observations: Observations) -> Float[Array, " T *shape"]:
    """The starting path, after checking that the log joint and its gradient are finite there."""
    start = _evaluate(model, observations)
    _check_finite("the likelihood", np.asarray(start.log_likelihoods), start.path, observations)
    if not np.isfinite(start.log_prior):
        raise ValueError(
            f"the log density of the prior is {float(start.log_prior)} at the starting path; "
            "check its functions, or let it begin elsewhere with MarkovPrior(start=...)"
        )
    _check_finite("the gradient of the log joint", np.asarray(start.score), start.path, observations)
    return start.path


def starting_family(
    model: Model, path: Float[Array, " T *shape"], observations: Observations, structure: str
) -> AbstractBanded:
    """A member of the family that is asked for, as wide as the curvature at the starting path says."""
    dim = math.prod(model.prior.shape)
    if dim > MOST_PROBES and not model.prior.is_gaussian:
        return _unit_family(path, structure)
    family = _curved_family(model, path, observations, structure)
    if all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(family)):
        return family
    return _unit_family(path, structure)


@eqx.filter_jit
def without_correlations(q: AbstractBanded) -> MeanField:
    """The independent Gaussians closest to chains: the same means, and the diagonal of the precision."""
    return MeanField(q.mean, jnp.sqrt(q.precision()[0]))


@eqx.filter_jit
def _evaluate(model: Model, observations: Observations) -> Start:
    path = model.prior.mean_path(observations.gaps)
    score = jax.grad(model.log_joint)(path, observations)
    log_likelihoods = model.log_likelihoods(path, observations)
    return Start(path, model.log_prior(path, observations), log_likelihoods, score)


@eqx.filter_jit
def _curved_family(
    model: Model, path: Float[Array, " T *shape"], observations: Observations, structure: str
) -> AbstractBanded:
    if structure == "chains" and math.prod(model.prior.shape) > MOST_PROBES:
        return GaussMarkov.from_precision(path, *model.prior.precision_diagonals(path, observations.gaps))
    band = BANDS[structure]
    return band.family.from_precision(path, *band.precision(model, path, observations))


def _unit_family(path: Float[Array, " T *shape"], structure: str) -> AbstractBanded:
    """Independent unit Gaussians, where the curvature at the start is not positive definite."""
    dim = math.prod(path.shape[1:])
    if structure == "block":
        identity = jnp.broadcast_to(jnp.eye(dim, dtype=path.dtype), (len(path), dim, dim))
        return BlockGaussMarkov(path, identity, jnp.zeros_like(identity[1:]))
    return GaussMarkov(path, jnp.ones_like(path), jnp.zeros_like(path[1:]))


def _check_finite(
    what: str, values: np.ndarray, path: Float[Array, " T *shape"], observations: Observations
) -> None:
    steps = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if steps.any():
        step = int(np.argmax(steps))
        value = values[step][~np.isfinite(values[step])].flat[0] if values[step].ndim else values[step]
        raise ValueError(
            f"{what} is {value} at step {step}, where the observation is "
            f"{np.asarray(observations.values[step])} and the path starts at {np.asarray(path[step])}; "
            "check the likelihood for that observation, or start the path elsewhere (the prior's mean, or "
            "MarkovPrior(start=...))"
        )
