"""Whether a model is linear and Gaussian: whether the curvature of its log joint is the same everywhere."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.infer.curvature import chain_precision, is_elementwise, likelihood_curvature
from driftline.models.model import Model
from driftline.models.observations import Observations


def check_quadratic(
    model: Model,
    observations: Observations,
    path: Float[Array, " T *shape"],
    mean: Float[Array, " T *shape"],
) -> None:
    """Refuse a model whose curvature at a path differs from that near the mean that follows from it.

    Likelihood and prior are each held against their own size, since one may be far larger than the other.
    The paths are as far apart as the posterior or, if it is wider, the likelihood is wide: no unit is built
    in.
    """
    here = _bands(model, observations, path)
    wide = _widths(model, observations, path, here[0].left)
    # A pattern without symmetry, so that no odd or even term can hide.
    pattern = 0.7 + np.sin(1.0 + 1.3 * np.arange(path.size)).reshape(path.shape)
    centre = np.where(np.isfinite(mean), mean, path)
    there = _bands(model, observations, jnp.asarray(centre + pattern * wide))
    for band, other in zip(here, there, strict=True):
        wrong = _differ(band, other)
        if wrong.any():
            raise ValueError(
                "method='exact' needs a model that is linear and Gaussian, but the curvature of the log "
                f"joint at step {int(np.argmax(wrong))} changes with the path; use another method for this "
                "model"
            )


class _Band(NamedTuple):
    """Second derivatives between the elements of steps, with the sizes of both sides' own."""

    values: np.ndarray  # (T, D) where no two elements are coupled, else (T, D, D)
    left: np.ndarray  # (T, D)
    right: np.ndarray


def _bands(model: Model, observations: Observations, path: Float[Array, " T *shape"]) -> list[_Band]:
    """The curvature of the likelihood and, where it is not that of a Gaussian anyway, of the prior."""
    likelihood, prior = _curvatures(model, observations, path)
    likelihood = np.asarray(likelihood)
    if is_elementwise(model):
        likelihood = likelihood.reshape(len(likelihood), -1)
    roots = _roots(likelihood)
    bands = [_Band(likelihood, roots, roots)]
    if prior is not None:
        diag, off = map(np.asarray, prior)
        roots = _roots(diag)
        bands += [_Band(diag, roots, roots), _Band(off, roots[:-1], roots[1:])]
    return bands


@eqx.filter_jit
def _curvatures(
    model: Model, observations: Observations, path: Float[Array, " T *shape"]
) -> tuple[Array, tuple[Array, Array] | None]:
    prior = None if model.prior.is_gaussian else model.prior.precision_blocks(path, observations.gaps)
    return likelihood_curvature(model, path, observations), prior


@eqx.filter_jit
def _chain_diagonal(
    model: Model, observations: Observations, path: Float[Array, " T *shape"]
) -> Float[Array, " T *shape"]:
    return chain_precision(model, path, observations)[0]


def _widths(
    model: Model, observations: Observations, path: Float[Array, " T *shape"], likelihood_roots: np.ndarray
) -> np.ndarray:
    """Width of each number of the posterior given all others, or of its likelihood if that is wider."""
    roots = np.sqrt(np.abs(np.asarray(_chain_diagonal(model, observations, path))))
    own = likelihood_roots.reshape(path.shape)
    roots = np.where(own > 0, np.minimum(roots, own), roots)
    return 1.0 / np.where(roots > 0, roots, 1.0)


def _roots(band: np.ndarray) -> np.ndarray:
    """Square roots of the diagonal of a precision: one over the width of each number, given all others."""
    return np.sqrt(np.abs(band if band.ndim == 2 else np.diagonal(band, axis1=1, axis2=2)))


def _differ(band: _Band, other: _Band) -> np.ndarray:
    """At which steps two bands differ by more than rounding."""
    left, right = np.maximum(band.left, other.left), np.maximum(band.right, other.right)
    size = left * right if band.values.ndim == 2 else left[:, :, None] * right[:, None, :]
    size = np.maximum(size, np.maximum(np.abs(band.values), np.abs(other.values)))
    same = np.abs(band.values - other.values) <= 1e-8 * size
    return ~np.asarray(same.reshape(len(same), -1).all(axis=1))
