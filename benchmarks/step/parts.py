"""One gradient step taken apart: each part alone, repeated in one compiled loop as the whole step is."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jax import lax

from benchmarks.harness.measure import Compiled, compile_for
from benchmarks.step.problem import RATE, Problem
from driftline.infer.bbvi import adam
from driftline.infer.bbvi import optimise as bbvi
from driftline.linalg import bidiagonal


def parts(problem: Problem, repeats: int) -> dict[str, Compiled]:
    """The parts of a step by name; one call runs a part `repeats` times.

    Every part maps what it carries to the same kind of thing, so that memory is used again from one round
    to the next, as in a fit, and no round can be left out.
    """
    q, moments = problem.state
    noise, total = jnp.ones_like(q.mean), jnp.zeros((), q.mean.dtype)
    starts: dict[str, tuple[Callable, Any]] = {
        "noise": (_noise, noise),
        "solve (draw)": (_solve, noise),
        "solve, transposed (gradient)": (_solve_transposed, noise),
        "gradient of the log joint": (_ascend, q.mean),
        "ELBO, at every fifth step": (_elbo, total),
        "Adam and update": (_update, (q, moments)),
        "running average": (_add, q),
    }
    return {name: _loop(part, problem, carry, repeats) for name, (part, carry) in starts.items()}


def _loop(part, problem, carry, repeats):
    def loop(problem, carry):
        return lax.fori_loop(0, repeats, lambda i, carry: part(problem, i, carry), carry)

    return compile_for(jax.jit(loop), problem, carry)


def _changing(array, number):
    # The same values, but XLA cannot know, and so cannot move work on them out of the loop.
    return array + 0.0 * number


def _noise(problem, i, _):
    return bbvi._noise(problem.state.q, jr.fold_in(jr.key(0), i), 1)[:, 0]


def _solve(problem, _, vector):
    q = problem.state.q
    return bidiagonal.solve(_changing(q.diag, vector[0]), q.upper, vector)


def _solve_transposed(problem, _, vector):
    q = problem.state.q
    return bidiagonal.solve_transposed(_changing(q.diag, vector[0]), q.upper, vector)


def _ascend(problem, _, path):
    # A small step uphill keeps the path where the density is finite, and fuses with the gradient.
    return path + 1e-3 * jax.grad(problem.log_joint)(path)


def _elbo(problem, i, total):
    def of_mean():
        q = jax.tree.map(lambda leaf: _changing(leaf, total), problem.state.q)
        return 1e-9 * (total + problem.log_joint(q.mean) - q.log_prob_of_noise(q.whiten(q.mean)))

    return lax.cond(i % bbvi.STEPS_PER_STRIDE == 0, of_mean, lambda: total)


def _update(problem, _, carry):
    q, moments = carry
    gradient = jax.tree.map(lambda leaf: 0.1 * leaf, problem.state.q)
    updates, moments = adam.direction(gradient, moments)
    return q.moved(jax.tree.map(lambda leaf: RATE * leaf, updates)), moments


def _add(problem, _, total):
    return jax.tree.map(jnp.add, total, problem.state.q)
