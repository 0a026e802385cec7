"""Exact smoothing of linear-Gaussian models, as forward and backward substitution.

Where the log joint is quadratic in the path, its gradient and its curvature at any one path give the
posterior: Λ is the curvature and the mean lies one Newton step away. One Cholesky factor and two solves are
the forward and the backward pass of the Kalman smoother (`docs/maths.md`, section 3).
"""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractBanded
from driftline.infer.curvature import BANDS, is_elementwise
from driftline.infer.exact.is_quadratic import check_quadratic
from driftline.infer.outcome import Outcome
from driftline.models.model import Model
from driftline.models.observations import Observations


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
    couples = not (is_elementwise(model) and model.prior.is_gaussian)
    structure = "block" if couples and model.prior.shape != () else structure
    q, log_evidence = _substitute(model, observations, path, structure)
    if not (model.prior.is_gaussian and model.likelihood.is_gaussian):
        check_quadratic(model, observations, path, q.mean)
    _check_proper(q)
    return Outcome(q, float(log_evidence), 0.0, converged=True, iterations=1, message="exact")


@eqx.filter_jit
def _substitute(
    model: Model, observations: Observations, path: Float[Array, " T *shape"], structure: str
) -> tuple[AbstractBanded, Float[Array, ""]]:
    score = jax.grad(model.log_joint)(path, observations)
    band = BANDS[structure]
    step = band.family.from_natural(score, *band.precision(model, path, observations))
    q = eqx.tree_at(lambda q: q.mean, step, path + step.mean)
    # log p(x) = log p(x, z) - log p(z | x) holds at every z; at the mean it is the least prone to rounding.
    return q, model.log_joint(q.mean, observations) - q.log_prob(q.mean)


def _check_proper(q: AbstractBanded) -> None:
    diag = np.asarray(q.diag)
    pivots = diag if diag.shape == q.mean.shape else np.diagonal(diag, axis1=1, axis2=2)
    proper = ((pivots > 0) & np.isfinite(pivots)).reshape(len(pivots), -1).all(axis=1)
    if not proper.all():
        raise ValueError(
            "the posterior is not a proper density: its precision is not positive definite from step "
            f"{int(np.argmin(proper))} on; give the prior a proper first step, or observe more"
        )
