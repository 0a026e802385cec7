"""How well chains have mixed, against ArviZ, and against what is known of autoregressive chains."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from driftline.infer.sampling import mixing


def autoregressive(decay, chains=4, draws=400, seed=0, elements=3):
    """Stationary chains with unit variance, (chains, draws, elements)."""
    noise = np.random.default_rng(seed).standard_normal((chains, draws, elements))
    found = np.empty_like(noise)
    found[:, 0] = noise[:, 0]
    for t in range(1, draws):
        found[:, t] = decay * found[:, t - 1] + np.sqrt(1 - decay**2) * noise[:, t]
    return found


def tied(seed=1):
    """Draws of which a third are zero: rounded, and cut off below."""
    return np.maximum(np.round(autoregressive(0.6, seed=seed), 1), -0.3)


CASES = {
    "independent": autoregressive(0.0),
    "correlated": autoregressive(0.9),
    "alternating": autoregressive(-0.7),
    "an odd number of draws": autoregressive(0.5, draws=301),
    "one chain": autoregressive(0.5, chains=1),
    "few draws": autoregressive(0.3, draws=20),
    "ties": tied(),
    "skewed": np.exp(2.0 * autoregressive(0.7)),
    "one chain apart": autoregressive(0.3) + np.array([0.0, 0.0, 0.0, 2.0])[:, None, None],
    "one chain wider": autoregressive(0.3) * np.array([1.0, 1.0, 1.0, 4.0])[:, None, None],
}
# ArviZ does not make the last pair of correlations monotone, and leaves out some of the lags near the end.
# That shows where correlations last, or where there are only five pairs of them; elsewhere all digits agree.
LOOSE = {"correlated": 0.01, "few draws": 0.25, "one chain apart": 0.02, "one chain wider": 0.02}


def by_arviz(function, draws, **options):
    """What ArviZ says of every element, which it takes one at a time."""
    return [function(np.ascontiguousarray(draws[..., i]), **options) for i in range(draws.shape[2])]


@pytest.mark.parametrize("name", [name for name in CASES if name != "one chain"])  # of which ArviZ says none
def test_r_hat_is_that_of_arviz(name):
    expected = by_arviz(array_stats.rhat, CASES[name], method="rank")
    np.testing.assert_allclose(mixing.r_hat(CASES[name]), expected, rtol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_effective_size_of_the_bulk_is_that_of_arviz(name):
    expected = by_arviz(array_stats.ess, CASES[name], method="bulk")
    np.testing.assert_allclose(mixing.effective_size(CASES[name]), expected, rtol=LOOSE.get(name, 1e-8))


@pytest.mark.parametrize("name", CASES)
def test_the_effective_size_of_the_tails_is_that_of_arviz(name):
    expected = by_arviz(array_stats.ess, CASES[name], method="tail", prob=(0.05, 0.95))
    np.testing.assert_allclose(mixing.tail_size(CASES[name]), expected, rtol=LOOSE.get(name, 1e-8))


@pytest.mark.parametrize("name", CASES)
def test_the_error_of_the_mean_is_that_of_arviz(name):
    expected = by_arviz(array_stats.mcse, CASES[name], method="mean")
    np.testing.assert_allclose(mixing.error_of_mean(CASES[name]), expected, rtol=LOOSE.get(name, 1e-8))


@pytest.mark.parametrize("decay", [-0.5, 0.0, 0.5, 0.9])
def test_effective_sizes_are_those_of_autoregressive_chains(decay):
    # The mean of N such draws has the variance of N (1 - decay) / (1 + decay) independent ones.
    draws = autoregressive(decay, draws=5000, elements=40)
    sizes = draws[..., 0].size / mixing._plain_size(mixing._halves(draws))
    # Estimates of 40 elements scatter by some 10 % each at the worst: four errors of their mean.
    assert abs(sizes.mean() / ((1 + decay) / (1 - decay)) - 1) < 4 * 0.1 / np.sqrt(40)


@pytest.mark.parametrize("decay", [0.0, 0.8])
def test_errors_of_means_are_as_large_as_means_are_wrong(decay):
    draws = autoregressive(decay, draws=500, elements=1000)  # whose mean is zero
    scores = draws.mean(axis=(0, 1)) / mixing.error_of_mean(draws)
    # The square of a thousand normal scores is one to sqrt(2 / 1000) = 0.045, plus the error of the errors.
    assert abs(np.mean(scores**2) - 1) < 4 * 0.045 + 0.05


def test_constant_draws_are_one_effective_draw_and_agree():
    draws = np.full((4, 100, 2), 3.7)
    np.testing.assert_array_equal(mixing.r_hat(draws), 1.0)
    np.testing.assert_array_equal(mixing.effective_size(draws), 1.0)
    np.testing.assert_array_equal(mixing.tail_size(draws), 1.0)
    assert mixing.error_of_mean(draws).max() < 1e-12  # the mean of such draws is rounded


def test_chains_that_stand_still_at_different_places_never_agree():
    draws = np.repeat(np.arange(4.0)[:, None], 100, axis=1)[..., None]
    assert mixing.r_hat(draws)[0] > 1e6


@pytest.mark.parametrize("name", ["one chain apart", "one chain wider"])
def test_a_chain_that_differs_is_found(name):
    assert mixing.r_hat(autoregressive(0.3)).max() < 1.05
    assert mixing.r_hat(CASES[name]).min() > 1.1


def test_ties_share_their_rank():
    scores = mixing._ranks(np.array([[[1.0], [2.0], [2.0], [5.0]]]))[0, :, 0]
    assert scores[1] == scores[2] == 0.0
    np.testing.assert_allclose(scores[0], -scores[3])
