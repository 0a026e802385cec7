"""Numbers are learnt the same wherever they stand in a model."""

import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl

TRUTH = dl.Model(dl.RandomWalk(0.3), dl.Gaussian(0.5))
X = TRUTH.simulate(40, seed=3)[1]
LOG_2PI = np.log(2 * np.pi)


def normal(x, z, scale):
    return -0.5 * ((x - z) / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI


def belief(value):
    return -0.5 * (jnp.log(value) / 2.0) ** 2 - jnp.log(value)


def scale():
    return dl.learn(0.4, positive=True, prior=belief)


def agree(one, other, place, other_place):
    """Two fits that found the same numbers and the same path."""
    # Fits of the path end when a step gains less than 1e-6 nats, from starts that may differ.
    np.testing.assert_allclose(one.elbo, other.elbo, rtol=2e-6)
    np.testing.assert_allclose(
        one.parameters[place].mean, other.parameters[other_place].mean, rtol=1e-3, atol=1e-9
    )
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-3, atol=1e-3)


@pytest.fixture(scope="module")
def built_in():
    return dl.fit(dl.Model(dl.RandomWalk(0.3), dl.Gaussian(scale())), X, parameters="maximise")


FUNCTIONS = {
    "a dict": (lambda p: p["scale"], lambda: {"scale": scale()}, "likelihood.scale"),
    "dicts within dicts": (
        lambda p: p["noise"]["scale"] * p["one"],
        lambda: {"noise": {"scale": scale()}, "one": 1.0},
        "likelihood.noise.scale",
    ),
    "a list": (lambda p: p["scales"][1], lambda: {"scales": [9.0, scale()]}, "likelihood.scales[1]"),
    "a single number": (lambda p: p, scale, "likelihood.params"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_number_of_a_likelihood_function_is_learnt_like_that_of_a_built_in_one(built_in, name):
    get, params, place = FUNCTIONS[name]
    likelihood = dl.Likelihood(lambda x, z, p: normal(x, z, get(p)), params=params())
    post = dl.fit(dl.Model(dl.RandomWalk(0.3), likelihood), X, parameters="maximise")
    agree(post, built_in, place, "likelihood.scale")


def test_a_number_of_a_markov_prior_is_learnt_like_that_of_a_built_in_one():
    def initial(z, p):
        return normal(z, 0.0, 1.0)

    def transition(z, previous, dt, p):
        return normal(z, previous, p["steps"][0] * jnp.sqrt(dt))

    prior = dl.MarkovPrior(initial, transition, params={"steps": [scale()]})
    post, expected = (
        dl.fit(dl.Model(prior, dl.Gaussian(0.5)), X, parameters="maximise")
        for prior in (prior, dl.RandomWalk(scale(), initial_scale=1.0))
    )
    agree(post, expected, "prior.steps[0]", "prior.scale")


def test_an_array_of_numbers_in_a_function_is_learnt_like_that_of_a_built_in_one():
    def several():
        return dl.learn([0.4, 0.4], positive=True, prior=belief)

    x, walk = np.stack([X, 2 * X[::-1]], axis=1), dl.RandomWalk(0.3, shape=(2,))
    own = dl.Likelihood(lambda x, z, p: jnp.sum(normal(x, z, p["scale"])), params={"scale": several()})
    post, expected = (
        dl.fit(dl.Model(walk, part), x, parameters="maximise") for part in (own, dl.Gaussian(several()))
    )
    agree(post, expected, "likelihood.scale", "likelihood.scale")


def test_one_mark_in_two_places_is_learnt_as_one_number_with_one_prior():
    one = scale()
    tied = dl.fit(dl.Model(dl.RandomWalk(scale=one), dl.Gaussian(scale=one)), X)
    grid = np.geomspace(0.2, 1.2, 40)
    by_hand = [
        dl.fit(dl.Model(dl.RandomWalk(s), dl.Gaussian(s)), X).elbo + float(belief(s)) + np.log(s)
        for s in grid
    ]
    weights = np.exp(np.array(by_hand) - max(by_hand))
    expected = np.sum(weights * grid) / weights.sum()
    assert list(tied.parameters) == ["prior.scale", "likelihood.scale"]
    assert tied.parameters["prior.scale"] is tied.parameters["likelihood.scale"]
    np.testing.assert_allclose(tied.parameters["prior.scale"].mean, expected, rtol=2e-3)
    assert float(tied.model.prior.scale) == float(tied.model.likelihood.scale)
    assert tied.forecast(2).observations(3).shape == (3, 2)


def test_one_mark_in_two_places_survives_a_file(tmp_path):
    one = scale()
    post = dl.fit(dl.Model(dl.RandomWalk(scale=one), dl.Gaussian(scale=one)), X, parameters="maximise")
    post.save(tmp_path / "post")
    again = dl.load(tmp_path / "post")
    np.testing.assert_array_equal(again.forecast(3).sd, post.forecast(3).sd)


@pytest.mark.parametrize("shared", [True, False])
def test_a_panel_learns_numbers_of_functions_and_in_two_places(shared):
    one = scale()
    likelihood = dl.Likelihood(lambda x, z, p: normal(x, z, p["a"][0]), params={"a": [one]}, elementwise=True)
    x = np.stack([X, X[::-1]], axis=1)
    options = {"shared": shared, "parameters": "maximise"}
    panel = dl.fit(dl.Model(dl.RandomWalk(one), likelihood), x, **options)
    expected = dl.fit(dl.Model(dl.RandomWalk(one), dl.Gaussian(one)), x, **options)
    np.testing.assert_allclose(panel.mean, expected.mean, rtol=1e-6, atol=1e-6)
    found = panel.parameters if shared else panel.parameters[0]
    assert list(found) == ["prior.scale", "likelihood.a[0]"]
