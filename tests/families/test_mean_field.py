"""What the baseline family says about time: nothing."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from driftline.families import MeanField

EPS = np.finfo(np.float64).eps


@pytest.mark.parametrize("shape", [(1,), (6,), (6, 2)])
def test_log_prob_is_a_sum_of_univariate_log_densities(shape):
    rng = np.random.default_rng(0)
    mean, path, diag = *rng.standard_normal((2, *shape)), rng.uniform(0.5, 1.5, shape)
    q = MeanField(jnp.asarray(mean), jnp.asarray(diag))
    terms = scipy.stats.norm(mean, 1.0 / diag).logpdf(path)
    limit = 8 * terms.size * EPS * (np.abs(terms).sum() + terms.size)
    assert abs(float(q.log_prob(jnp.asarray(path))) - terms.sum()) <= limit


def test_steps_are_uncorrelated():
    q = MeanField(jnp.zeros((5, 2)), jnp.ones((5, 2)))
    np.testing.assert_array_equal(q.lag_covariances(), np.zeros((4, 2)))
