import jax
import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl
from driftline import datasets
from driftline.families import MeanField
from driftline.infer.bbvi import optimise as bbvi
from driftline.infer.bbvi.optimise import Settings


def nile_model():
    walk = dl.RandomWalk(scale=38.33, initial_mean=1120.0, initial_scale=500.0)
    return dl.Model(walk, dl.Gaussian(scale=122.88))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"basis": "prior"},
        {"structure": "block"},
        {"estimator": "sticking-the-landing"},
    ],
    ids=str,
)
def test_bbvi_reaches_the_exact_posterior(options):
    years, flow = datasets.nile()
    exact = dl.fit(nile_model(), flow, times=years, method="exact")
    post = dl.fit(nile_model(), flow, times=years, method="bbvi", **options)
    assert post.converged, post.message
    assert np.abs((post.mean - exact.mean) / exact.sd).max() <= 0.02
    assert np.abs(post.sd / exact.sd - 1).max() <= 0.02
    lag = np.asarray(post.q.lag_covariances()) / np.asarray(exact.q.lag_covariances())
    assert np.abs(lag - 1).max() <= 0.05
    assert abs(post.elbo - exact.elbo) <= 0.05


def test_gaps_and_uneven_times_reach_the_exact_posterior_too():
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.exponential(size=40))
    x = np.where(rng.uniform(size=40) < 0.4, np.nan, rng.normal(size=40))
    model = dl.Model(dl.OrnsteinUhlenbeck(rate=0.5, scale=1.0), dl.Gaussian(0.5))
    exact = dl.fit(model, x, times=times, method="exact")
    # The tolerance is an average over the path; the worst of 40 numbers takes a finer one.
    post = dl.fit(model, x, times=times, method="bbvi", estimator="sticking-the-landing", tolerance=1e-5)
    assert np.abs((post.mean - exact.mean) / exact.sd).max() <= 0.02
    assert np.abs(post.sd / exact.sd - 1).max() <= 0.02


def test_the_result_does_not_depend_on_units():
    years, flow = datasets.nile()
    small = dl.Model(
        dl.RandomWalk(scale=38.33e-6, initial_mean=1120e-6, initial_scale=500e-6),
        dl.Gaussian(scale=122.88e-6),
    )
    options = {"method": "bbvi", "max_iterations": 500}
    one = dl.fit(nile_model(), flow, times=years, **options)
    other = dl.fit(small, flow * 1e-6, times=years, **options)
    np.testing.assert_allclose(other.mean, one.mean * 1e-6, rtol=1e-6)
    np.testing.assert_allclose(other.sd, one.sd * 1e-6, rtol=1e-6)


def test_mean_field_finds_the_best_member_of_its_family():
    # For a Gaussian target the best independent Gaussian has its mean and the diagonal of its precision.
    years, flow = datasets.nile()
    exact = dl.fit(nile_model(), flow, times=years, method="exact")
    post = dl.fit(nile_model(), flow, times=years, method="mean-field")
    assert post.converged, post.message
    precision, _ = exact.q.precision()
    best = MeanField(jnp.asarray(exact.mean), jnp.sqrt(precision))
    # What the stopping rule demands of its last two averages, it must also keep towards the truth.
    per_number = float(post.q.divergence(best)) / len(flow)
    assert per_number <= bbvi.STAGES_AGREE * bbvi.Settings().tolerance
    assert np.all(post.q.lag_covariances() == 0)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    model = dl.Model(dl.RandomWalk(0.2), dl.Poisson())
    x = [1, 0, 2, 1, 4, None, 3]
    one, two, other = (
        dl.fit(model, x, method="bbvi", seed=seed, max_iterations=200).mean for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_poisson_posterior_matches_importance_sampling():
    # A short chain, so that brute-force importance sampling from the prior is an oracle.
    x = np.array([0.0, 3.0, 2.0, np.nan, 5.0])
    model = dl.Model(dl.RandomWalk(0.5), dl.Poisson())
    post = dl.fit(model, x, method="bbvi")
    paths = jax.vmap(lambda key: model.prior.simulate(key, jnp.ones(4)))(
        jax.random.split(jax.random.key(0), 400_000)
    )
    paths = np.asarray(paths)
    seen = ~np.isnan(x)
    log_weights = (x[seen] * paths[:, seen] - np.exp(paths[:, seen])).sum(1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = weights @ paths
    sd = np.sqrt(weights @ (paths - mean) ** 2)
    # The Gaussian family is not exact here: these bounds are its bias, which a sign error would dwarf.
    assert np.abs((post.mean - mean) / sd).max() < 0.1
    assert np.abs(post.sd / sd - 1).max() < 0.1


def test_latent_shapes_of_any_rank_where_the_likelihood_sees_all_of_a_step(key):
    # Factors times loadings: x_t = W z_t + noise with z_t of shape (2, 3), black box throughout.
    weights = jax.random.normal(key, (4, 6))

    def likelihood(x, z):
        return -2.0 * jnp.sum((x - weights @ z.reshape(-1)) ** 2)

    model = dl.Model(dl.AR1(decay=0.9, scale=0.5, shape=(2, 3)), likelihood)
    x = np.random.default_rng(1).normal(size=(12, 4))
    exact = dl.fit(model, x, method="exact")
    options = {"method": "bbvi", "estimator": "sticking-the-landing"}
    # The tolerance is an average over the path; the worst of 72 numbers takes a finer one.
    post = dl.fit(model, x, structure="block", tolerance=1e-5, **options)
    assert post.mean.shape == post.sd.shape == (12, 2, 3)
    assert np.abs((post.mean - exact.mean) / exact.sd).max() <= 0.02
    assert np.abs(post.sd / exact.sd - 1).max() <= 0.02
    chains = dl.fit(model, x, structure="chains", **options)
    # A lower bound, and one that gives something away: chains cannot hold what the likelihood couples.
    assert chains.elbo + 5 * chains.elbo_error < exact.elbo
    assert abs(post.elbo - exact.elbo) < 0.05 + 5 * post.elbo_error
    assert np.abs((chains.mean - exact.mean) / exact.sd).max() <= 0.1


def test_interrupting_returns_the_best_state_so_far():
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if progress.iteration >= 500:
            raise KeyboardInterrupt

    years, flow = datasets.nile()
    post = dl.fit(nile_model(), flow, times=years, method="bbvi", progress=interrupt)
    assert not post.converged
    assert post.message == "interrupted after 500 steps"
    assert post.iterations == 500 == len(post.history["elbo"])
    exact = dl.fit(nile_model(), flow, times=years, method="exact")
    assert exact.elbo - 5 < post.elbo < exact.elbo + 1
    assert calls[0].max_iterations == Settings().max_iterations
    assert calls[-1].seconds_left >= 0


def test_running_out_of_steps_is_said():
    post = dl.fit(dl.Model(dl.RandomWalk(), dl.Poisson()), [1, 2, 3], method="bbvi", max_iterations=50)
    assert not post.converged
    assert "not converged after 50 steps; raise max_iterations" in post.message


@pytest.mark.parametrize(("limit", "taken"), [(1, 50), (120, 150), (150, 150)])
def test_steps_are_taken_in_whole_blocks_and_no_stage_begins_after_the_last(limit, taken):
    # With so wide a tolerance the first stage ends as soon as it can, after three blocks.
    options = {"method": "bbvi", "max_iterations": limit, "tolerance": 1e3}
    post = dl.fit(dl.Model(dl.RandomWalk(), dl.Poisson()), [1, 2, 3], **options)
    assert post.iterations == taken
    assert not post.converged


def test_progress_goes_to_stderr_and_ends_its_line(capsys):
    dl.fit(
        dl.Model(dl.RandomWalk(), dl.Poisson()), [1, 2, 3], method="bbvi", max_iterations=50, progress=True
    )
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "bbvi 50/50  ELBO" in captured.err
    assert "left" in captured.err
    assert captured.err.endswith("\n")
    dl.fit(dl.Model(dl.RandomWalk(), dl.Poisson()), [1, 2, 3], method="bbvi", max_iterations=50)
    assert capsys.readouterr().err == ""


def test_learning_that_diverges_says_where_and_what_to_do():
    hard = dl.Likelihood(lambda x, z: jnp.where(jnp.abs(z) < 3.0, -((x - z) ** 2), jnp.nan))
    with pytest.raises(
        dl.DivergenceError, match=r"at time step \d+, where draws of the path are.*smaller learning_rate"
    ):
        dl.fit(dl.Model(dl.RandomWalk(5.0), hard), np.zeros(20), method="bbvi")


@pytest.mark.parametrize("learning_rate", [5.0, 20.0, 1000.0])
def test_learning_that_ends_worse_than_it_began_is_refused(learning_rate):
    model = dl.Model(dl.RandomWalk(0.5), dl.Gaussian(1.0))
    options = {"method": "bbvi", "learning_rate": learning_rate, "max_iterations": 500}
    with pytest.raises(
        dl.DivergenceError, match=rf"after 500 steps.*learning_rate \(now {learning_rate:g}\)"
    ):
        dl.fit(model, [1.0, 2.0, 30.0, 4.0, 5.0, 6.0, 0.0, 0.0], **options)


@pytest.mark.parametrize(
    ("model", "rate", "place"),
    [
        (
            dl.Model(
                dl.MarkovPrior(
                    lambda z: jnp.where(z > 3.0, -jnp.inf, -z * z), lambda z, y, dt: -((z - y) ** 2)
                ),
                dl.Gaussian(),
            ),
            0.05,
            r"at iteration \d+: the prior's log density of a draw is -inf",
        ),
        (dl.Model(dl.RandomWalk(0.5), dl.Gaussian(1.0)), 1e300, r"at iteration \d+: the "),
    ],
    ids=["an improper prior", "a step out of range"],
)
def test_divergence_names_the_iteration_even_where_no_time_step_is_at_fault(model, rate, place):
    with pytest.raises(dl.DivergenceError, match=f"the fit diverged {place}"):
        dl.fit(model, [1.0, 2.0, 30.0, 4.0], method="bbvi", learning_rate=rate)
