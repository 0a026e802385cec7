"""Whether the elements of a step depend on each other, so that one chain for all of them is worth it."""

import math

import equinox as eqx
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from driftline.infer.curvature import block_precision, is_elementwise
from driftline.models.model import Model
from driftline.models.observations import Observations

MOST_ELEMENTS = 8  # of a step that are worth one chain: its blocks cost their number to the third
PATHS = 3  # at which couplings are looked for
SMALL = 1e-8  # of the curvature of both elements: a coupling that is none


def couples(model: Model, observations: Observations, path: Float[Array, " T *shape"]) -> bool:
    """Whether elements are coupled and few enough for a block, by second derivatives at some paths.

    Args:
        model: The model, with fixed numbers.
        observations: The series.
        path: A path around which to look.
    """
    if not _may_couple(model):
        return False
    dim = math.prod(model.prior.shape)
    for key in jr.split(jr.key(0), PATHS):
        near = path + jr.normal(key, path.shape, path.dtype)
        for blocks in map(np.asarray, _blocks(model, near, observations)):
            apart = blocks[:, ~np.eye(dim, dtype=bool)]
            size = np.abs(blocks).max(initial=0.0)
            if np.any(np.abs(apart) > SMALL * size):
                return True
    return False


def _may_couple(model: Model) -> bool:
    if not 1 < math.prod(model.prior.shape) <= MOST_ELEMENTS:
        return False
    return not (is_elementwise(model) and model.prior.is_gaussian)


@eqx.filter_jit
def _blocks(model: Model, path: Float[Array, " T *shape"], observations: Observations) -> tuple[Array, Array]:
    return block_precision(model, path, observations)


def chosen_structure(model: Model, observations: Observations) -> str:
    """The structure of a fit for which none was asked for."""
    if not _may_couple(model):
        return "chains"
    path = model.prior.mean_path(observations.gaps)
    return "block" if couples(model, observations, path) else "chains"
