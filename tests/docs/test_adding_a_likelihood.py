"""The page for authors of likelihoods does what it says."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import driftline as dl
from support import pages


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("likelihood"))
        module = pages.run_as_module("develop/adding-a-likelihood.md", "waiting_times")
        module.file = (tmp_path_factory.getbasetemp() / "likelihood0" / "waits.driftline").resolve()
        yield module


def test_the_likelihood_is_that_of_waiting_times(page):
    z, x = np.array([-0.5, 0.0, 1.0]), np.array([0.3, 2.0, 0.0])
    terms = page.Exponential(unit=3.0).terms(jnp.asarray(x), jnp.asarray(z))
    np.testing.assert_allclose(terms, stats.expon(scale=3.0 * np.exp(z)).logpdf(x), rtol=1e-12)


def test_the_fit_is_the_one_that_was_saved(page):
    assert page.post.converged
    np.testing.assert_array_equal(page.again.mean, page.post.mean)
    assert page.again.model.likelihood.unit == 60.0
    assert type(page.again.model.likelihood) is page.Exponential
    assert page.again.forecast(2).mean.shape == (2,)


def test_impossible_observations_are_refused_in_the_class_s_own_words(page):
    with pytest.raises(ValueError, match="a waiting time is not negative"):
        dl.fit(page.model, [1.0, -1.0])


def test_a_program_that_does_not_know_the_class_is_told_to_import_it(page):
    code = f"import driftline as dl; dl.load({str(page.file)!r})"
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True).stderr
    assert "'waiting_times.Exponential'" in told
    assert "import waiting_times before you load the file" in told
