"""Exact smoothing of linear-Gaussian models, as forward and backward substitution.

Where the log joint is quadratic in the path, its gradient and its curvature at any one path give the
posterior: Λ is the curvature and the mean lies one Newton step away. One Cholesky factor and two solves are
the forward and the backward pass of the Kalman smoother (`docs/maths.md`, section 3).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractFamily, BlockGaussMarkov, GaussMarkov
from driftline.infer.curvature import (
    block_precision,
    chain_precision,
    is_elementwise,
    likelihood_curvature,
    prior_blocks,
)
from driftline.infer.outcome import Outcome
from driftline.models.likelihoods import Gaussian
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.priors import AbstractGaussianPrior


def smooth(
    model: Model, observations: Observations, path: Float[Array, " T *shape"], structure: str
) -> Outcome:
    """The exact posterior and the log evidence.

    Args:
        model: A model whose log joint is quadratic in the path; checked.
        observations: The series.
        path: Any path; the result does not depend on it beyond rounding.
        structure: "chains" or "block"; a model that couples the elements of a step gets blocks anyway.
    """
    couples = not (is_elementwise(model) and isinstance(model.prior, AbstractGaussianPrior))
    blocks = structure == "block" or (couples and model.prior.shape != ())
    q, log_evidence = _substitute(model, observations, path, blocks)
    if not (isinstance(model.prior, AbstractGaussianPrior) and isinstance(model.likelihood, Gaussian)):
        _check_quadratic(model, observations, path, q.mean)
    _check_proper(q)
    return Outcome(q, float(log_evidence), 0.0, converged=True, iterations=1, message="exact")


@eqx.filter_jit
def _substitute(model, observations, path, blocks) -> tuple[AbstractFamily, Float[Array, ""]]:
    score = jax.grad(model.log_joint)(path, observations)
    precision = block_precision if blocks else chain_precision
    family = BlockGaussMarkov if blocks else GaussMarkov
    step = family.from_natural(score, *precision(model, path, observations))
    q = eqx.tree_at(lambda q: q.mean, step, path + step.mean)
    # log p(x) = log p(x, z) - log p(z | x) holds at every z; at the mean it is the least prone to rounding.
    return q, model.log_joint(q.mean, observations) - q.log_prob(q.mean)


class _Band(NamedTuple):
    """Second derivatives between the elements of steps, with the sizes of both sides' own."""

    values: np.ndarray  # (T, D) where no two elements are coupled, else (T, D, D)
    left: np.ndarray  # (T, D)
    right: np.ndarray


def _check_quadratic(model, observations, path, mean):
    """Compare the curvature at a path with that near the mean, of the likelihood and of the prior.

    Each is held against its own size, since one may be far larger than the other, and the paths are as far
    apart as the posterior or, if it is wider, the likelihood is wide: no unit is built in.
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


def _bands(model, observations, path):
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
def _curvatures(model, observations, path):
    gaussian = isinstance(model.prior, AbstractGaussianPrior)
    prior = None if gaussian else prior_blocks(model.prior, path, observations.gaps)
    return likelihood_curvature(model, path, observations), prior


@eqx.filter_jit
def _chain_diagonal(model, observations, path):
    return chain_precision(model, path, observations)[0]


def _widths(model, observations, path, likelihood_roots):
    """Width of each number of the posterior given all others, or of its likelihood if that is wider."""
    roots = np.sqrt(np.abs(np.asarray(_chain_diagonal(model, observations, path))))
    own = likelihood_roots.reshape(path.shape)
    roots = np.where(own > 0, np.minimum(roots, own), roots)
    return 1.0 / np.where(roots > 0, roots, 1.0)


def _roots(band):
    """Square roots of the diagonal of a precision: one over the width of each number, given all others."""
    return np.sqrt(np.abs(band if band.ndim == 2 else np.diagonal(band, axis1=1, axis2=2)))


def _differ(band, other):
    """At which steps two bands differ by more than rounding."""
    left, right = np.maximum(band.left, other.left), np.maximum(band.right, other.right)
    size = left * right if band.values.ndim == 2 else left[:, :, None] * right[:, None, :]
    size = np.maximum(size, np.maximum(np.abs(band.values), np.abs(other.values)))
    same = np.abs(band.values - other.values) <= 1e-8 * size
    return ~same.reshape(len(same), -1).all(axis=1)


def _check_proper(q):
    diag = np.asarray(q.diag)
    pivots = diag if diag.shape == q.mean.shape else np.diagonal(diag, axis1=1, axis2=2)
    proper = ((pivots > 0) & np.isfinite(pivots)).reshape(len(pivots), -1).all(axis=1)
    if not proper.all():
        raise ValueError(
            "the posterior is not a proper density: its precision is not positive definite from step "
            f"{int(np.argmin(proper))} on; give the prior a proper first step, or observe more"
        )
