"""The estimate of the ELBO and its gradient against dense matrices, by formula and by differentiation.

The log joint is a random walk with Poisson counts, written out twice: in JAX for what is differentiated, in
NumPy with its gradient for the formulas.
"""

import itertools
import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

from driftline.families import BlockGaussMarkov, GaussMarkov
from driftline.infer.bbvi.gradient import estimate
from support import oracles, statistics
from support.tracing import jit_for_one_run

SHAPES = {"chain": (), "chains": (2,), "blocks": (2,)}
RTOL = 1e-10  # the fixture asserts that rounding stays below
STEP_PRECISION = 4.0
EPS = np.finfo(np.float64).eps


def log_joint(counts, path):
    prior = -0.5 * jnp.sum(path[0] ** 2) - 0.5 * STEP_PRECISION * jnp.sum((path[1:] - path[:-1]) ** 2)
    return prior + jnp.sum(counts * path - jnp.exp(path))


def numpy_log_joint(counts, path):
    prior = -0.5 * np.sum(path[0] ** 2) - 0.5 * STEP_PRECISION * np.sum(np.diff(path, axis=0) ** 2)
    return prior + np.sum(counts * path - np.exp(path))


def numpy_score(counts, path):
    score, pull = counts - np.exp(path), STEP_PRECISION * np.diff(path, axis=0)
    score[0] -= path[0]
    score[:-1] += pull
    score[1:] -= pull
    return score


def make(kind, rng, num_steps):
    shape = SHAPES[kind]
    mean = 0.3 * rng.standard_normal((num_steps, *shape))
    if kind == "blocks":
        bands = oracles.random_block_factor(rng, num_steps, *shape)
        return BlockGaussMarkov(*map(jnp.asarray, (mean, *bands)))
    return GaussMarkov(*map(jnp.asarray, (mean, *oracles.random_factor(rng, num_steps, shape))))


def dense_factor(q, xp=np):
    """The factor over the flattened path."""
    dense = oracles.block_bidiagonal if isinstance(q, BlockGaussMarkov) else oracles.parallel_bidiagonal
    return dense(q.diag, q.upper, xp)


def dense_paths(q, noise, xp=np):
    """The draws (S, T, *shape) for noise (T, S, *shape), by a dense solve."""
    num_draws, rows = noise.shape[1], xp.moveaxis(noise, 1, 0)
    deviations = xp.linalg.solve(dense_factor(q, xp), rows.reshape(num_draws, -1).T).T
    return q.mean[None] + deviations.reshape(rows.shape)


def dense_log_probs(q, paths, xp=np):
    """The log densities (S,) of draws (S, T, *shape)."""
    factor = dense_factor(q, xp)
    whitened = factor @ (paths - q.mean[None]).reshape(len(paths), -1).T
    constant = xp.sum(xp.log(xp.diagonal(factor))) - 0.5 * len(factor) * math.log(2.0 * math.pi)
    return constant - 0.5 * xp.sum(whitened**2, axis=0)


def same_draws_objective(q, counts, noise):
    """The mean log joint of draws made from `noise`, plus the entropy, by dense matrices."""
    log_joints = jax.vmap(partial(log_joint, counts))(dense_paths(q, noise, jnp))
    return jnp.mean(log_joints) - jnp.sum(jnp.log(jnp.diagonal(dense_factor(q, jnp))))


def stopped_objective(q, counts, noise):
    """The mean of log joint minus log density, where the density does not see its parameters move."""
    paths = dense_paths(q, noise, jnp)
    log_probs = dense_log_probs(jax.lax.stop_gradient(q), paths, jnp)
    return jnp.mean(jax.vmap(partial(log_joint, counts))(paths) - log_probs)


class Case(NamedTuple):
    """A member of a family, counts, noise, and what was found for them; all in NumPy."""

    q: GaussMarkov | BlockGaussMarkov
    counts: np.ndarray
    noise: np.ndarray
    found: dict


def draw(kind, num_steps, num_draws):
    rng = np.random.default_rng([num_steps, num_draws])
    q = make(kind, rng, num_steps)
    counts = rng.poisson(2.0, q.mean.shape).astype(np.float64)
    return q, jnp.asarray(counts), jnp.asarray(rng.standard_normal((num_steps, num_draws, *q.mean.shape[1:])))


CELLS = list(itertools.product(["chain", "blocks"], [1, 2, 3, 5, 10, 50], [1, 4])) + [("chains", 5, 4)]


@pytest.fixture(scope="module", params=CELLS, ids=lambda cell: f"{cell[0]}-T{cell[1]}-S{cell[2]}")
def case(request):
    @jit_for_one_run
    def evaluate(q, counts, noise):
        own = partial(log_joint, counts)
        return {
            "plain": estimate(q, own, noise),
            "sticking": estimate(q, own, noise, sticking_the_landing=True),
            "plain_autodiff": jax.grad(same_draws_objective)(q, counts, noise),
            "sticking_autodiff": jax.grad(stopped_objective)(q, counts, noise),
        }

    inputs = draw(*request.param)
    found = evaluate(*inputs)
    case = Case(*jax.tree.map(np.asarray, (*inputs, found)))
    assert oracles.tolerance(dense_factor(case.q)) < RTOL
    return case


def assert_same_gradient(found, expected):
    assert type(found) is type(expected)
    jax.tree.map(partial(oracles.assert_close, rtol=RTOL), found, expected)


def test_the_gradient_is_automatic_differentiation_of_the_objective_on_the_same_draws(case):
    assert_same_gradient(case.found["plain"].gradient, case.found["plain_autodiff"])


def test_sticking_the_landing_is_automatic_differentiation_with_the_density_stopped(case):
    assert_same_gradient(case.found["sticking"].gradient, case.found["sticking_autodiff"])


def bands(q, dense):
    """The entries of a dense matrix that the leaves `diag` and `upper` of the family stand for."""
    blocks = [oracles.block_band(dense, k, q.mean[0].size) for k in (0, 1)]
    if isinstance(q, BlockGaussMarkov):
        return np.triu(blocks[0]), blocks[1]
    diagonals = (np.diagonal(block, axis1=1, axis2=2) for block in blocks)
    return tuple(band.reshape(-1, *q.mean.shape[1:]) for band in diagonals)


def test_the_gradient_is_the_formula_of_the_paper_in_dense_matrices(case):
    found, factor, num_draws = case.found["plain"].gradient, dense_factor(case.q), case.noise.shape[1]
    paths = dense_paths(case.q, case.noise)
    scores = np.stack([numpy_score(case.counts, path).ravel() for path in paths])
    deviations = (paths - case.q.mean[None]).reshape(num_draws, -1)
    # Eqs. 13 and 14: entry (i, j) of the factor has gradient -mean (γᵀB⁻¹)_i (B⁻¹ε)_j, less 1/ν where i = j.
    outer = -(scores @ np.linalg.inv(factor)).T @ deviations / num_draws
    diag, upper = bands(case.q, outer - np.diag(1.0 / np.diagonal(factor)))
    mean = scores.mean(axis=0).reshape(case.q.mean.shape)
    assert_same_gradient(found, type(found)(*map(jnp.asarray, (mean, diag, upper))))


def test_the_elbo_is_the_mean_of_log_joint_minus_log_density(case):
    paths = dense_paths(case.q, case.noise)
    log_joints = np.array([numpy_log_joint(case.counts, path) for path in paths])
    log_probs = dense_log_probs(case.q, paths)
    scale = np.abs(log_joints).max() + np.abs(log_probs).max()
    expected = np.mean(log_joints - log_probs)
    oracles.assert_close(case.found["plain"].elbo, expected, rtol=RTOL, scale=scale)
    oracles.assert_close(case.found["sticking"].elbo, expected, rtol=RTOL, scale=scale)


@pytest.mark.parametrize("num_draws", [1, 4])
def test_a_density_of_another_type_is_no_obstacle(num_draws):
    q, counts, noise = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), draw("chain", 5, num_draws))
    found = estimate(q, lambda path: log_joint(counts, path).astype(jnp.float64), noise)
    expected = estimate(q, partial(log_joint, counts), noise)
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype(jnp.float32)}
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), found, expected)


@pytest.mark.parametrize("num_draws", [1, 4])
def test_without_the_elbo_the_gradient_is_the_same(num_draws):
    q, counts, noise = draw("chain", 5, num_draws)

    @jit_for_one_run
    def evaluate(with_elbo):
        return estimate(q, partial(log_joint, counts), noise, with_elbo=with_elbo)

    asked, not_asked = evaluate(jnp.asarray(True)), evaluate(jnp.asarray(False))
    assert np.isfinite(asked.elbo)
    assert np.isnan(not_asked.elbo)
    jax.tree.map(np.testing.assert_array_equal, not_asked.gradient, asked.gradient)


@pytest.mark.parametrize("kind", SHAPES)
def test_the_gradient_agrees_with_central_differences(kind):
    q, counts, noise = draw(kind, 5, 4)
    found, _ = ravel_pytree(jax.jit(lambda q: estimate(q, partial(log_joint, counts), noise).gradient)(q))
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, q))
    flat, borders = (
        np.concatenate([leaf.ravel() for leaf in leaves]),
        np.cumsum([leaf.size for leaf in leaves]),
    )
    counts, noise = np.asarray(counts), np.asarray(noise)

    def objective(flat):
        parts = zip(np.split(flat, borders[:-1]), leaves, strict=True)
        q = jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])
        log_joints = [numpy_log_joint(counts, path) for path in dense_paths(q, noise)]
        return np.mean(log_joints) - np.sum(np.log(np.diagonal(dense_factor(q))))

    def central(i, width):
        shift = width * np.eye(len(flat))[i]
        return (objective(flat + shift) - objective(flat - shift)) / (2.0 * width)

    width = 1e-4
    narrow, wide = (np.array([central(i, w) for i in range(len(flat))]) for w in (width, 2.0 * width))
    # The error is a third of the difference between the two widths, to leading order, and rounding.
    rounding = oracles.tolerance(dense_factor(jax.tree.map(np.asarray, q))) * abs(objective(flat)) / width
    np.testing.assert_array_less(np.abs(found - narrow), np.abs(wide - narrow) + rounding)


class LinearGaussian(NamedTuple):
    """A random walk seen through noise: exact posterior, log joint and log evidence, by dense matrices."""

    posterior: GaussMarkov | BlockGaussMarkov
    precision: np.ndarray
    log_evidence: float
    log_joint: callable


def linear_gaussian(kind, num_steps):
    rng, dim = np.random.default_rng(num_steps), math.prod(SHAPES[kind])
    roots = np.eye(dim) + 0.3 * rng.standard_normal((2, dim, dim))
    step_covariance, noise_covariance = 0.5 * roots @ roots.mT
    size = num_steps * dim
    differences = np.kron(np.eye(num_steps) - np.eye(num_steps, k=-1), np.eye(dim))
    step_covariances = np.kron(np.eye(num_steps), step_covariance)
    prior_precision = differences.T @ np.linalg.inv(step_covariances) @ differences
    noise_covariances = np.kron(np.eye(num_steps), noise_covariance)
    noise_precisions = np.linalg.inv(noise_covariances)
    seen = rng.standard_normal(size)
    precision = prior_precision + noise_precisions
    mean = np.linalg.solve(precision, noise_precisions @ seen).reshape(num_steps, *SHAPES[kind])
    factor = np.linalg.cholesky(precision).T
    bands = oracles.block_band(factor, 0, dim), oracles.block_band(factor, 1, dim)
    family = BlockGaussMarkov if kind == "blocks" else GaussMarkov
    bands = bands if kind == "blocks" else [band.reshape(-1) for band in bands]
    constant = 0.5 * (np.linalg.slogdet(prior_precision)[1] + np.linalg.slogdet(noise_precisions)[1])

    def log_joint(path):
        flat = path.reshape(-1)
        prior = -0.5 * flat @ prior_precision @ flat
        likelihood = -0.5 * (seen - flat) @ noise_precisions @ (seen - flat)
        return prior + likelihood + constant - size * math.log(2.0 * math.pi)

    marginal = np.linalg.inv(prior_precision) + noise_covariances
    log_evidence = scipy.stats.multivariate_normal(np.zeros(size), marginal).logpdf(seen)
    return LinearGaussian(
        family(*map(jnp.asarray, (mean, *bands))), precision, float(log_evidence), log_joint
    )


exact_models = pytest.mark.parametrize("kind", ["chain", "blocks"])


@exact_models
@pytest.mark.parametrize("num_steps", [1, 5, 50])
def test_at_the_exact_posterior_one_draw_gives_the_evidence_and_no_gradient(kind, num_steps, key):
    model = linear_gaussian(kind, num_steps)
    q = model.posterior
    noise = jr.normal(key, (num_steps, 1, *SHAPES[kind]))
    found = jax.jit(lambda q: estimate(q, model.log_joint, noise, sticking_the_landing=True))(q)
    oracles.assert_close(found.elbo, model.log_evidence, rtol=1e-10)
    factor = dense_factor(jax.tree.map(np.asarray, q))
    deviation = np.linalg.solve(factor, np.asarray(noise).ravel())
    score = np.abs(model.precision) @ np.abs(deviation)  # the two scores that cancel
    adjoint = oracles.path_sums(factor).T @ score
    scale = max(score.max(), adjoint.max() * np.abs(deviation).max())
    for leaf in jax.tree.leaves(found.gradient):
        oracles.assert_close(leaf, np.zeros(leaf.shape), rtol=oracles.tolerance(factor), scale=scale)


@exact_models
def test_both_gradients_have_the_same_mean(kind, key):
    q, counts, _ = draw(kind, 5, 1)
    noise = jr.normal(key, (4000, 5, 1, *SHAPES[kind]))

    @jax.jit
    @partial(jax.vmap, in_axes=0)
    def both(noise):
        own = partial(log_joint, counts)
        plain, sticking = estimate(q, own, noise), estimate(q, own, noise, sticking_the_landing=True)
        return ravel_pytree(plain.gradient)[0], ravel_pytree(sticking.gradient)[0]

    statistics.assert_means_agree(*both(noise), false_alarm=1e-6)


@exact_models
def test_the_mean_elbo_is_the_evidence_less_the_divergence_from_the_posterior(kind, key):
    model = linear_gaussian(kind, 5)
    q = make(kind, np.random.default_rng(0), 5)
    noise = jr.normal(key, (4000, 5, 1, *SHAPES[kind]))
    elbos = jax.jit(jax.vmap(lambda noise: estimate(q, model.log_joint, noise).elbo))(noise)
    inverse = np.linalg.inv(dense_factor(jax.tree.map(np.asarray, q)))
    mean, posterior_mean = (np.asarray(member.mean).ravel() for member in (q, model.posterior))
    covariance, posterior_covariance = inverse @ inverse.T, np.linalg.inv(model.precision)
    divergence = oracles.gaussian_divergence(mean, covariance, posterior_mean, posterior_covariance)
    expected = np.full(len(elbos), model.log_evidence - divergence)
    statistics.assert_means_agree(elbos, expected, false_alarm=1e-6)
