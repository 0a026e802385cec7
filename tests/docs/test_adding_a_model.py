"""The examples for authors of models, built as if they stood in the modules that they are meant for."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import driftline as dl
from driftline.models import likelihoods, priors
from support.smoothing import chain_moments

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "adding-a-model.md"


@pytest.fixture(scope="module")
def examples():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    names = []
    for block, home in zip(blocks, (priors, likelihoods), strict=True):
        namespace = dict(vars(home))
        exec(block, namespace)
        names.append(namespace)
    return names[0]["DriftingWalk"], names[1]["Exponential"]


def test_the_prior_is_a_walk_with_a_trend(examples):
    drifting_walk, _ = examples
    gaps = np.array([1.0, 0.5, 2.0])
    prior, path = drifting_walk(drift=0.7, scale=0.4), np.array([0.1, 1.0, 0.8, 3.0])
    mean, covariance = chain_moments(0.0, 1.0, np.ones(3), 0.7 * gaps, 0.4 * np.sqrt(gaps))
    np.testing.assert_allclose(prior.mean_path(jnp.asarray(gaps)), mean, rtol=1e-12)
    expected = stats.multivariate_normal(mean, covariance).logpdf(path)
    np.testing.assert_allclose(prior.log_prob(jnp.asarray(path), jnp.asarray(gaps)), expected, rtol=1e-11)
    assert prior.in_continuous_time


def test_the_likelihood_is_that_of_waiting_times(examples):
    drifting_walk, exponential = examples
    z, x = np.array([-0.5, 0.0, 1.0]), np.array([0.3, 2.0, 0.0])
    terms = exponential().terms(jnp.asarray(x), jnp.asarray(z))
    np.testing.assert_allclose(terms, stats.expon(scale=np.exp(z)).logpdf(x), rtol=1e-12)
    model = dl.Model(drifting_walk(drift=0.1, scale=0.3), exponential())
    post = dl.fit(model, model.simulate(20, seed=1)[1])
    assert post.converged
    assert post.at([0.5]).mean.shape == (1,)
    with pytest.raises(ValueError, match="a waiting time is not negative"):
        dl.fit(model, [1.0, -1.0])
