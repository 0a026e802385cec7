import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import driftline as dl
from driftline.models.parameters import Support, learnt, with_values

SUPPORTS = {
    "real": (Support(-np.inf, np.inf, None), [-3.0, 0.0, 2.0]),
    "positive": (Support(0.0, np.inf, None), [0.01, 1.0, 30.0]),
    "between": (Support(-1.0, 1.0, None), [-0.99, 0.0, 0.7]),
}


@pytest.mark.parametrize("name", SUPPORTS)
def test_numbers_survive_the_way_to_a_scale_without_bounds_and_back(name):
    support, values = SUPPORTS[name]
    raw = support.to_raw(np.array(values))
    np.testing.assert_allclose(support.from_raw(jnp.asarray(raw)), values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SUPPORTS)
def test_the_stretch_is_the_log_derivative(name):
    support, values = SUPPORTS[name]
    for raw in support.to_raw(np.array(values)):
        slope = jax.grad(lambda raw: support.from_raw(raw))(raw)
        np.testing.assert_allclose(
            support.log_stretch(jnp.asarray(raw)), np.log(slope), rtol=1e-9, atol=1e-12
        )


def test_a_density_on_one_scale_integrates_to_one_on_the_other():
    support = Support(0.0, np.inf, lambda v: -v)  # an exponential
    raw = jnp.linspace(-30.0, 6.0, 20_001)
    density = jax.vmap(lambda r: jnp.exp(support.log_prior(support.from_raw(r)) + support.log_stretch(r)))(
        raw
    )
    np.testing.assert_allclose(np.trapezoid(density, raw), 1.0, rtol=1e-6)


def test_places_are_found_and_filled():
    model = dl.Model(
        dl.AR1(mean=dl.learn(0.5), decay=0.9, scale=dl.learn([0.1, 0.2], positive=True), shape=(2,)),
        dl.Likelihood(lambda x, z, p: -p["a"] * jnp.sum((x - z) ** 2), params={"a": dl.learn(2.0), "b": 1.0}),
    )
    numbers = learnt(model)
    assert list(numbers) == ["prior.mean", "prior.scale", "likelihood.a"]
    filled = with_values(model, {"prior.mean": 1.0, "prior.scale": np.ones(2), "likelihood.a": 3.0})
    assert filled.prior.mean == 1.0
    assert filled.likelihood.params["a"] == 3.0
    assert learnt(filled) == {}
    assert learnt(model)  # the model itself has not changed


def test_a_place_narrows_the_support_of_what_is_learnt_there():
    prior = dl.AR1(decay=dl.learn(0.5), scale=dl.learn(0.3))
    assert (prior.decay.support.lower, prior.decay.support.upper) == (-1.0, 1.0)
    assert (prior.scale.support.lower, prior.scale.support.upper) == (0.0, np.inf)


def test_simulating_takes_learnt_numbers_at_their_start():
    fixed = dl.Model(dl.RandomWalk(0.3), dl.Gaussian(0.1))
    model = dl.Model(dl.RandomWalk(dl.learn(0.3)), dl.Gaussian(dl.learn(0.1)))
    np.testing.assert_array_equal(model.simulate(5, seed=3)[1], fixed.simulate(5, seed=3)[1])


def test_the_priors_of_stochastic_volatility_are_the_published_ones():
    numbers = learnt(dl.StochasticVolatility())
    decays = np.array([0.1, 0.6, 0.99])
    ours = jax.vmap(numbers["prior.decay"].support.log_prior)(jnp.asarray(decays))
    published = stats.beta(20, 1.5).logpdf((1 + decays) / 2)
    np.testing.assert_allclose(np.diff(ours), np.diff(published), rtol=1e-10)
    means = np.array([-9.0, 0.0, 4.0])
    ours = jax.vmap(numbers["prior.mean"].support.log_prior)(jnp.asarray(means))
    np.testing.assert_allclose(np.diff(ours), np.diff(stats.cauchy(0, 5).logpdf(means)), rtol=1e-10)
    scales = np.array([0.1, 1.0, 4.0])
    ours = jax.vmap(numbers["prior.scale"].support.log_prior)(jnp.asarray(scales))
    np.testing.assert_allclose(np.diff(ours), np.diff(stats.halfcauchy(0, 2).logpdf(scales)), rtol=1e-10)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dl.learn(-1.0, positive=True), "starts at -1.0, outside of its support from 0 to inf"),
        (lambda: dl.learn(2.0, between=(-1, 1)), "starts at 2.0, outside of its support from -1 to 1"),
        (lambda: dl.learn(np.nan), "outside of its support"),
        (lambda: dl.learn(0.5, between=(1, 0)), "a lower and a higher finite number"),
        (lambda: dl.learn(0.5, positive=True, between=(0, 1)), "not both"),
        (lambda: dl.learn(2.0, prior=lambda v: jnp.log(1.0 - v)), "no mass where it starts"),
        (lambda: dl.RandomWalk(dl.learn(-0.5)), r"RandomWalk\(scale=...\): a learnt number starts at -0.5"),
        (lambda: dl.AR1(decay=dl.learn(1.5)), r"AR1\(decay=...\).*from -1 to 1"),
        (lambda: dl.RandomWalk(dl.learn([0.1, 0.2], positive=True)), r"pass RandomWalk\(shape=\(2,\)"),
    ],
)
def test_learnt_numbers_that_make_no_sense_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def flat(*_):
    return 0.0


@pytest.mark.parametrize(
    ("params", "places"),
    [
        (dl.learn(1.0), ["params"]),
        ({"a": dl.learn(1.0), "b": 2.0}, ["a"]),
        ({"noise": {"scale": dl.learn(1.0)}}, ["noise.scale"]),
        ({"rates": [dl.learn(1.0), 2.0, dl.learn(3.0)]}, ["rates[0]", "rates[2]"]),
        ((dl.learn(1.0), {"a": dl.learn(2.0)}), ["params[0]", "params[1].a"]),
        ({0: dl.learn(1.0)}, ["params[0]"]),
        ({"a.b": dl.learn(1.0), "a": {"b": dl.learn(2.0)}}, ["a.b", "params['a.b']"]),
        ({"params": dl.learn(1.0)}, ["params.params"]),
        ({"simulate": dl.learn(1.0)}, ["simulate"]),
    ],
    ids=str,
)
def test_learnt_numbers_of_a_function_are_found_wherever_they_stand(params, places):
    for model, part in (
        (dl.Model(dl.RandomWalk(), dl.Likelihood(flat, params=params)), "likelihood"),
        (dl.Model(dl.MarkovPrior(flat, flat, params=params), dl.Poisson()), "prior"),
    ):
        numbers = learnt(model)
        assert sorted(numbers) == sorted(f"{part}{'' if p[0] == '[' else '.'}{p}" for p in places)
        filled = with_values(model, {place: 7.0 + i for i, place in enumerate(numbers)})
        assert learnt(filled) == {}
        kept = [leaf for leaf in jax.tree.leaves(params) if not hasattr(leaf, "support")]
        found = [float(leaf) for leaf in jax.tree.leaves(getattr(filled, part).params)]
        assert sorted(found) == sorted([*kept, *(7.0 + i for i in range(len(numbers)))])


def test_a_number_of_a_function_is_not_taken_for_a_field_of_its_name():
    prior = dl.MarkovPrior(flat, flat, start=dl.learn(0.5), params={"start": 2.0, "initial": dl.learn(3.0)})
    model = dl.Model(prior, dl.Poisson())
    assert list(learnt(model)) == ["prior.params.initial", "prior.start"]
    filled = with_values(model, {"prior.params.initial": 4.0, "prior.start": 1.0})
    assert (filled.prior.start, filled.prior.params["start"], filled.prior.initial) == (1.0, 2.0, flat)


def test_a_place_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"no number at 'prior.size'; it has prior.mean, prior.decay"):
        with_values(dl.Model(dl.AR1(), dl.Poisson()), {"prior.mean": 1.0, "prior.size": 2.0})


def test_one_mark_in_several_places_is_one_number():
    one = dl.learn(0.5, prior=lambda v: -v)
    model = dl.Model(
        dl.AR1(decay=one, scale=one), dl.Likelihood(lambda x, z, p: p[0] * x, params=[one, dl.learn(0.5)])
    )
    numbers = learnt(model)
    assert list(numbers) == ["prior.decay", "likelihood.params[1]"]
    support = numbers["prior.decay"].support
    assert (support.lower, support.upper) == (0.0, 1.0)  # what a scale and a decay both allow
    filled = with_values(model, {"prior.decay": 0.25})
    assert (filled.prior.decay, filled.prior.scale, filled.likelihood.params[0]) == (0.25,) * 3
    again = with_values(filled, {"prior.decay": 0.75})  # as the fit does, whose model has no marks any more
    assert (again.prior.decay, again.prior.scale, again.likelihood.params[0]) == (0.75,) * 3


def test_marks_of_the_same_kind_are_different_numbers():
    model = dl.Model(dl.RandomWalk(dl.learn(1.0)), dl.Gaussian(dl.learn(1.0)))
    assert list(learnt(model)) == ["prior.scale", "likelihood.scale"]


@pytest.mark.parametrize(
    "build",
    [
        lambda: dl.RandomWalk([dl.learn(0.1), dl.learn(0.2)], shape=(2,)),
        lambda: dl.Likelihood(flat, params={"a": np.array([dl.learn(0.1), 0.2], dtype=object)}),
    ],
)
def test_an_array_of_marks_is_refused_with_the_remedy(build):
    with pytest.raises(TypeError, match=r"make it one mark of an array, dl.learn\(\[0.1, 0.2\]"):
        build()


def test_what_is_not_a_number_is_named():
    with pytest.raises(
        TypeError, match=r"Likelihood\(params=...\): the entry params\['kind'\] is not a number"
    ):
        dl.Likelihood(flat, params={"kind": "steep"})
