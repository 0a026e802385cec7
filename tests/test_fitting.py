import jax
import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl
from support import compilation

MODEL = dl.Model(dl.RandomWalk(0.3), dl.Gaussian())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dl.fit(MODEL, [1.0], method="gibbs"), ValueError, "unknown method 'gibbs'; choose one of"),
        (lambda: dl.fit(MODEL, [1.0], structure="ring"), ValueError, "unknown structure 'ring'"),
        (lambda: dl.fit(MODEL, [1.0], method="exact", rate=3), TypeError, "has no option 'rate'"),
        (lambda: dl.fit(MODEL, [1.0], method="bbvi", rate=3), TypeError, "it takes samples, max_iterations"),
        (
            lambda: dl.fit(MODEL, [1.0], method="bbvi", samples=0),
            ValueError,
            "samples must be a whole number",
        ),
        (lambda: dl.fit(MODEL, [1.0], method="bbvi", tolerance=0), ValueError, "tolerance must be a finite"),
        (lambda: dl.fit(MODEL, [1.0], method="bbvi", learning_rate="a"), ValueError, "rate must be a finite"),
        (lambda: dl.fit(MODEL, [1.0], method=["bbvi"]), ValueError, r"unknown method \['bbvi'\]"),
        (lambda: dl.fit(MODEL, [1.0], method="mean-field", structure="block"), ValueError, "omit it"),
        (lambda: dl.fit(MODEL, [1.0], method="bbvi", seed=None), TypeError, "seed must be a whole number"),
        (lambda: dl.fit(MODEL, [1.0], times=[np.inf]), ValueError, "that of step 0 is inf"),
        (lambda: dl.fit(MODEL, [1.0], method="bbvi", estimator="x"), ValueError, "estimator must be"),
        (lambda: dl.fit(MODEL, [1.0], method="bbvi", basis="x"), ValueError, "basis must be"),
        (lambda: dl.fit(dl.Gaussian(), [1.0]), TypeError, "fit takes a dl.Model"),
        (lambda: dl.Model(dl.Gaussian(), dl.Gaussian()), TypeError, "takes one of driftline's priors"),
        (lambda: dl.Model(dl.RandomWalk(), "poisson"), TypeError, r"a function of \(x, z\)"),
        (lambda: dl.Model(dl.RandomWalk(), lambda x: x), TypeError, r"called as function\(x, z\)"),
        (lambda: dl.Model(dl.RandomWalk(), dl.Gaussian), TypeError, r"call it, as in Gaussian\(\)"),
        (lambda: dl.Model(dl.RandomWalk, dl.Gaussian()), TypeError, r"call it, as in RandomWalk\(\)"),
        (
            lambda: dl.fit(dl.Model(dl.RandomWalk(), lambda x, z: None), [1.0]),
            ValueError,
            "the likelihood returns None for one step",
        ),
        (
            lambda: dl.fit(dl.Model(dl.RandomWalk(), dl.Poisson()), [1.0, -2.0]),
            ValueError,
            "observation -2 at step 1 is impossible.*put NaN where",
        ),
    ],
)
def test_calls_that_make_no_sense_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_natural_basis_needs_a_gaussian_prior():
    prior = dl.MarkovPrior(lambda z: -(z**2), lambda z, y, dt: -((z - y) ** 2))
    with pytest.raises(ValueError, match="basis='prior' needs a Gaussian prior, not MarkovPrior"):
        dl.fit(dl.Model(prior, dl.Gaussian()), [1.0, 2.0], method="bbvi", basis="prior")


def test_a_likelihood_that_is_not_finite_at_the_start_is_refused_with_its_step():
    model = dl.Model(dl.RandomWalk(), lambda x, z: jnp.log(x + 0.0 * z))
    with pytest.raises(ValueError, match="the likelihood is nan at step 2, where the observation is -1.0"):
        dl.fit(model, [1.0, 2.0, -1.0, 3.0], method="bbvi")


def test_a_gradient_that_is_not_finite_at_the_start_is_refused_with_its_step():
    model = dl.Model(dl.RandomWalk(), lambda x, z: -x * jnp.sqrt(z))
    with pytest.raises(ValueError, match="the gradient of the log joint is -inf at step 1"):
        dl.fit(model, [None, 1.0], method="bbvi")


def test_a_prior_that_is_not_finite_at_the_start_is_refused():
    prior = dl.MarkovPrior(lambda z: jnp.log(z), lambda z, y, dt: -((z - y) ** 2))
    with pytest.raises(ValueError, match=r"the prior is -inf.*MarkovPrior\(start=...\)"):
        dl.fit(dl.Model(prior, dl.Gaussian()), [1.0, 2.0], method="bbvi")


def test_numbers_may_change_without_compiling_again():
    traces = []

    def likelihood(x, z, p):
        traces.append(None)
        return -0.5 * ((x - z) / p["scale"]) ** 2

    def run(scale, step, first, seed):
        model = dl.Model(
            dl.AR1(mean=first, decay=0.9, scale=step), dl.Likelihood(likelihood, params={"scale": scale})
        )
        x = np.linspace(0.0, first, 13)
        return dl.fit(model, x, times=np.arange(13) * step, method="bbvi", seed=seed, max_iterations=100)

    run(0.5, 1.0, 2.0, 0)
    after_first = len(traces)
    assert after_first > 0
    run(0.7, 0.3, -1.0, 1)
    # observe() looks at the shape that the function returns; nothing else may run it again.
    assert len(traces) - after_first <= 1


@pytest.mark.parametrize("scale", [0.2, dl.learn(0.2, positive=True)], ids=["fixed", "learnt"])
def test_series_of_similar_length_share_what_was_compiled(scale):
    model = dl.Model(dl.AR1(1.0, 0.95, scale), dl.Poisson())
    counts = np.random.default_rng(0).poisson(3.0, size=64)
    dl.fit(model, counts[:50]).interval()
    for series in (counts[:50][::-1], counts[:41], counts[:33], counts, np.where(counts > 4, np.nan, counts)):
        with compilation.counted() as compiled:
            post = dl.fit(model, series)
            post.interval()
        assert not compiled
    with compilation.counted() as compiled:
        dl.fit(model, np.tile(counts, 2))
    assert compiled  # the listener works


def test_double_precision_without_touching_global_settings():
    with jax.enable_x64(False):
        post = dl.fit(MODEL, [1.0, 2.0, 3.0], method="exact")
        assert post.mean.dtype == post.sd.dtype == np.float64
        assert post.sample(2).dtype == np.float64
        assert not jax.config.jax_enable_x64
        assert jnp.zeros(1).dtype == jnp.float32


def test_simulated_data_are_reproducible_and_of_the_right_shape():
    model = dl.Model(dl.RandomWalk(0.1, shape=(2,)), dl.Poisson())
    path, counts = model.simulate(7, seed=1)
    assert path.shape == counts.shape == (7, 2)
    np.testing.assert_array_equal(model.simulate(7, seed=1)[1], counts)
    path, _ = model.simulate(times=[0.0, 1.0, 5.0])
    assert path.shape == (3, 2)
    with pytest.raises(ValueError, match="either a number of steps or times"):
        model.simulate()
