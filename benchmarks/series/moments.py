"""The exact ELBO of any Gaussian over the path, whoever made it, from its moments and its entropy.

The prior is a Gaussian chain and the likelihood acts step by step, so that means, variances and covariances
of neighbours are all that the expected log joint needs: the same quadrature serves every contestant.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.series.problem import Problem
from driftline.families import ChainMoments
from driftline.infer.expectation import expected_log_joint
from driftline.models.observations import observe

LOG_2PI_E = math.log(2 * math.pi * math.e)


class Gaussian(NamedTuple):
    """What is known of a Gaussian over the path.

    Attributes:
        mean: Means, (T,).
        variance: Variances, (T,).
        lag: Covariances with the next step, (T-1,).
        entropy: Of the whole path.
    """

    mean: Any
    variance: Any
    lag: Any
    entropy: Any


def observations_of(problem: Problem) -> Any:
    """The data as driftline holds them."""
    gaps = np.ones(len(problem.values) - 1)
    return observe(problem.values, gaps, problem.model.likelihood, ())


def exact_elbo(problem: Problem) -> Callable[[Gaussian], jax.Array]:
    """A function, to be compiled by the caller, from a Gaussian to its ELBO."""
    model, observations = problem.model, observations_of(problem)

    def elbo(q: Gaussian) -> jax.Array:
        moments = ChainMoments(q.mean, q.variance, q.lag)
        return expected_log_joint(moments, model, observations) + q.entropy

    return elbo


def entropy(log_determinant: Any, num_steps: int) -> Any:
    """Of a Gaussian, from the log determinant of its covariance."""
    return 0.5 * (num_steps * LOG_2PI_E + log_determinant)


def smoothed(problem: Problem, mean: Any, variance: Any, filtered_variance: Any) -> Gaussian:
    """The Gaussian chain behind a smoother's results, which hold no covariances of neighbours."""
    predicted = problem.decay**2 * filtered_variance[:-1] + problem.scale**2
    lag = problem.decay * filtered_variance[:-1] / predicted * variance[1:]
    conditional = variance[1:] - lag * lag / variance[:-1]
    log_determinant = jnp.log(variance[0]) + jnp.sum(jnp.log(conditional))
    return Gaussian(mean, variance, lag, entropy(log_determinant, len(mean)))
