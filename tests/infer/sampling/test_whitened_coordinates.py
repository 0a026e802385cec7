"""Coordinates in which a posterior is nearly normal, against dense Jacobians and closed forms."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import driftline as dl
from driftline.infer.number_vector import Layout
from driftline.infer.sampling.whitened_coordinates import Coordinates, Position, coordinates
from driftline.infer.start import begin, starting_family
from driftline.models.observations import observe
from driftline.models.parameters import at_start, learnt, with_values
from support.smoothing import chain_moments, condition


def bent_prior():
    return dl.MarkovPrior(
        initial=lambda z: -0.5 * z**2,
        transition=lambda z, before, dt: -0.5 * ((z - before - 0.5 * jnp.sin(2 * before)) / 0.4) ** 2,
    )


def built(model, x, structure="chains", spread=0.3) -> Coordinates:
    """Coordinates for points of the learnt numbers, without bounds, that are spread around their starts."""
    marks = learnt(model)
    supports = {place: mark.support for place, mark in marks.items()}
    layout = Layout(tuple(supports), tuple(supports.values()), ((),) * len(supports), flat=False)
    starts = np.array([float(mark.support.to_raw(mark.start)) for mark in marks.values()])
    apart = np.random.default_rng(0).standard_normal((20, len(starts)))
    model = at_start(model)
    values = np.asarray(x, dtype=float)
    observations = observe(values, np.ones(len(values) - 1), model.likelihood, model.prior.shape)
    q = starting_family(model, begin(model, observations), observations, structure)
    return coordinates(model, observations, q, layout, starts + spread * apart, np.full(20, 0.05))


@functools.cache
def case(name):
    return built(*CASES[name])


def dense_log_density(found, position):
    """Log joint density of path and numbers, times the determinant of the dense Jacobian of their place."""
    flat, unflatten = jax.flatten_util.ravel_pytree(position)
    place = found.place(position)
    values = found.layout.values(place.raw)
    model = with_values(found.template, values)
    jacobian = jax.jit(
        jax.jacfwd(lambda flat: jax.flatten_util.ravel_pytree(found.place(unflatten(flat)))[0])
    )
    total = model.log_joint(place.path, found.observations) + np.linalg.slogdet(np.asarray(jacobian(flat)))[1]
    for support, value, raw in zip(found.layout.supports, values.values(), place.raw, strict=True):
        total += support.log_prior(value) + jnp.log(jnp.abs(jax.grad(support.from_raw)(raw)))
    return total


def position_at(found, key, width=0.7):
    keys = jax.random.split(key)
    return Position(
        width * jax.random.normal(keys[0], found.center.shape),
        width * jax.random.normal(keys[1], found.q.mean.shape),
    )


X4 = np.array([0.4, 1.3, np.nan, 0.2])
PAIRS = np.array([[1.0, 2.0], [0.0, 1.0], [np.nan, np.nan], [2.0, 5.0]])
CASES = {
    "learnt, chains": (
        dl.Model(
            dl.RandomWalk(dl.learn(0.5, prior=lambda v: -v)), dl.Gaussian(dl.learn(0.5, prior=lambda v: -v))
        ),
        X4, "chains",
    ),
    "learnt, block": (
        dl.Model(dl.RandomWalk(dl.learn(0.5, prior=lambda v: -v), shape=(2,)), dl.Poisson()), PAIRS, "block",
    ),
    "coupled, block": (
        dl.Model(dl.RandomWalk(0.5, shape=(2,)), lambda x, z: -0.5 * jnp.sum((x - z[0] * z[1]) ** 2)),
        PAIRS, "block",
    ),
    "fixed": (dl.Model(dl.AR1(0.0, 0.8, 0.5), dl.LogVolatility()), X4, "chains"),
    "markov": (dl.Model(bent_prior(), dl.Gaussian(dl.learn(0.5, prior=lambda v: -v))), X4, "chains"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_that_of_path_and_numbers_times_the_dense_jacobian(name, key):
    found = case(name)
    position = position_at(found, key)
    np.testing.assert_allclose(found.log_density(position), dense_log_density(found, position), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_the_weight_is_the_density_beside_a_standard_normal(name, key):
    found = case(name)
    position = position_at(found, key)
    flat, _ = jax.flatten_util.ravel_pytree(position)
    normal = stats.norm.logpdf(np.asarray(flat)).sum()
    np.testing.assert_allclose(found.log_weight(position), found.log_density(position) - normal, rtol=1e-12)


def test_given_the_numbers_the_path_of_a_linear_model_is_standard_normal(key):
    found = case("learnt, chains")
    assert found.followed == "everything"
    numbers = jnp.array([0.8, -0.6])
    keys = jax.random.split(key, 4)
    weights = [
        found.log_weight(Position(numbers, 2.0 * jax.random.normal(own, found.q.mean.shape))) for own in keys
    ]
    np.testing.assert_allclose(weights, weights[0], rtol=1e-10)


def test_the_path_at_the_origin_of_the_noise_is_the_smoothers_mean_for_any_numbers():
    found = case("learnt, chains")
    for numbers in (jnp.zeros(2), jnp.array([1.0, -0.5])):
        place = found.place(Position(numbers, jnp.zeros(4)))
        step, noise = (float(value) for value in found.layout.values(place.raw).values())
        prior = chain_moments(0.0, 1.0, np.ones(3), np.zeros(3), np.full(3, step))
        mean, covariance, _ = condition(*prior, X4, noise)
        np.testing.assert_allclose(place.path, mean, rtol=1e-8)
        spread = jax.jacfwd(lambda noise, numbers=numbers: found.place(Position(numbers, noise)).path)(
            jnp.zeros(4)
        )
        np.testing.assert_allclose(spread @ spread.T, covariance, rtol=1e-8)


def test_the_weight_of_a_linear_model_is_the_evidence_of_its_numbers():
    # With the path integrated out exactly, what is left is the evidence times the prior of the numbers.
    found = case("learnt, chains")

    def expected(numbers):
        raw = found.center + found.factor @ numbers
        step, noise = (float(value) for value in found.layout.values(raw).values())
        prior = chain_moments(0.0, 1.0, np.ones(3), np.zeros(3), np.full(3, step))
        log_evidence = condition(*prior, X4, noise)[2]
        stretch = np.linalg.slogdet(np.asarray(found.factor))[1]
        normal = stats.norm.logpdf(np.asarray(numbers)).sum()
        return log_evidence + float(found.layout.log_prior(raw)) + stretch - normal

    for numbers in (jnp.zeros(2), jnp.array([0.4, -1.1])):
        weight = found.log_weight(Position(numbers, jnp.full(4, 0.3)))
        np.testing.assert_allclose(weight, expected(numbers), rtol=1e-9)


def test_coordinates_without_learnt_numbers_are_those_of_the_fit():
    model, x, _ = CASES["fixed"]
    found, post = case("fixed"), dl.fit(model, x)
    assert found.followed == "nothing"
    np.testing.assert_allclose(found.place(Position(jnp.zeros(0), jnp.zeros(4))).path, post.mean, atol=1e-6)


def heavy_tailed(spread):
    """Outliers under tails so heavy that the log-likelihood curves upwards there."""
    model = dl.Model(
        dl.RandomWalk(dl.learn(0.5, prior=lambda v: -v)),
        dl.StudentT(df=0.05, scale=dl.learn(0.5, prior=lambda v: -v)),
    )
    return built(model, [0.0, 0.1, 8.0, -0.1, 0.2, -6.0, 0.0, 0.1], spread=spread)


def test_what_would_break_the_precision_is_not_followed(key):
    assert heavy_tailed(0.05).followed == "everything"
    found = heavy_tailed(1.5)
    assert found.followed != "everything"
    for own in jax.random.split(key, 3):
        position = position_at(found, own)
        np.testing.assert_allclose(found.log_density(position), dense_log_density(found, position), rtol=1e-9)


@pytest.mark.parametrize("num_steps", [1, 2])
def test_short_series(num_steps, key):
    found = built(
        dl.Model(dl.RandomWalk(dl.learn(0.5, prior=lambda v: -v)), dl.Poisson()), [3.0, 5.0][:num_steps]
    )
    position = position_at(found, key)
    np.testing.assert_allclose(found.log_density(position), dense_log_density(found, position), rtol=1e-9)
