"""The expected log joint as a function of a Gaussian's moments, deterministic and differentiable.

Its derivatives with respect to the moments are all that a natural-gradient step needs: the derivative with
respect to a covariance is half of the expected Hessian (`docs/maths.md`, section 9). They come from first
derivatives of the user's log densities only. A Gaussian prior and likelihoods that know their expectation are
taken in closed form, everything else by quadrature: on the marginals where the likelihood acts element by
element, on whole steps or on neighbouring pairs of steps otherwise.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.families import BlockGaussMarkov, GaussMarkov
from driftline.infer.curvature import is_elementwise
from driftline.infer.quadrature import standard_normal
from driftline.linalg import small, tridiagonal
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.priors import AbstractGaussianPrior


class Moments(NamedTuple):
    """Mean and band of the covariance: variances and lag covariances of chains, or blocks of them.

    Attributes:
        mean: Means, (T, *shape).
        within: Variances (T, *shape), or blocks (T, D, D).
        between: Covariances with the next step (T-1, *shape), or blocks (T-1, D, D).
    """

    mean: Float[Array, " T *shape"]
    within: Float[Array, "..."]
    between: Float[Array, "..."]


def moments(q: GaussMarkov | BlockGaussMarkov) -> Moments:
    """The moments of a chain or block family, in O(T)."""
    if isinstance(q, BlockGaussMarkov):
        return Moments(q.mean, *q.covariances())
    return Moments(q.mean, *tridiagonal.band_of_inverse(q.diag, q.upper))


def standard_deviations(moments: Moments, *, blocks: bool) -> Float[Array, "..."]:
    """Of every element, for one series or, with a leading axis, for a panel."""
    within = moments.within
    variances = jnp.diagonal(within, axis1=-2, axis2=-1) if blocks else within
    return jnp.sqrt(variances).reshape(moments.mean.shape)


def expected_log_joint(
    moments: Moments, model: Model, observations: Observations, *, blocks: bool
) -> Float[Array, ""]:
    """Expectation of the log joint under a Gaussian with the given moments."""
    prior = _expected_log_prior(moments, model.prior, observations.gaps, blocks)
    return prior + _expected_log_likelihood(moments, model, observations, blocks)


def _expected_log_prior(moments, prior, gaps, blocks):
    mean, within, between = moments
    if isinstance(prior, AbstractGaussianPrior):
        diag, off = prior.precision(gaps)
        if blocks:
            within, between = _diagonals(within, diag.shape), _diagonals(between, off.shape)
        return prior.log_prob(mean, gaps) - 0.5 * jnp.sum(diag * within) - jnp.sum(off * between)
    shape, dim = prior.shape, math.prod(prior.shape)

    def at_first(point):
        return prior.initial_log_prob(mean[0] + deviation(point).reshape(shape))

    def at_pairs(point):
        before, after = pair_deviations(point)
        return jnp.sum(prior.transition_terms(mean[1:] + after, mean[:-1] + before, gaps))

    if blocks:
        first, pair = small.cholesky(within[0]), _pair_factor(within, between)

        def deviation(point):
            return first @ point

        def pair_deviations(point):
            both = pair @ point
            return both[:, :dim].reshape(-1, *shape), both[:, dim:].reshape(-1, *shape)
    else:
        sd, slope, rest = _conditional(within, between)

        def deviation(point):
            return sd[0].reshape(-1) * point

        def pair_deviations(point):
            own, other = point[:dim].reshape(1, *shape), point[dim:].reshape(1, *shape)
            return sd[:-1] * own, slope * own + rest * other

    return _expect(at_first, dim) + _expect(at_pairs, 2 * dim)


def _expected_log_likelihood(moments, model, observations, blocks):
    mean, within, _ = moments
    dim = math.prod(model.prior.shape)
    if is_elementwise(model):
        variance = _diagonals(within, mean.shape) if blocks else within
        closed = model.expected_log_likelihoods(mean, variance, observations)
        if closed is not None:
            return jnp.sum(closed)
        sd = jnp.sqrt(variance)
        return _expect(lambda point: jnp.sum(model.log_likelihoods(mean + sd * point[0], observations)), 1)
    factor = small.cholesky(within) if blocks else None

    def at(point):
        if factor is None:
            deviation = jnp.sqrt(within) * point.reshape(1, *mean.shape[1:])
        else:
            deviation = (factor @ point).reshape(mean.shape)
        return jnp.sum(model.log_likelihoods(mean + deviation, observations))

    return _expect(at, dim)


def _expect(function, num_axes):
    """Weighted sum of a function over the points of a rule."""
    points, weights = standard_normal(num_axes)
    dtype = jnp.result_type(float)
    values = jax.vmap(function)(jnp.asarray(points, dtype))
    return jnp.sum(jnp.asarray(weights, dtype) * values)


def _conditional(variances, lags):
    """Chains: sd of a step, and the next step as a multiple of its noise plus a rest of its own."""
    sd = jnp.sqrt(variances)
    slope = lags / sd[:-1]
    return sd, slope, jnp.sqrt(variances[1:] - slope * slope)


def _pair_factor(within, between):
    """Lower Cholesky factors of the joint covariances of neighbouring steps."""
    above = jnp.concatenate([within[:-1], between], axis=2)
    below = jnp.concatenate([between.mT, within[1:]], axis=2)
    return small.cholesky(jnp.concatenate([above, below], axis=1))


def _diagonals(blocks, shape):
    return jnp.diagonal(blocks, axis1=1, axis2=2).reshape(shape)
