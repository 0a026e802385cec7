"""Gaussian smoothers that go through the data once: dynamax and cuthbert."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness.measure import once
from benchmarks.series.moments import Gaussian, exact_elbo, smoothed
from benchmarks.series.problem import VOLATILITY, Problem

jax.config.update("jax_enable_x64", True)  # the precision that `dl.fit` runs in

# Moments of the logarithm of a squared standard normal.
LOG_SQUARE_MEAN, LOG_SQUARE_VARIANCE = -1.2703628454614782, math.pi**2 / 2


def run_dynamax(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    """The conditional-moments smoother, with the integrals of the extended or the Gauss-Hermite filter."""
    from dynamax.generalized_gaussian_ssm.inference import (
        EKFIntegrals,
        GHKFIntegrals,
        conditional_moments_gaussian_smoother,
    )
    from dynamax.generalized_gaussian_ssm.models import ParamsGGSSM

    mean, covariance, emissions = _emissions(problem)
    level, decay, scale = problem.mean, problem.decay, problem.scale
    params = ParamsGGSSM(
        initial_mean=jnp.array([level]),
        initial_covariance=jnp.array([[scale**2 / (1 - decay**2)]]),
        dynamics_function=lambda z: level + decay * (z - level),
        dynamics_covariance=jnp.array([[scale**2]]),
        emission_mean_function=mean,
        emission_cov_function=covariance,
    )
    integrals = EKFIntegrals() if options["integrals"] == "EKF" else GHKFIntegrals(10)

    def run(emissions):
        post = conditional_moments_gaussian_smoother(params, integrals, emissions)
        filtered = post.filtered_covariances[:, 0, 0]
        return smoothed(problem, post.smoothed_means[:, 0], post.smoothed_covariances[:, 0, 0], filtered)

    return _timed(problem, run, jnp.asarray(emissions)[:, None], options)


def _emissions(problem):
    """Conditional mean and covariance, and the data they speak of.

    The mean of a return says nothing of its volatility, so that a filter of moments would learn nothing: it
    is given the logarithms of the squares, whose mean is the log variance but for a constant.
    """
    if problem.kind == VOLATILITY:
        return (
            lambda z: z + LOG_SQUARE_MEAN,
            lambda z: jnp.full((1, 1), LOG_SQUARE_VARIANCE),
            np.log(problem.values**2),
        )
    return jnp.exp, lambda z: jnp.exp(z)[:, None], problem.values


def run_cuthbert(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    """The filter that takes a log likelihood to second order at the predicted mean, and its smoother."""
    import cuthbert
    from cuthbert.gaussian import taylor

    likelihood = problem.model.likelihood
    spread = problem.scale / math.sqrt(1 - problem.decay**2)

    def initial(z):
        return _log_normal(z - problem.mean, spread)

    def dynamics(state, value):
        def log_density(before, after):
            return _log_normal(after - problem.mean - problem.decay * (before - problem.mean), problem.scale)

        return log_density, state.mean, state.mean

    def observation(state, value):
        return lambda z: jnp.sum(likelihood.terms(value, z)), state.mean

    forward = taylor.build_filter(initial, jnp.array([problem.mean]), dynamics, observation)
    backward = taylor.build_smoother(dynamics)

    def run(values):
        # The first state is one step before the data, in equilibrium as the prior is.
        states = cuthbert.filter(forward, values, forward.init_prepare())
        post = cuthbert.smoother(backward, states)
        mean, variance = post.mean[1:, 0], jnp.sum(post.chol_cov[1:] ** 2, axis=(1, 2))
        return smoothed(problem, mean, variance, jnp.sum(states.chol_cov[1:] ** 2, axis=(1, 2)))

    return _timed(problem, run, jnp.asarray(problem.values)[:, None], options)


def _log_normal(deviation, scale):
    return -0.5 * jnp.sum((deviation / scale) ** 2) - math.log(scale)


def _timed(problem, run: Callable[[Any], Gaussian], data, options) -> dict[str, Any]:
    jitted = jax.jit(run)
    first = once(lambda: jitted(data))
    seconds = [once(lambda: jitted(data)) for _ in range(options["seeds"])]
    q = jitted(data)
    elbo = float(jax.jit(exact_elbo(problem))(q))
    return {
        "compile": first - min(seconds), "fit": float(np.median(seconds)), "elbos": [elbo],
        "traces": [[(value, elbo)] for value in seconds], "mean": np.asarray(q.mean),
        "sd": np.sqrt(np.asarray(q.variance)),
    }  # fmt: skip
