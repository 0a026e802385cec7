"""Laws that every variational family obeys, each against the dense Gaussian it stands for."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

from driftline.families import BlockGaussMarkov, FullRank, GaussMarkov, MeanField
from support import oracles, statistics
from support.tracing import jit_for_one_run

SHAPES = ((), (3,), (2, 2))
LENGTHS = (1, 2, 6)


class Family(NamedTuple):
    """How to make the leaves other than the mean, and the dense factor that they stand for."""

    type: type
    leaves: Callable
    factor: Callable

    def make(self, rng, num_steps, shape):
        leaves = self.leaves(rng, num_steps, shape)
        return self.type(jnp.asarray(rng.standard_normal((num_steps, *shape))), *map(jnp.asarray, leaves))


FAMILIES = {
    "MeanField": Family(
        MeanField,
        lambda rng, num_steps, shape: oracles.random_factor(rng, num_steps, shape)[:1],
        lambda q, xp: xp.diag(q.diag.reshape(-1)),
    ),
    "GaussMarkov": Family(
        GaussMarkov,
        oracles.random_factor,
        lambda q, xp: oracles.parallel_bidiagonal(q.diag, q.upper, xp),
    ),
    "BlockGaussMarkov": Family(
        BlockGaussMarkov,
        lambda rng, num_steps, shape: oracles.random_block_factor(rng, num_steps, math.prod(shape)),
        lambda q, xp: oracles.block_bidiagonal(q.diag, q.upper, xp),
    ),
    "FullRank": Family(
        FullRank,
        lambda rng, num_steps, shape: oracles.random_block_factor(rng, 1, num_steps * math.prod(shape))[0],
        lambda q, xp: xp.triu(q.factor),
    ),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def dense_factor(name, q):
    return FAMILIES[name].factor(jax.tree.map(np.asarray, q), np)


def log_joint(path):
    """Not Gaussian, and couples neighbours in time."""
    return -0.5 * jnp.sum((path[1:] - path[:-1]) ** 2) + jnp.sum(0.5 * path - jnp.exp(path))


def evaluate(q, other, path, noise, key):
    """All that the contract speaks of."""
    deviation = q.unwhiten(noise)
    score = jax.grad(log_joint)(q.mean + deviation)
    at_zero = (jnp.zeros((), noise.dtype),), (jnp.ones((), noise.dtype),)
    return {
        "draw": q.sample(key),
        "log_prob": q.log_prob(path),
        "score": jax.grad(q.log_prob)(path),
        "log_prob_of_noise": q.log_prob_of_noise(noise),
        "log_prob_of_path_of_noise": q.log_prob(q.mean + deviation),
        "unwhitened": deviation,
        "whitened": q.whiten(noise),
        "whitened_transposed": q.whiten_transposed(noise),
        "entropy": q.entropy(),
        "variances": q.variances(),
        "lag_covariances": q.lag_covariances(),
        "divergence": q.divergence(other),
        "own_divergence": q.divergence(q),
        "round_trip": type(q).from_natural(*q.natural()),
        "entropy_gradient": q.entropy_gradient(),
        "entropy_autodiff": jax.grad(lambda q: q.entropy())(q),
        "pull_back": q.pull_back(deviation, score),
        "moved": q.moved(other),
        "first_order": jax.jvp(lambda a: q.moved(jax.tree.map(partial(jnp.multiply, a), other)), *at_zero),
    }


def arguments(name, num_steps, shape):
    rng = np.random.default_rng([num_steps, *shape])
    q, other = (FAMILIES[name].make(rng, num_steps, shape) for _ in range(2))
    path, noise = rng.standard_normal((2, num_steps, *shape))
    return q, other, jnp.asarray(path), jnp.asarray(noise), jr.key(num_steps)


@pytest.fixture(
    scope="module",
    params=itertools.product(FAMILIES, SHAPES, LENGTHS),
    ids=lambda cell: f"{cell[0]}-{cell[1]}-T{cell[2]}",
)
def case(request):
    name, shape, num_steps = request.param
    *members, key = arguments(name, num_steps, shape)

    @jit_for_one_run
    def evaluate_with_oracle(q, other, path, noise, key):
        def log_joint_of_dense_draw(q):
            deviation = jnp.linalg.solve(FAMILIES[name].factor(q, jnp), noise.reshape(-1))
            return log_joint(q.mean + deviation.reshape(q.mean.shape))

        dense_gradient = jax.grad(log_joint_of_dense_draw)(q)
        return evaluate(q, other, path, noise, key) | {"dense_gradient": dense_gradient}

    found = evaluate_with_oracle(*members, key)
    (q, other, path, noise), found = jax.tree.map(np.asarray, (members, found))
    case = SimpleNamespace(name=name, q=q, other=other, path=path, noise=noise, found=found)
    case.mean, case.factor, case.other_factor = (
        q.mean.ravel(),
        dense_factor(name, q),
        dense_factor(name, other),
    )
    case.covariance = np.linalg.inv(case.factor) @ np.linalg.inv(case.factor).T
    case.rtol = oracles.tolerance(case.factor)
    whitened, log_pivots = case.factor @ (path.ravel() - case.mean), np.log(np.diagonal(case.factor))
    case.log_scale = whitened @ whitened + np.abs(log_pivots).sum() + case.mean.size
    return case


def test_a_draw_is_the_mean_plus_the_noise_through_the_inverse_factor(case):
    path, noise = case.found["draw"]
    expected = case.mean + np.linalg.solve(case.factor, noise.ravel())
    oracles.assert_close(path, expected.reshape(path.shape), rtol=case.rtol)


def test_whitening_multiplies_by_the_factor_and_unwhitening_undoes_it(case):
    noise = case.noise.ravel()
    products = {
        "unwhitened": np.linalg.solve(case.factor, noise),
        "whitened": case.factor @ noise,
        "whitened_transposed": case.factor.T @ noise,
    }
    for name, expected in products.items():
        oracles.assert_close(case.found[name].ravel(), expected, rtol=case.rtol)


def test_log_prob_is_that_of_the_dense_gaussian(case):
    gaussian = scipy.stats.multivariate_normal(case.mean, case.covariance)
    expected = gaussian.logpdf(case.path.ravel())
    oracles.assert_close(case.found["log_prob"], expected, rtol=case.rtol, scale=case.log_scale)


def test_the_score_is_minus_the_precision_times_the_deviation(case):
    expected = -case.factor.T @ case.factor @ (case.path.ravel() - case.mean)
    oracles.assert_close(case.found["score"], expected.reshape(case.path.shape), rtol=case.rtol)


def test_log_prob_of_noise_is_log_prob_of_the_path_that_it_makes(case):
    found, expected = case.found["log_prob_of_noise"], case.found["log_prob_of_path_of_noise"]
    oracles.assert_close(found, expected, rtol=case.rtol, scale=case.log_scale)


def test_the_entropy_is_that_of_the_dense_gaussian(case):
    expected = oracles.gaussian_entropy(case.covariance)
    oracles.assert_close(case.found["entropy"], expected, rtol=case.rtol, scale=case.log_scale)


def test_variances_and_lag_covariances_are_entries_of_the_dense_covariance(case):
    covariance, shape = case.covariance, case.path.shape
    lag = math.prod(shape[1:])
    scale = np.abs(covariance).max()
    variances = np.diagonal(covariance).reshape(shape)
    oracles.assert_close(case.found["variances"], variances, rtol=case.rtol, scale=scale)
    lags = np.array([covariance[i, i + lag] for i in range(len(covariance) - lag)])
    expected = lags.reshape(shape[0] - 1, *shape[1:])
    oracles.assert_close(case.found["lag_covariances"], expected, rtol=case.rtol, scale=scale)


def test_the_divergence_is_that_of_the_dense_gaussians_and_zero_from_itself(case):
    inverse = np.linalg.inv(case.other_factor)
    other = case.other.mean.ravel(), inverse @ inverse.T
    expected = oracles.gaussian_divergence(case.mean, case.covariance, *other)
    rtol = case.rtol + oracles.tolerance(case.other_factor)
    oracles.assert_close(case.found["divergence"], expected, rtol=rtol, scale=expected + case.mean.size)
    oracles.assert_close(case.found["own_divergence"], 0.0, rtol=case.rtol, scale=case.mean.size)


def test_natural_parameters_lead_back_to_the_same_member(case):
    again = case.found["round_trip"]
    assert type(again) is type(case.q)
    oracles.assert_close(again.mean, case.q.mean, rtol=case.rtol)
    oracles.assert_close(dense_factor(case.name, again), case.factor, rtol=case.rtol)


def test_the_gradient_of_the_entropy_is_that_of_automatic_differentiation_and_of_the_formula(case):
    found, autodiff = case.found["entropy_gradient"], case.found["entropy_autodiff"]
    jax.tree.map(partial(oracles.assert_close, rtol=case.rtol), found, autodiff)
    np.testing.assert_array_equal(found.mean, np.zeros_like(case.q.mean))
    expected = -np.diag(1.0 / np.diagonal(case.factor))
    oracles.assert_close(dense_factor(case.name, found), expected, rtol=case.rtol)


def test_pulling_back_is_differentiation_through_the_dense_draw(case):
    found, expected = case.found["pull_back"], case.found["dense_gradient"]
    jax.tree.map(partial(oracles.assert_close, rtol=case.rtol), found, expected)


def test_a_move_is_a_mirror_step_on_the_diagonal_and_relative_to_it_elsewhere(case):
    found, scales, steps = case.found["moved"], np.diagonal(case.factor), case.other_factor
    half = 0.5 * np.diagonal(steps)
    mirrored = scales * (half + np.sqrt(half**2 + 1.0))
    expected = np.triu(case.factor + scales[:, None] * steps, 1) + np.diag(mirrored)
    oracles.assert_close(found.mean, case.q.mean + case.other.mean, rtol=case.rtol)
    oracles.assert_close(dense_factor(case.name, found), expected, rtol=case.rtol)


def test_a_small_move_is_relative_to_the_diagonal_and_halved_on_it(case):
    (start, found), scales = case.found["first_order"], np.diagonal(case.factor)
    expected = scales[:, None] * case.other_factor * (1.0 - 0.5 * np.eye(len(scales)))
    oracles.assert_close(dense_factor(case.name, start), case.factor, rtol=case.rtol)
    oracles.assert_close(found.mean, case.other.mean, rtol=case.rtol)
    oracles.assert_close(dense_factor(case.name, found), expected, rtol=case.rtol)


@every_family
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [-1e12, 1e12])
def test_the_diagonal_stays_positive_and_finite_after_a_huge_step(name, dtype, size):
    q, *_ = arguments(name, 2, (3,))
    q = jax.tree.map(lambda leaf: leaf.astype(dtype), q)
    moved = q.moved(jax.tree.map(lambda leaf: jnp.full_like(leaf, size), q))
    diagonal = np.diagonal(dense_factor(name, moved))
    assert (diagonal > 0.0).all()
    assert np.isfinite(diagonal).all()


@every_family
@pytest.mark.parametrize(("num_steps", "shape"), [(1, ()), (6, (2, 2))])
def test_draws_have_the_mean_and_the_covariance_of_the_dense_gaussian(name, num_steps, shape, key):
    q, *_ = arguments(name, num_steps, shape)
    draws = jax.jit(jax.vmap(lambda key: q.sample(key).path))(jr.split(key, 10_000))
    draws, mean = np.asarray(draws).reshape(10_000, -1), np.asarray(q.mean).ravel()
    inverse = np.linalg.inv(dense_factor(name, q))
    covariance = inverse @ inverse.T
    statistics.assert_mean_matches(draws, mean, np.diagonal(covariance), false_alarm=1e-6)
    statistics.assert_covariance_matches(draws, mean, covariance, false_alarm=1e-6)


@every_family
def test_a_member_survives_flattening(name):
    q, *_ = arguments(name, 2, (3,))
    flat, restore = ravel_pytree(q)
    for again in (restore(flat), jax.tree.unflatten(*reversed(jax.tree.flatten(q)))):
        assert type(again) is type(q)
        jax.tree.map(np.testing.assert_array_equal, again, q)


@every_family
def test_single_precision_stays_single_and_agrees_with_double(name):
    *members, key = arguments(name, 2, (3,))
    single = jax.tree.map(lambda leaf: leaf.astype(np.float32), members)
    found, expected = (jit_for_one_run(evaluate)(*inputs, key) for inputs in (single, members))
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(np.float32)}
    del found["draw"], expected["draw"]  # the generator gives other numbers in single precision
    rtol = max(oracles.tolerance(dense_factor(name, q), np.float32) for q in members[:2])
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        oracles.assert_close(a, b, rtol=rtol, scale=np.abs(b).max(initial=0.0) + members[0].mean.size)


@every_family
def test_compiling_does_not_change_the_result(name):
    def summary(q, other, path, noise, key):
        return q.sample(key), q.log_prob(path), q.variances(), q.divergence(other), q.pull_back(path, noise)

    inputs = arguments(name, 2, (3,))
    rtol = max(oracles.tolerance(dense_factor(name, q)) for q in inputs[:2])
    match = partial(oracles.assert_close, rtol=rtol, scale=inputs[0].mean.size)
    jax.tree.map(match, jax.jit(summary)(*inputs), summary(*inputs))


@every_family
def test_a_map_over_keys_is_a_loop_over_them(name, key):
    q, *_ = arguments(name, 6, (3,))
    keys = jr.split(key, 3)
    mapped, looped = jax.vmap(q.sample)(keys), [q.sample(key) for key in keys]
    for i, draw in enumerate(looped):
        np.testing.assert_array_equal(mapped.noise[i], draw.noise)
        oracles.assert_close(mapped.path[i], draw.path, rtol=oracles.tolerance(dense_factor(name, q)))
