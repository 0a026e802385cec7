"""The expected log joint as a function of a Gaussian's moments, deterministic and differentiable.

Its derivatives with respect to the moments are all that a natural-gradient step needs: the derivative with
respect to a covariance is half of the expected Hessian (`docs/maths.md`, section 9). They come from first
derivatives of the user's log densities only. A Gaussian prior and likelihoods that know their expectation are
taken in closed form, everything else by quadrature: on the marginals where the likelihood acts element by
element, on whole steps or on neighbouring pairs of steps otherwise.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.families import AbstractMoments
from driftline.infer.curvature import is_elementwise
from driftline.infer.quadrature import standard_normal
from driftline.models.model import Model
from driftline.models.observations import Observations


def expected_log_joint(
    moments: AbstractMoments, model: Model, observations: Observations
) -> Float[Array, ""]:
    """Expectation of the log joint under a Gaussian with the given moments."""
    prior = model.prior.expected_log_prob(moments, observations.gaps, _expect)
    return prior + _expected_log_likelihood(moments, model, observations)


def _expected_log_likelihood(
    moments: AbstractMoments, model: Model, observations: Observations
) -> Float[Array, ""]:
    mean = moments.mean
    if is_elementwise(model):
        variance = moments.variances()
        closed = model.expected_log_likelihoods(mean, variance, observations)
        if closed is not None:
            return jnp.sum(closed)
        sd = jnp.sqrt(variance)
        return _expect(lambda point: jnp.sum(model.log_likelihoods(mean + sd * point[0], observations)), 1)
    deviations = moments.of_steps()
    return _expect(
        lambda point: jnp.sum(model.log_likelihoods(mean + deviations(point), observations)),
        math.prod(model.prior.shape),
    )


def _expect(function: Callable[[Array], Array], num_axes: int) -> Float[Array, ""]:
    """Weighted sum of a function over the points of a rule."""
    points, weights = standard_normal(num_axes)
    dtype = jnp.result_type(float)
    values = jax.vmap(function)(jnp.asarray(points, dtype))
    return jnp.sum(jnp.asarray(weights, dtype) * values)
