"""The verdict on a fit, against brute-force importance sampling, closed forms and ArviZ."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats
from scipy import stats

import driftline as dl
from driftline.infer.judging.diagnosis import pareto_shape
from driftline.infer.sampling import particles
from driftline.models.observations import observe


def bent_prior():
    return dl.MarkovPrior(
        initial=lambda z: -0.5 * z**2 - 0.5 * jnp.log(2 * jnp.pi),
        transition=lambda z, before, dt: (
            -0.5 * ((z - before - 0.5 * jnp.sin(2 * before)) / 0.4) ** 2 - jnp.log(0.4 * jnp.sqrt(2 * jnp.pi))
        ),
        draw_initial=lambda key: jax.random.normal(key),
        draw_transition=lambda key, before, dt: (
            before + 0.5 * jnp.sin(2 * before) + 0.4 * jax.random.normal(key)
        ),
    )


SHORT = {
    "poisson": (dl.Model(dl.RandomWalk(0.5), dl.Poisson()), [0, 3, 2, None, 5]),
    "volatility": (dl.Model(dl.AR1(-1.0, 0.9, 0.5), dl.LogVolatility()), [0.1, -1.5, 0.3, 0.02, 0.9, 2.0]),
    "bent": (dl.Model(bent_prior(), dl.Gaussian(0.5)), [0.2, 0.8, None, 1.9, 2.4]),
}


def weighted_prior_paths(model, x, count=200_000):
    """Paths of the prior with the likelihood as weight: slow, simple, and knows nothing of q."""
    values = np.array(x, dtype=float)
    observations = observe(values, np.ones(len(values) - 1), model.likelihood, ())
    keys = jax.random.split(jax.random.key(5), count)
    paths = jax.vmap(lambda key: model.prior.simulate(key, observations.gaps))(keys)
    log_weights = jax.vmap(lambda path: jnp.sum(model.log_likelihoods(path, observations)))(paths)
    return np.asarray(paths), np.exp(np.asarray(log_weights))


@pytest.mark.parametrize("structure", ["chains", "block"])
@pytest.mark.parametrize(
    "model",
    [
        dl.Model(dl.RandomWalk(0.5, shape=(2,)), dl.Poisson()),
        dl.Model(dl.Diffusion(0.3, shape=(2,)), lambda x, z: -0.5 * jnp.sum((x - z[0] * z[1]) ** 2)),
        dl.Model(
            dl.MarkovPrior(
                initial=lambda z: -0.5 * jnp.sum(z**2),
                transition=lambda z, before, dt: -jnp.sum((z - jnp.tanh(before[::-1])) ** 2 / dt),
                shape=(2,),
            ),
            dl.Gaussian(0.5),
        ),
    ],
    ids=["poisson", "coupled", "bent"],
)
def test_weights_of_single_steps_add_up_to_the_weight_of_the_path(model, structure):
    x = np.array([[1, 2], [0, 1], [np.nan, np.nan], [2, 5]], dtype=float)
    times = np.array([0.0, 1.0, 1.5, 4.0])
    post = dl.fit(model, x, times=times, structure=structure, max_iterations=3)
    observations = observe(x, np.diff(times), model.likelihood, (2,))
    for seed in range(3):
        path = post.q.sample(jax.random.key(seed)).path
        guide = particles.Guide(post.q, model, observations)
        total = guide.constant
        deviations = jnp.concatenate([path - post.q.mean, jnp.zeros((1, 2))])
        for t in range(4):
            step = jax.tree.map(lambda leaf, t=t: leaf[t], guide.steps)
            total += guide.own_weight(step, deviations[t])
            total += guide.pair_weight(step, deviations[t], deviations[t + 1])
        total += guide.last_weight(deviations[0])
        expected = model.log_joint(path, observations) - post.q.log_prob(path)
        np.testing.assert_allclose(total, expected, rtol=1e-10)


@pytest.mark.parametrize("structure", ["chains", "block"])
def test_the_filter_draws_from_the_conditionals_of_q(structure):
    shape = (1, 2)  # as many axes as a block has
    model = dl.Model(dl.RandomWalk(0.5, shape=shape), dl.Poisson())
    post = dl.fit(model, [[[1, 2]], [[0, 1]], [[2, 5]]], structure=structure)
    guide = particles.Guide(post.q, model, observe(post.values, np.ones(2), model.likelihood, shape))
    path, noise = post.q.sample(jax.random.key(0))
    later = jnp.zeros(shape)
    for t in (2, 1, 0):
        step = jax.tree.map(lambda leaf, t=t: leaf[t], guide.steps)
        found = guide.deviation_of(step, noise[t], later)
        np.testing.assert_allclose(found, path[t] - post.q.mean[t], rtol=1e-10)
        np.testing.assert_allclose(guide.noise_of(step, found, later), noise[t], rtol=1e-10)
        later = found


@pytest.mark.parametrize("method", ["newton", "exact"])
def test_there_is_no_gap_where_the_posterior_is_gaussian(method):
    model = dl.Model(dl.OrnsteinUhlenbeck(rate=0.5), dl.Gaussian(0.7))
    x = [0.3, None, 1.0, -0.4, 2.0]
    found = dl.fit(model, x, times=[0.0, 1.0, 1.2, 5.0, 5.5], method=method).diagnose()
    assert abs(found.gap) < 1e-8
    assert found.gap_error < 1e-8
    assert np.abs(found.gap_in_time).max() < 1e-8
    assert not found.flagged
    assert found.verdict.startswith("good")


@pytest.mark.parametrize(
    "name", [name if name == "bent" else pytest.param(name, marks=pytest.mark.slow) for name in SHORT]
)
def test_the_gap_agrees_with_brute_force(name):
    model, x = SHORT[name]
    post = dl.fit(model, x)
    found = post.diagnose()
    _, weights = weighted_prior_paths(model, x)
    log_evidence = np.log(weights.mean())
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    # Four standard errors of both: a false alarm of about 1e-4.
    assert abs(found.log_evidence - log_evidence) < 4 * np.hypot(error, found.gap_error)
    assert abs(found.gap - (log_evidence - post.elbo)) < 4 * np.hypot(error, found.gap_error)
    # The ELBO is a lower bound, and here a strict one.
    assert found.gap > found.gap_error
    np.testing.assert_allclose(found.gap_in_time.sum(), found.gap, atol=6 * found.gap_error)


@pytest.mark.parametrize("name", SHORT)
def test_corrected_draws_have_the_moments_of_the_posterior(name):
    model, x = SHORT[name]
    draws = dl.fit(model, x).sample(4000, corrected=True)
    paths, weights = weighted_prior_paths(model, x)
    weights = weights / weights.sum()
    mean = weights @ paths
    sd = np.sqrt(weights @ (paths - mean) ** 2)
    # About 1,000 particles: the mean is known to 0.03 sd, the sd to 2.5 %. Five times that.
    assert np.abs((draws.mean(axis=0) - mean) / sd).max() < 0.15
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.12)
    lag = np.array([weights @ ((paths[:, t] - mean[t]) * (paths[:, t + 1] - mean[t + 1])) for t in range(3)])
    found = [np.cov(draws[:, t], draws[:, t + 1])[0, 1] for t in range(3)]
    np.testing.assert_allclose(found, lag, atol=0.15 * (sd[:-1] * sd[1:])[:3].max())


def test_corrected_draws_bring_back_the_skew_that_a_gaussian_cannot_have():
    post = dl.fit(dl.Model(dl.AR1(0.0, 0.5, 2.0), dl.LogVolatility()), [0.05])
    grid = np.linspace(-20, 20, 100_001)
    weights = np.exp(-0.5 * grid**2 * 0.75 / 4 - 0.5 * grid - 0.5 * 0.05**2 * np.exp(-grid))
    centred = grid - np.average(grid, weights=weights)
    expected = np.average(centred**3, weights=weights) / np.average(centred**2, weights=weights) ** 1.5
    assert expected > 0.25
    # The skew of 1,000 independent draws is known to sqrt(6 / 1,000) = 0.08.
    assert abs(stats.skew(post.sample(4000, corrected=True)[:, 0]) - expected) < 2 * 0.08
    assert abs(stats.skew(post.sample(4000)[:, 0])) < expected / 2


@pytest.mark.slow
def test_a_long_series_keeps_its_error_small():
    model = dl.Model(dl.AR1(-1.0, 0.95, 0.3), dl.LogVolatility())
    _, x = model.simulate(5000, seed=1)
    post = dl.fit(model, x)
    found = [post.diagnose(seed=seed) for seed in range(2)]
    assert max(one.gap_error for one in found) < 0.5
    assert abs(found[0].gap - found[1].gap) < 4 * np.hypot(found[0].gap_error, found[1].gap_error)
    assert not found[0].flagged
    assert len(found[0].k_hat) == 50
    np.testing.assert_allclose(found[0].gap_in_windows.sum(), found[0].gap_in_time.sum())


def test_a_fit_without_correlations_is_found_out():
    model = dl.Model(dl.RandomWalk(0.1), dl.Poisson())
    _, x = model.simulate(200, seed=2)
    poor = dl.fit(model, x, method="mean-field").diagnose()
    assert poor.flagged
    assert poor.gap > 10
    assert "poor" in str(poor) or "doubtful" in str(poor)


@pytest.mark.slow
def test_a_poor_guide_is_put_right_by_resampling():
    # Without correlations the fit is far off, but everything about this posterior is known.
    model = dl.Model(dl.RandomWalk(0.6), dl.Gaussian(1.0))
    x = np.sin(np.arange(30) / 3)
    exact = dl.fit(model, x, method="exact")
    poor = dl.fit(model, x, method="mean-field")
    found = poor.diagnose()
    assert abs(found.log_evidence - exact.elbo) < 4 * found.gap_error
    assert exact.elbo - poor.elbo > 4 * found.gap_error
    # The plain draws are too narrow. Corrected ones still suffer from so poor a guide at single steps.
    draws = poor.sample(2000, corrected=True)
    assert np.median(poor.sd / exact.sd) < 0.8  # 1 / sqrt(1 + 2 / 0.36) over 0.536, in the middle
    assert abs(np.median(draws.std(axis=0) / exact.sd) - 1) < 0.1


def test_the_gap_sits_where_the_fit_is_wrong():
    x = np.full(60, 1000.0)
    x[40:50] = 0.0  # a count of zero says nothing of how low the rate is, so the posterior is skewed
    found = dl.fit(dl.Model(dl.AR1(3.0, 0.5, 2.0), dl.Poisson()), x).diagnose()
    assert found.gap_in_windows[4] > 10 * np.delete(found.gap_in_windows, 4).max()
    assert "steps 40 to 49" in str(found)


@pytest.mark.slow
def test_learnt_numbers_and_a_single_step():
    post = dl.fit(
        dl.Model(dl.RandomWalk(dl.learn(0.3, positive=True)), dl.Poisson()), [3, 1, 4, 1, 5, 9, 2, 6]
    )
    assert not post.diagnose().flagged
    draws = post.sample(100, corrected=True)
    assert draws.shape == (100, 8)
    assert np.abs(draws.mean(axis=0) - post.mean).max() < 5 * post.sd.max() / 10
    np.testing.assert_array_equal(draws, post.sample(100, corrected=True))
    single = dl.fit(dl.Model(dl.RandomWalk(0.3), dl.Poisson()), [3])
    assert single.sample(5, corrected=True).shape == (5, 1)
    assert single.diagnose().gap < 0.05
    two_axes = dl.fit(dl.Model(dl.RandomWalk(0.3, shape=(1, 2)), dl.Poisson()), [[[3, 1]], [[2, 4]]])
    coupled = dl.fit(two_axes.model, [[[3, 1]], [[2, 4]]], structure="block")
    np.testing.assert_allclose(coupled.diagnose().gap, two_axes.diagnose().gap, atol=1e-6)


def test_exposures_that_belong_to_single_steps_are_cut_up():
    exposure = np.array([1.0, 2.0, 4.0, 0.5, 8.0])
    x = np.array([1.0, 2.0, 6.0, 1.0, 7.0])
    with_exposure = dl.Model(dl.RandomWalk(0.5), dl.Poisson(exposure=exposure))
    found = dl.fit(with_exposure, x).diagnose()
    _, weights = weighted_prior_paths(with_exposure, x)
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    assert abs(found.log_evidence - np.log(weights.mean())) < 4 * np.hypot(error, found.gap_error)


@pytest.mark.slow
def test_as_many_elements_as_steps_are_not_taken_for_steps():
    scale = np.array([0.3, 1.0, 4.0])
    model = dl.Model(dl.RandomWalk(0.5, shape=(3,)), dl.Gaussian(scale))
    x = np.array([[0.2, 1.0, -3.0], [0.4, 0.0, 5.0], [0.1, 2.0, 1.0]])
    with jax.numpy_rank_promotion("allow"):
        found = dl.fit(model, x, method="exact").diagnose()
    alone = [
        dl.fit(dl.Model(dl.RandomWalk(0.5), dl.Gaussian(scale[i])), x[:, i], method="exact") for i in range(3)
    ]
    np.testing.assert_allclose(found.log_evidence, sum(post.elbo for post in alone), rtol=1e-10)
    assert found.gap_error < 1e-8


def test_params_of_a_function_are_the_same_at_all_steps():
    def likelihood(x, z, p):
        return -0.5 * jnp.sum(p["weights"] * (x - z) ** 2)

    # As many numbers as there are steps.
    own = dl.Likelihood(likelihood, params={"weights": np.array([1.0, 0.5, 3.0])})
    model = dl.Model(dl.RandomWalk(0.5, shape=(3,)), own)
    x = np.array([[0.2, 1.0, -3.0], [0.4, 0.0, 5.0], [0.1, 2.0, 1.0]])
    exact = dl.fit(model, x, method="exact")
    found = exact.diagnose()
    np.testing.assert_allclose(found.log_evidence, exact.elbo, rtol=1e-10)
    assert found.gap_error < 1e-8


def test_the_error_of_the_elbo_is_not_that_of_the_evidence():
    post = dl.fit(dl.Model(dl.RandomWalk(0.5), dl.Poisson()), [0, 3, 2, 1, 5], method="bbvi")
    assert post.elbo_error > 0
    found = post.diagnose()
    np.testing.assert_allclose(found.gap_error, np.hypot(found.log_evidence_error, 1.96 * post.elbo_error))
    assert f"{found.log_evidence:.3f} ± {found.log_evidence_error:.3f}" in str(found)
    assert f"{found.gap:.3f} ± {found.gap_error:.3f} nats" in str(found)
    # Another error of the ELBO says nothing about the evidence.
    surer = dataclasses.replace(post, elbo_error=0.0).diagnose()
    assert surer.log_evidence_error == found.log_evidence_error == surer.gap_error


def test_a_model_that_was_not_kept_is_asked_for(tmp_path):
    post = dl.fit(dl.Model(dl.RandomWalk(0.5), lambda x, z: -0.5 * (x - z) ** 2), [1.0, 2.0])
    post.save(tmp_path / "post")
    with pytest.raises(ValueError, match="does not keep functions"):
        dl.load(tmp_path / "post").diagnose()
    with pytest.raises(ValueError, match="does not keep functions"):
        dl.load(tmp_path / "post").sample(3, corrected=True)


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.3, 0.6, 0.9, 1.5])
def test_k_hat_is_that_of_arviz(shape):
    uniform = np.random.default_rng(1).uniform(size=4000)
    weights = -np.log(uniform) if shape == 0 else (uniform**-shape - 1) / shape
    found = pareto_shape(np.log(weights + 1e-3))
    # The shape's standard error is (1 + k) / sqrt(n) for n = 189 in the tail; ten draws' worth pull to 1/2.
    assert abs(found - shape) < 3 * (1 + shape) / np.sqrt(189) + 10 / 199 * abs(shape - 0.5)
    np.testing.assert_allclose(found, array_stats.psislw(-np.log(weights + 1e-3))[1], rtol=1e-9)


def test_k_hat_of_equal_weights_is_zero():
    assert pareto_shape(np.zeros(100)) == 0.0


def test_resampling_takes_every_particle_as_often_as_its_weight_says():
    weights = np.random.default_rng(0).dirichlet(np.full(50, 0.3))
    for seed in range(5):
        chosen = np.asarray(particles._systematic(jax.random.key(seed), jnp.log(jnp.asarray(weights))))
        times = np.bincount(chosen, minlength=50)
        assert times.sum() == 50
        assert np.abs(times - 50 * weights).max() < 1 + 1e-9
