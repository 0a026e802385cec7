"""Fits that are right and fits that are wrong, each in another way, for whoever judges them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

import driftline as dl
from driftline.families import GaussMarkov

STEPS = 60


def _noise(seed, size=STEPS):
    return np.random.default_rng(seed).normal(size=size)


WALK = np.cumsum(0.2 * _noise(0))
LEVEL = WALK + 0.3 * _noise(1)
COUNTS = np.random.default_rng(2).poisson(np.exp(1.0 + WALK)).astype(float)


def _poisson():
    return dl.fit(dl.Model(dl.RandomWalk(0.2), dl.Poisson()), COUNTS)


def _coupled(structure):
    """Only the sum of two elements is seen: their difference is as free as the prior leaves it."""
    model = dl.Model(
        dl.RandomWalk(0.1, shape=(2,), initial_scale=3.0),
        dl.Likelihood(lambda x, z: -0.5 * ((x - z[0] - z[1]) / 0.3) ** 2),
    )
    return dl.fit(model, LEVEL, structure=structure)


def _volatile(num_steps, scale=0.3, decay=0.95):
    model = dl.Model(dl.AR1(0.0, decay, scale), dl.LogVolatility())
    return dl.fit(model, model.simulate(num_steps, seed=3)[1])


def _rescaled(post, factor):
    with jax.enable_x64(True):
        return dataclasses.replace(
            post, q=GaussMarkov(post.q.mean, post.q.diag * factor, post.q.upper * factor)
        )


def _shifted(post, share):
    with jax.enable_x64(True):
        mean = post.q.mean + share * jnp.asarray(post.sd)
        return dataclasses.replace(post, q=GaussMarkov(mean, post.q.diag, post.q.upper))


def _tilted_in_time(post):
    """Right at every step to a quarter of a standard deviation, and wrong in the sum of all."""
    return _shifted(post, 0.24)


def _mirrored():
    """A path that is seen by its square has a mirror image, and a fit sees one of the two."""
    prior = dl.MarkovPrior(
        initial=lambda z: -0.5 * z**2,
        transition=lambda z, before, dt: -0.5 * ((z - 0.9 * before) / 0.3) ** 2,
        start=2.0,
    )
    likelihood = dl.Likelihood(lambda x, z: -0.5 * ((x - z**2) / 0.5) ** 2, elementwise=True)
    return dl.fit(dl.Model(prior, likelihood), (2.0 + 0.3 * WALK) ** 2)


def _banana():
    """Two elements whose product is seen: a bent ridge, which no Gaussian follows."""
    model = dl.Model(
        dl.RandomWalk(0.05, shape=(2,), initial_scale=2.0, initial_mean=1.5),
        dl.Likelihood(lambda x, z: -0.5 * ((x - z[0] * z[1]) / 0.05) ** 2),
    )
    return dl.fit(model, np.full(20, 2.0))


RIGHT = {
    "linear and Gaussian": lambda: dl.fit(dl.Model(dl.RandomWalk(0.2), dl.Gaussian(0.3)), LEVEL),
    "counts": _poisson,
    "zeros and ones": lambda: dl.fit(
        dl.Model(dl.RandomWalk(0.2), dl.Bernoulli()), (_noise(4) < WALK).astype(float)
    ),
    "volatility": lambda: _volatile(STEPS),
    "a long volatility": lambda: _volatile(1500),
    "outliers": lambda: dl.fit(dl.Model(dl.RandomWalk(0.2), dl.StudentT(4.0, 0.3)), LEVEL),
    "uneven times": lambda: dl.fit(
        dl.Model(dl.OrnsteinUhlenbeck(rate=0.3, scale=0.5), dl.Poisson()),
        COUNTS,
        times=np.cumsum(0.01 + np.random.default_rng(5).exponential(size=STEPS)),
    ),
    "coupled elements in a block": lambda: _coupled("block"),
    "two series": lambda: dl.fit(
        dl.Model(dl.RandomWalk(0.2, shape=(2,)), dl.Gaussian(0.3)), np.stack([LEVEL, LEVEL[::-1]], axis=1)
    ),
    "a learnt scale": lambda: dl.fit(
        dl.Model(dl.RandomWalk(dl.learn(0.2, positive=True)), dl.Poisson()), COUNTS
    ),
}
WRONG = {
    "coupled elements in chains": lambda: _coupled("chains"),
    "a mirror image is missed": _mirrored,
    "too narrow": lambda: _rescaled(_poisson(), 1.6),
    "too wide": lambda: _rescaled(_poisson(), 1 / 1.6),
    "a wrong mean": lambda: _shifted(_poisson(), 0.6),
    "wrong in a sum": lambda: _tilted_in_time(_poisson()),
    "not converged": lambda: dl.fit(dl.Model(dl.RandomWalk(0.2), dl.Poisson()), COUNTS, max_iterations=2),
    "without correlations": lambda: dl.fit(
        dl.Model(dl.RandomWalk(0.05), dl.Gaussian(1.0)), LEVEL, method="mean-field"
    ),
    "skewed": lambda: _volatile(STEPS, scale=3.0, decay=0.5),
    "a bent ridge": _banana,
}
