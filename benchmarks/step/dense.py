"""The step that the paper warns against: its formulas with the inverse of the factor as a dense matrix."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax

from benchmarks.step.problem import RATE, Problem
from driftline.families import GaussMarkov
from driftline.infer.bbvi import adam


def inverse_of_factor(q: GaussMarkov) -> jax.Array:
    """The dense inverse, row by row from below: O(T²), where a general inverse would take O(T³)."""
    identity = jnp.eye(len(q.diag), dtype=q.diag.dtype)

    def step(row_below, rows):
        unit, diag, upper = rows
        row = (unit - upper * row_below) / diag
        return row, row

    rows = (identity, q.diag, jnp.append(q.upper, 0.0))
    return lax.scan(step, jnp.zeros_like(identity[0]), rows, reverse=True)[1]


def gradient(q: GaussMarkov, log_joint, noise: jax.Array) -> tuple[jax.Array, GaussMarkov]:
    """The paper's estimate of the ELBO and of its gradient from one draw, by two dense products."""
    inverse = inverse_of_factor(q)
    deviation = inverse @ noise
    log_prob, score = jax.value_and_grad(log_joint)(q.mean + deviation)
    adjoint = score @ inverse
    diag = -adjoint * deviation - 1.0 / q.diag
    return log_prob - q.log_prob_of_noise(noise), GaussMarkov(score, diag, -adjoint[:-1] * deviation[1:])


@eqx.filter_jit
def take_steps(problem: Problem, num_steps: int):
    """Steps as `bbvi._take_steps` takes them, but for the gradient."""
    key, basis = jr.key(0), problem.basis

    def step(carry, iteration):
        (q, moments), total = carry
        noise = jr.normal(jr.fold_in(key, iteration), q.mean.shape, q.mean.dtype)
        elbo, direction = gradient(q, problem.log_joint, noise)
        direction = eqx.tree_at(lambda g: g.mean, direction, basis.of_gradient(direction.mean))
        updates, moments = adam.direction(direction, moments)
        updates = jax.tree.map(lambda leaf: RATE * leaf, updates)
        q = q.moved(eqx.tree_at(lambda u: u.mean, updates, basis.to_step(updates.mean)))
        norm = jnp.sqrt(jnp.mean(direction.mean * direction.mean))
        return ((q, moments), jax.tree.map(jnp.add, total, q)), (elbo, norm)

    start = (tuple(problem.state), jax.tree.map(jnp.zeros_like, problem.state.q))
    return lax.scan(step, start, jnp.arange(num_steps))
