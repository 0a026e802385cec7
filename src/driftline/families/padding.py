"""Families filled up with steps that are cut off, and cut back: similar lengths share one program."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Array

from driftline.families.base import AbstractFamily
from driftline.families.block_gauss_markov import BlockGaussMarkov
from driftline.families.gauss_markov import GaussMarkov
from driftline.linalg.lengths import padded_length

Banded = TypeVar("Banded", GaussMarkov, BlockGaussMarkov)


def fill(q: AbstractFamily) -> AbstractFamily:
    """A family with independent standard normals added up to a padded length; a dense one as it is."""
    diag = getattr(q, "diag", None)
    if diag is None:
        return q
    extra = padded_length(len(q.mean)) - len(q.mean)

    def one(leaf: Array | np.ndarray) -> np.ndarray:
        filling = np.zeros((extra, *leaf.shape[1:]))
        if leaf is diag:
            filling += np.eye(leaf.shape[1]) if isinstance(q, BlockGaussMarkov) else 1.0
        return np.concatenate([np.asarray(leaf), filling])

    return jax.tree.map(one, q)


def cut(q: Banded, num_steps: int) -> Banded:
    """The first steps of a family, without those that filled it up."""
    # In NumPy, and device_put: JAX would compile programs for every new length.
    bands = (
        np.asarray(q.mean)[:num_steps],
        np.asarray(q.diag)[:num_steps],
        np.asarray(q.upper)[: num_steps - 1],
    )
    return type(q)(*(jax.device_put(band) for band in bands))
