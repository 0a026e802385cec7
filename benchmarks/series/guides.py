"""NumPyro's guides over a whole path: the model as NumPyro sees it, and the moments of a guide's Gaussian."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints
from numpyro.infer import init_to_value
from numpyro.infer.autoguide import (
    AutoDiagonalNormal,
    AutoLowRankMultivariateNormal,
    AutoMultivariateNormal,
)

from benchmarks.series.cases import DIAGONAL, FULL, LOW_RANK, WHITENED
from benchmarks.series.moments import Gaussian, entropy, observations_of
from benchmarks.series.problem import Problem
from driftline.linalg import bidiagonal

jax.config.update("jax_enable_x64", True)  # the precision that `dl.fit` runs in

GUIDES = {
    DIAGONAL: AutoDiagonalNormal,
    WHITENED: AutoDiagonalNormal,
    LOW_RANK: AutoLowRankMultivariateNormal,
    FULL: AutoMultivariateNormal,
}


class Peer(NamedTuple):
    """A model and a guide.

    Attributes:
        model: NumPyro's model.
        guide: NumPyro's guide.
        gaussian: The Gaussian over the path that some parameters of the guide stand for.
    """

    model: Callable[[], None]
    guide: Any
    gaussian: Callable[[Any], Gaussian]


def peer(problem: Problem, name: str) -> Peer:
    """A guide by name; its mean starts where ours starts, at the prior's mean."""
    to_path, log_volume = _coordinates(problem, name == WHITENED)
    model = model_of(problem, to_path, log_volume)
    begin = jnp.full(len(problem.values), 0.0 if name == WHITENED else problem.mean)
    guide = GUIDES[name](model, init_loc_fn=init_to_value(values={"path": begin}))

    def gaussian(params):
        q = _gaussian(guide.get_posterior(params))
        return _through_prior(problem, q, to_path, log_volume) if name == WHITENED else q

    return Peer(model, guide, gaussian)


def model_of(problem: Problem, to_path: Any = lambda path: path, log_volume: Any = 0.0) -> Any:
    """The path as one vector-valued site and its density as one factor, the very function that we use."""
    ours, observations = problem.model, observations_of(problem)
    shape = (len(problem.values),)

    def model():
        path = numpyro.sample("path", dist.ImproperUniform(constraints.real_vector, (), shape))
        numpyro.factor("log_joint", ours.log_joint(to_path(jnp.asarray(path)), observations) + log_volume)

    return model


def _coordinates(problem, whitened):
    """How the guide's vector becomes a path, and the log of the volume that this adds."""
    if not whitened:
        return (lambda path: path), 0.0
    diag, upper = _prior_factor(problem)

    def to_path(noise):
        return problem.mean + bidiagonal.solve_transposed(diag, upper, noise)

    return to_path, -jnp.sum(jnp.log(diag))


def _prior_factor(problem):
    """The prior's whitening: noise = diag · deviation + upper · deviation before."""
    num_steps = len(problem.values)
    diag = jnp.full(num_steps, 1 / problem.scale).at[0].mul(jnp.sqrt(1 - problem.decay**2))
    return diag, jnp.full(num_steps - 1, -problem.decay / problem.scale)


def _through_prior(problem, q, to_path, log_volume):
    """Moments of the path from those of independent noise that drives the prior."""
    diag, _ = _prior_factor(problem)
    ones, slopes = jnp.ones_like(diag), jnp.full(len(diag) - 1, -(problem.decay**2))
    variance = bidiagonal.solve_transposed(ones, slopes, q.variance / diag**2)
    return Gaussian(to_path(q.mean), variance, problem.decay * variance[:-1], q.entropy + log_volume)


def _gaussian(posterior: Any) -> Gaussian:
    num_steps = len(posterior.loc)
    if isinstance(posterior, dist.Normal):
        variance = jnp.asarray(posterior.scale) ** 2
        log_determinant = jnp.sum(jnp.log(variance))
        return Gaussian(
            posterior.loc, variance, jnp.zeros(num_steps - 1), entropy(log_determinant, num_steps)
        )
    if isinstance(posterior, dist.LowRankMultivariateNormal):
        factor, rest = jnp.asarray(posterior.cov_factor), jnp.asarray(posterior.cov_diag)
        inner = jnp.eye(factor.shape[1]) + factor.T @ (factor / rest[:, None])
        log_determinant = jnp.sum(jnp.log(rest)) + jnp.linalg.slogdet(inner)[1]
    else:
        factor, rest = jnp.asarray(posterior.scale_tril), 0.0
        log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
    variance, lag = rest + jnp.sum(factor**2, axis=1), jnp.sum(factor[1:] * factor[:-1], axis=1)
    return Gaussian(posterior.loc, variance, lag, entropy(log_determinant, num_steps))
