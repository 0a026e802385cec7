"""The band of minus the Hessian of the log joint, at a path, in O(T).

A Markov prior couples only neighbouring steps and the likelihood couples none, so the Hessian is block
tridiagonal (`docs/maths.md`, eq. 22). The likelihood's blocks come from Hessian-vector products that probe
all steps at once; the prior knows its own. Nothing of size T² appears.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.families import AbstractBanded, BlockGaussMarkov, GaussMarkov
from driftline.linalg import small
from driftline.models.model import Model
from driftline.models.observations import Observations


def is_elementwise(model: Model) -> bool:
    """Whether the likelihood couples no two elements of a step."""
    return model.prior.shape == () or model.likelihood.is_elementwise


def chain_precision(
    model: Model, path: Float[Array, " T *shape"], observations: Observations
) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
    """Minus the second derivatives of each element with itself, now and one step later."""
    diag, off = model.prior.precision_diagonals(path, observations.gaps)
    if is_elementwise(model):
        return diag - _probe(model, path, observations, jnp.ones_like(path)), off
    likelihood = jnp.diagonal(_likelihood_blocks(model, path, observations), axis1=1, axis2=2)
    return diag + likelihood.reshape(path.shape), off


def block_precision(
    model: Model, path: Float[Array, " T *shape"], observations: Observations
) -> tuple[Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
    """Minus the second derivatives of all elements of a step with each other, now and one step later."""
    diag, off = model.prior.precision_blocks(path, observations.gaps)
    return diag + _likelihood_blocks(model, path, observations), off


def precision_like(
    q: AbstractBanded, model: Model, observations: Observations
) -> tuple[Float[Array, " T *entry"], Float[Array, " T-1 *entry"]]:
    """The precision of a model at the mean of `q`, in the form that the precision of `q` has."""
    return BANDS[q.structure].precision(model, q.mean, observations)


def _probe(
    model: Model,
    path: Float[Array, " T *shape"],
    observations: Observations,
    direction: Float[Array, " T *shape"],
) -> Float[Array, " T *shape"]:
    """Product of the likelihood's Hessian with a direction."""

    def gradient(path):
        return jax.grad(lambda path: jnp.sum(model.log_likelihoods(path, observations)))(path)

    return jax.jvp(gradient, (path,), (direction,))[1]


def likelihood_curvature(
    model: Model, path: Float[Array, " T *shape"], observations: Observations
) -> Float[Array, " T *shape"] | Float[Array, " T D D"]:
    """Minus the second derivatives of the log likelihood: blocks, or their diagonals if there is no more."""
    if is_elementwise(model):
        return -_probe(model, path, observations, jnp.ones_like(path))
    return _likelihood_blocks(model, path, observations)


def _likelihood_blocks(
    model: Model, path: Float[Array, " T *shape"], observations: Observations
) -> Float[Array, " T D D"]:
    if is_elementwise(model):
        return small.from_diagonals(likelihood_curvature(model, path, observations))
    dim = math.prod(path.shape[1:])

    def column(unit):
        direction = jnp.broadcast_to(unit.reshape(path.shape[1:]), path.shape)
        return -_probe(model, path, observations, direction).reshape(len(path), dim)

    columns = jax.lax.map(column, jnp.eye(dim, dtype=path.dtype))
    return jnp.moveaxis(columns, 0, -1)


class Band(NamedTuple):
    """What a structure means: the family of a fit, and the precision that members of it take."""

    family: type[GaussMarkov] | type[BlockGaussMarkov]
    precision: Callable


BANDS = {
    "chains": Band(GaussMarkov, chain_precision),
    "block": Band(BlockGaussMarkov, block_precision),
}
