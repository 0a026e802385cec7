import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import driftline as dl
from support.smoothing import chain_moments

GAPS = np.array([1.0, 0.5, 2.0, 3.5, 0.1])
NUM_STEPS = len(GAPS) + 1


def random_walk():
    prior = dl.RandomWalk(scale=0.7, initial_mean=1.5, initial_scale=2.0)
    return prior, chain_moments(1.5, 2.0, np.ones(5), np.zeros(5), 0.7 * np.sqrt(GAPS))


def ar1():
    prior = dl.AR1(mean=-1.0, decay=-0.6, scale=0.4)
    slopes, shifts = np.full(5, -0.6), np.full(5, -1.6)
    return prior, chain_moments(-1.0, 0.4 / np.sqrt(1 - 0.36), slopes, shifts, np.full(5, 0.4))


def ornstein_uhlenbeck():
    prior = dl.OrnsteinUhlenbeck(mean=2.0, rate=0.3, scale=0.8)
    lags = np.abs(np.subtract.outer(*2 * (np.append(0, np.cumsum(GAPS)),)))
    return prior, (np.full(NUM_STEPS, 2.0), 0.8**2 / 0.6 * np.exp(-0.3 * lags))


def diffusion():
    prior = dl.Diffusion(diffusion=0.2, scale=1.3)
    weight = 1 / (0.2 * GAPS)
    precision = np.diag(np.full(NUM_STEPS, 1.3**-2.0))
    for t, w in enumerate(weight):
        precision[t : t + 2, t : t + 2] += w * np.array([[1, -1], [-1, 1]])
    return prior, (np.zeros(NUM_STEPS), np.linalg.inv(precision))


PRIORS = {
    "random walk": random_walk,
    "ar1": ar1,
    "ornstein-uhlenbeck": ornstein_uhlenbeck,
    "diffusion": diffusion,
}


@pytest.mark.parametrize("name", PRIORS)
def test_density_mean_and_precision_equal_the_dense_gaussian(name):
    prior, (mean, covariance) = PRIORS[name]()
    gaps = jnp.asarray(GAPS)
    path = np.random.default_rng(0).normal(size=NUM_STEPS)
    np.testing.assert_allclose(prior.mean_path(gaps), mean, rtol=1e-12, atol=1e-12)
    expected = multivariate_normal(mean, covariance).logpdf(path)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(path), gaps), expected, rtol=1e-11)
    diag, off = prior.precision(gaps)
    dense = np.diag(diag) + np.diag(off, 1) + np.diag(off, -1)
    np.testing.assert_allclose(dense @ covariance, np.eye(NUM_STEPS), atol=1e-10)


@pytest.mark.parametrize("name", PRIORS)
def test_score_and_curvature_are_those_of_the_dense_gaussian(name):
    prior, (mean, covariance) = PRIORS[name]()
    path, precision = np.random.default_rng(4).normal(size=NUM_STEPS), np.linalg.inv(covariance)

    def log_prob(path):
        return prior.log_prob(path, jnp.asarray(GAPS))

    rtol = 1e-13 * np.linalg.cond(covariance)
    score, scale = jax.grad(log_prob)(jnp.asarray(path)), np.abs(precision) @ np.abs(path - mean)
    np.testing.assert_allclose(score, -precision @ (path - mean), atol=rtol * scale.max())
    for curvature in (
        jax.hessian(log_prob),
        jax.jacfwd(jax.jacfwd(log_prob)),
        jax.jacrev(jax.jacrev(log_prob)),
    ):
        np.testing.assert_allclose(curvature(jnp.asarray(path)), -precision, atol=rtol * precision.max())


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_the_score_is_right_where_squares_of_the_scale_are_out_of_range(scale):
    prior, path = dl.RandomWalk(scale, initial_scale=scale), scale * jnp.array([1.0, 2.0, 4.0], jnp.float32)
    found = jax.grad(prior.log_prob)(path, jnp.ones(2, jnp.float32))
    np.testing.assert_allclose(found, np.array([0.0, 1.0, -2.0]) / scale, atol=1e-5 / scale)


@pytest.mark.parametrize("name", ["random walk", "ar1", "ornstein-uhlenbeck"])
def test_density_and_score_know_how_they_change_with_the_prior_s_numbers(name):
    prior, _ = PRIORS[name]()
    path = jnp.asarray(np.random.default_rng(5).normal(size=NUM_STEPS))

    def at(scale, path):
        return eqx.tree_at(lambda prior: prior.scale, prior, scale).log_prob(path, jnp.asarray(GAPS))

    scale, h = jnp.asarray(0.7), 1e-5
    for of_scale in (at, jax.grad(at, argnums=1)):
        expected = (of_scale(scale + h, path) - of_scale(scale - h, path)) / (2 * h)
        found = jax.jacfwd(of_scale)(scale, path), jax.jacrev(of_scale)(scale, path)
        np.testing.assert_allclose(found, np.broadcast_to(expected, np.shape(found)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", PRIORS)
def test_simulated_paths_have_the_prior_s_moments(name, key):
    prior, (mean, covariance) = PRIORS[name]()
    num_paths, false_alarm = 20_000, 1e-6
    paths = jax.vmap(lambda key: prior.simulate(key, jnp.asarray(GAPS)))(jax.random.split(key, num_paths))
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.asarray(paths) - mean).T)
    products = white @ white.T / num_paths - np.eye(NUM_STEPS)
    spread = np.where(np.eye(NUM_STEPS) == 1, np.sqrt(2), 1) / np.sqrt(num_paths)
    limit = norm.isf(false_alarm / (2 * NUM_STEPS * (NUM_STEPS + 1)))
    assert np.abs(products / spread).max() < limit
    assert np.abs(white.mean(1) * np.sqrt(num_paths)).max() < limit


@pytest.mark.parametrize("name", PRIORS)
def test_one_step_and_no_gaps(name):
    prior, (mean, _) = PRIORS[name]()
    gaps = jnp.zeros(0)
    assert prior.mean_path(gaps).shape == (1,)
    variance = 1 / prior.precision(gaps)[0][0]
    expected = norm(mean[0], np.sqrt(variance)).logpdf(0.3)
    np.testing.assert_allclose(prior.log_prob(jnp.array([0.3]), gaps), expected, rtol=1e-12)


def test_elements_are_independent_chains_with_their_own_numbers():
    scales = np.array([0.5, 1.0, 2.0])
    joint = dl.RandomWalk(scale=scales, initial_mean=[0.0, 1.0, 2.0], shape=(3,))
    path = jnp.asarray(np.random.default_rng(1).normal(size=(NUM_STEPS, 3)))
    gaps = jnp.asarray(GAPS)
    apart = [
        dl.RandomWalk(scale=scales[i], initial_mean=float(i)).log_prob(path[:, i], gaps) for i in range(3)
    ]
    np.testing.assert_allclose(joint.log_prob(path, gaps), sum(apart), rtol=1e-12)


def test_ornstein_uhlenbeck_at_equal_steps_is_an_ar1():
    rate, scale = 0.4, 0.9
    decay = np.exp(-rate)
    step = scale * np.sqrt((1 - decay**2) / (2 * rate))
    gaps = jnp.ones(5)
    path = jnp.asarray(np.random.default_rng(2).normal(size=6))
    process = dl.OrnsteinUhlenbeck(mean=0.2, rate=rate, scale=scale)
    steps = dl.AR1(mean=0.2, decay=decay, scale=step)
    np.testing.assert_allclose(process.log_prob(path, gaps), steps.log_prob(path, gaps), rtol=1e-12)


def test_joint_and_normalised_form_of_the_papers_prior_differ_as_published():
    # Prior variances at D = 1e-3, sigma_0 = 1, T = 209, from the notes on the companion paper (section 7).
    width, gained = 1.0, 1e-3
    diag, off = dl.Diffusion(diffusion=gained, scale=width).precision(jnp.ones(208))
    precision = np.diag(diag) + np.diag(off, 1) + np.diag(off, -1)
    slope = width**2 / (width**2 + gained)
    slopes, scales = np.full(208, slope), np.full(208, np.sqrt(slope * gained))
    _, normalised = chain_moments(0.0, width, slopes, np.zeros(208), scales)
    places = [0, 104, 208]
    np.testing.assert_allclose(np.diag(np.linalg.inv(precision))[places], [0.031, 0.016, 0.031], atol=5e-4)
    np.testing.assert_allclose(np.diag(normalised)[places], [1.0, 0.91, 0.83], atol=5e-3)
    # The joint form is the other one after 208 further observations of the value zero.
    further = np.append(np.full(208, 1.0 / (width**2 + gained)), 0.0)
    np.testing.assert_allclose(precision, np.linalg.inv(normalised) + np.diag(further), rtol=1e-9, atol=1e-6)


def test_a_markov_prior_of_the_same_functions_has_the_same_density():
    prior, _ = random_walk()
    black_box = dl.MarkovPrior(
        initial=lambda z, p: jax.scipy.stats.norm.logpdf(z, 1.5, p["first"]),
        transition=lambda z, before, dt, p: jax.scipy.stats.norm.logpdf(z, before, p["step"] * jnp.sqrt(dt)),
        params={"first": 2.0, "step": 0.7},
    )
    path, gaps = jnp.asarray(np.random.default_rng(3).normal(size=NUM_STEPS)), jnp.asarray(GAPS)
    np.testing.assert_allclose(black_box.log_prob(path, gaps), prior.log_prob(path, gaps), rtol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dl.RandomWalk(scale=0.0), r"RandomWalk\(scale=...\) must be greater than zero"),
        (lambda: dl.RandomWalk(scale=np.nan), r"RandomWalk\(scale=...\) must be finite"),
        (lambda: dl.RandomWalk(scale="wide"), r"RandomWalk\(scale=...\) takes a number"),
        (lambda: dl.RandomWalk(scale=[1.0, 2.0]), r"pass RandomWalk\(shape=\(2,\)"),
        (lambda: dl.AR1(decay=1.0), "must lie between -1 and 1, got 1.0"),
        (lambda: dl.OrnsteinUhlenbeck(rate=-1.0), r"OrnsteinUhlenbeck\(rate=...\) must be greater"),
        (lambda: dl.Diffusion(shape=(0,)), "tuple of positive integers"),
        (lambda: dl.MarkovPrior(lambda z: 0.0, lambda z: 0.0), r"function\(z, z_prev, dt\)"),
        (lambda: dl.MarkovPrior(3.0, lambda z, y, dt: 0.0), r"takes a function of \(z\)"),
        (
            lambda: dl.MarkovPrior(lambda z: -(z**2), lambda z, y, dt: 0.0, shape=(3,)),
            r"initial=...\) returns an array of shape \(3,\) for one step of shape \(3,\).*jnp.sum",
        ),
        (
            lambda: dl.MarkovPrior(lambda z: 0.0, lambda z, y, dt: -((z - y) ** 2) / dt, shape=(2, 3)),
            r"transition=...\) returns an array of shape \(2, 3\)",
        ),
        (
            lambda: dl.MarkovPrior(lambda z, p: p, lambda z, y, dt, p: 0.0, params=dl.learn([1.0, 2.0])),
            r"initial=...\) returns an array of shape \(2,\)",
        ),
        (lambda: dl.MarkovPrior(lambda z: (z, z), lambda z, y, dt: 0.0), "returns a tuple for one step"),
    ],
)
def test_numbers_that_make_no_prior_are_refused(build, message):
    with pytest.raises((TypeError, ValueError), match=message):
        build()
