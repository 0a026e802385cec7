"""Exact smoothing of linear-Gaussian models, as forward and backward substitution.

Where the log joint is quadratic in the path, its gradient and its curvature at any one path give the
posterior: Λ is the curvature and the mean lies one Newton step away. One Cholesky factor and two solves are
the forward and the backward pass of the Kalman smoother (`docs/maths.md`, section 3).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractFamily, BlockGaussMarkov, GaussMarkov
from driftline.infer.curvature import block_precision, chain_precision, is_elementwise
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
    if not (isinstance(model.prior, AbstractGaussianPrior) and isinstance(model.likelihood, Gaussian)):
        _check_quadratic(model, observations, path, blocks=blocks)
    q, log_evidence = _substitute(model, observations, path, blocks)
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


def _check_quadratic(model, observations, path, *, blocks):
    # A pattern without symmetry, so that no odd or even term can hide.
    ramp = jnp.arange(path.size, dtype=path.dtype).reshape(path.shape)
    elsewhere = path + 0.7 + jnp.sin(1.0 + 1.3 * ramp)
    here = _curvature(model, observations, path, blocks)
    there = _curvature(model, observations, elsewhere, blocks)
    for band, other in zip(here, there, strict=True):
        error = np.abs(np.asarray(band - other)).reshape(len(band), -1)
        wrong = ~(error <= 1e-8 * (1e-300 + np.abs(np.asarray(here[0])).max()))
        if wrong.any():
            raise ValueError(
                "method='exact' needs a model that is linear and Gaussian, but the curvature of the log "
                f"joint at step {int(np.argmax(wrong.any(axis=1)))} changes with the path; "
                "use another method for this model"
            )


@eqx.filter_jit
def _curvature(model, observations, path, blocks):
    return (block_precision if blocks else chain_precision)(model, path, observations)


def _check_proper(q):
    diag = np.asarray(q.diag)
    pivots = diag if diag.shape == q.mean.shape else np.diagonal(diag, axis1=1, axis2=2)
    proper = ((pivots > 0) & np.isfinite(pivots)).reshape(len(pivots), -1).all(axis=1)
    if not proper.all():
        raise ValueError(
            "the posterior is not a proper density: its precision is not positive definite from step "
            f"{int(np.argmin(proper))} on; give the prior a proper first step, or observe more"
        )
