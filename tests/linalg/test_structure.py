"""Costs that are linear in the number of steps: no (T, T) array anywhere, nothing kept per loop iteration."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from driftline.families import BlockGaussMarkov, FullRank, GaussMarkov
from driftline.infer.bbvi.gradient import estimate
from driftline.linalg import (
    bidiagonal,
    block_bidiagonal,
    block_tridiagonal,
    parallel,
    sequential,
    tridiagonal,
)
from support import oracles, tracing

T, DIM = 97, 3
SCALAR_VECTOR, BLOCK_VECTOR = jnp.ones(T), jnp.ones((T, DIM))


def factor():
    return [jnp.asarray(band) for band in oracles.random_factor(np.random.default_rng(0), T)]


def block_factor():
    return [jnp.asarray(band) for band in oracles.random_block_factor(np.random.default_rng(0), T, DIM)]


SCALAR, BLOCK = factor(), block_factor()
KERNELS = {
    "bidiagonal.matvec": (bidiagonal.matvec, (*SCALAR, SCALAR_VECTOR)),
    "bidiagonal.matvec_transposed": (bidiagonal.matvec_transposed, (*SCALAR, SCALAR_VECTOR)),
    "bidiagonal.solve": (bidiagonal.solve, (*SCALAR, SCALAR_VECTOR)),
    "bidiagonal.solve_transposed": (bidiagonal.solve_transposed, (*SCALAR, SCALAR_VECTOR)),
    "bidiagonal.log_det": (bidiagonal.log_det, SCALAR[:1]),
    "tridiagonal.matvec": (tridiagonal.matvec, (*SCALAR, SCALAR_VECTOR)),
    "tridiagonal.from_factor": (tridiagonal.from_factor, SCALAR),
    "tridiagonal.pivots": (tridiagonal.pivots, SCALAR),
    "tridiagonal.pivot_gains": (tridiagonal.pivot_gains, (*SCALAR, SCALAR_VECTOR)),
    "tridiagonal.cholesky": (tridiagonal.cholesky, SCALAR),
    "tridiagonal.band_of_inverse": (tridiagonal.band_of_inverse, SCALAR),
    "block_bidiagonal.matvec": (block_bidiagonal.matvec, (*BLOCK, BLOCK_VECTOR)),
    "block_bidiagonal.matvec_transposed": (block_bidiagonal.matvec_transposed, (*BLOCK, BLOCK_VECTOR)),
    "block_bidiagonal.solve": (block_bidiagonal.solve, (*BLOCK, BLOCK_VECTOR)),
    "block_bidiagonal.solve_transposed": (block_bidiagonal.solve_transposed, (*BLOCK, BLOCK_VECTOR)),
    "block_bidiagonal.log_det": (block_bidiagonal.log_det, BLOCK[:1]),
    "block_bidiagonal.gains": (block_bidiagonal.gains, BLOCK),
    "block_tridiagonal.matvec": (block_tridiagonal.matvec, (*BLOCK, BLOCK_VECTOR)),
    "block_tridiagonal.from_factor": (block_tridiagonal.from_factor, BLOCK),
    "block_tridiagonal.pivots": (block_tridiagonal.pivots, BLOCK),
    "block_tridiagonal.cholesky": (block_tridiagonal.cholesky, BLOCK),
    "block_tridiagonal.band_of_inverse": (block_tridiagonal.band_of_inverse, BLOCK),
}
FAMILIES = {
    "chain": GaussMarkov(SCALAR_VECTOR, *SCALAR),
    "blocks": BlockGaussMarkov(BLOCK_VECTOR, *BLOCK),
}
METHODS = {
    "sample": lambda q: q.sample(jr.key(0)),
    "log_prob": lambda q: q.log_prob(2.0 * q.mean),
    "log_prob_of_noise": lambda q: q.log_prob_of_noise(q.mean),
    "entropy": lambda q: q.entropy(),
    "divergence": lambda q: q.divergence(q),
    "variances": lambda q: q.variances(),
    "lag_covariances": lambda q: q.lag_covariances(),
    "precision": lambda q: q.precision(),
    "natural": lambda q: q.natural(),
    "from_natural": lambda q: type(q).from_natural(*q.natural()),
    "from_precision": lambda q: type(q).from_precision(q.mean, *q.precision()),
    "pull_back": lambda q: q.pull_back(q.mean, q.mean),
    "entropy_gradient": lambda q: q.entropy_gradient(),
    "moved": lambda q: q.moved(q),
}


def total(function):
    """The sum of all outputs, for differentiation."""
    return lambda *args: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(function(*args)))


def gradient(function, num_args):
    return jax.grad(total(function), argnums=tuple(range(num_args)))


def log_joint(path):
    return -0.5 * jnp.sum((path[1:] - path[:-1]) ** 2) - jnp.sum(jnp.exp(path))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_makes_no_quadratic_array(name):
    kernel, arguments = KERNELS[name]
    assert tracing.quadratic_shapes(kernel, *arguments, num_steps=T) == set()


@pytest.mark.parametrize("name", KERNELS)
def test_the_first_and_second_derivatives_of_a_kernel_make_no_quadratic_array(name):
    kernel, arguments = KERNELS[name]
    once = gradient(kernel, len(arguments))
    assert tracing.quadratic_shapes(once, *arguments, num_steps=T) == set()
    twice = gradient(once, len(arguments))
    assert tracing.quadratic_shapes(twice, *arguments, num_steps=T) == set()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_a_family_and_its_derivative_make_no_quadratic_array(family, method):
    q, function = FAMILIES[family], METHODS[method]
    assert tracing.quadratic_shapes(function, q, num_steps=T) == set()
    assert tracing.quadratic_shapes(jax.grad(total(function)), q, num_steps=T) == set()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("num_draws", [1, 3])
@pytest.mark.parametrize("sticking_the_landing", [False, True])
def test_the_gradient_estimate_makes_no_quadratic_array(family, num_draws, sticking_the_landing):
    q = FAMILIES[family]
    noise = jnp.ones((T, num_draws, *q.mean.shape[1:]))

    def estimated(q, noise):
        return estimate(q, log_joint, noise, sticking_the_landing=sticking_the_landing)

    assert tracing.quadratic_shapes(estimated, q, noise, num_steps=T) == set()


def test_the_search_for_quadratic_arrays_finds_a_dense_solve():
    def dense_solve(diag, upper, rhs):
        return jnp.linalg.solve(jnp.diag(diag) + jnp.diag(upper, 1), rhs)

    arguments = (*SCALAR, SCALAR_VECTOR)
    assert (T, T) in tracing.quadratic_shapes(dense_solve, *arguments, num_steps=T)
    q = FullRank(SCALAR_VECTOR, jnp.eye(T))
    assert (T, T) in tracing.quadratic_shapes(METHODS["variances"], q, num_steps=T)


@pytest.mark.parametrize(
    "hide",
    [
        lambda f: jax.jit(f),
        lambda f: lambda x: jax.lax.scan(lambda c, _: (c, jnp.sum(f(x))), 0.0, None, length=2),
        lambda f: lambda x: jax.lax.cond(True, lambda x: jnp.sum(f(x)), jnp.sum, x),
        lambda f: lambda x: jax.lax.while_loop(lambda s: s < 1.0, lambda s: s + jnp.sum(f(x)), 0.0),
        lambda f: lambda x: jax.checkpoint(lambda x: jnp.sum(f(x)))(x),
        lambda f: (
            lambda x: jax.lax.custom_linear_solve(
                lambda v: v, x, lambda _, b: b + jnp.sum(f(b)), symmetric=True
            )
        ),
    ],
    ids=["jit", "scan", "cond", "while_loop", "checkpoint", "custom_linear_solve"],
)
def test_the_search_looks_inside_other_functions(hide):
    def outer(x):
        return x[:, None] * x[None, :]

    assert (T, T) in tracing.quadratic_shapes(hide(outer), SCALAR_VECTOR, num_steps=T)


@pytest.mark.parametrize("name", ["solve", "solve_transposed"])
@pytest.mark.parametrize("shape", [(), (72,)])
def test_reverse_mode_through_a_solve_keeps_the_bands_and_the_solution_only(name, shape):
    rng = np.random.default_rng(0)
    bands = [jnp.asarray(band) for band in oracles.random_factor(rng, T, shape)]
    rhs = jnp.ones((T, *shape))
    # The diagonal and the solution once, the superdiagonal for the product and for the transposed solve.
    sizes = tracing.residual_sizes(getattr(bidiagonal, name), *bands, rhs)
    assert sum(sizes) <= 4 * rhs.size + 2


def test_reverse_mode_through_the_loop_itself_would_keep_more():
    bands = [jnp.asarray(band) for band in oracles.random_factor(np.random.default_rng(0), T, (72,))]
    rhs = jnp.ones((T, 72))
    control = tracing.residual_sizes(sequential.back_substitute, *bands, rhs)
    assert sum(control) > 4 * rhs.size + 2


@pytest.mark.parametrize(
    "name", ["bidiagonal.solve", "bidiagonal.solve_transposed", "tridiagonal.band_of_inverse"]
)
def test_a_solve_runs_one_loop_forward_and_one_transposed_in_its_gradient(name):
    kernel, arguments = KERNELS[name]
    once = gradient(kernel, len(arguments))
    assert tracing.count_primitives(kernel, *arguments)["custom_linear_solve"] == 1
    assert tracing.count_primitives(once, *arguments)["custom_linear_solve"] == 2
    assert tracing.count_compiled_loops(kernel, *arguments) == 1
    assert tracing.count_compiled_loops(once, *arguments) == 2


@pytest.mark.parametrize("name", ["tridiagonal.pivots", "tridiagonal.cholesky"])
def test_elimination_runs_one_loop_and_one_transposed_solve_in_its_gradient(name):
    kernel, arguments = KERNELS[name]
    once = gradient(kernel, len(arguments))
    assert tracing.count_primitives(once, *arguments)["custom_linear_solve"] == 1
    assert tracing.count_compiled_loops(kernel, *arguments) == 1
    assert tracing.count_compiled_loops(once, *arguments) == 2


@pytest.mark.parametrize("sticking_the_landing", [False, True])
def test_a_gradient_estimate_runs_two_solves(sticking_the_landing):
    q, noise = FAMILIES["chain"], jnp.ones((T, 2))

    def estimated(q, noise):
        return estimate(q, log_joint, noise, sticking_the_landing=sticking_the_landing)

    assert tracing.count_primitives(estimated, q, noise)["custom_linear_solve"] == 2
    assert tracing.count_compiled_loops(estimated, q, noise) == 2


def test_the_parallel_order_has_no_loop():
    assert tracing.count_compiled_loops(parallel.back_substitute, *SCALAR, SCALAR_VECTOR) == 0
