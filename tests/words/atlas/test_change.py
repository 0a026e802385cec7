import numpy as np
import pytest
from scipy.stats import norm, ortho_group

from driftline.words.atlas.change import (
    common_rotation,
    displacement_variance,
    log_bayes_factor,
    probability_of_change,
)
from support.atlases import procrustes


def test_the_rotation_is_procrustes():
    rng = np.random.default_rng(0)
    first, second, weights = rng.standard_normal((9, 4)), rng.standard_normal((9, 4)), rng.uniform(0, 2, 9)
    expected = procrustes(first, second, weights).T
    np.testing.assert_allclose(common_rotation(first, second, weights), expected, atol=1e-12)


def test_a_common_rotation_is_found_and_words_without_weight_do_not_matter():
    rng = np.random.default_rng(1)
    turn = ortho_group.rvs(4, random_state=2)
    first = rng.standard_normal((12, 4))
    second = first @ turn.T
    second[:3] = 50.0
    weights = np.array([0.0] * 3 + [1.0] * 9)
    np.testing.assert_allclose(common_rotation(first, second, weights), turn, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_directions_of_which_no_word_knows_anything_are_not_turned(dtype, atol):
    first = np.random.default_rng(8).standard_normal((3, 100)).astype(dtype)
    still = common_rotation(first, first, np.ones(3, dtype))
    np.testing.assert_allclose(still, np.eye(100), atol=1e-12)
    # A turn in the plane of two of the words, and nowhere else.
    plane = np.linalg.qr(first[:2].T)[0]
    turn = np.eye(100) + plane @ (ortho_group.rvs(2, random_state=9) - np.eye(2)) @ plane.T
    found = common_rotation(first, (first @ turn.T).astype(dtype), np.ones(3, dtype))
    np.testing.assert_allclose(found, turn, atol=atol)


def test_the_variance_of_a_displacement_is_that_of_the_joint_gaussian():
    rng = np.random.default_rng(3)
    var_first, var_second = rng.uniform(0.5, 2.0, (2, 5, 3))
    covariance = rng.uniform(-0.4, 0.4, (5, 3))
    turn = ortho_group.rvs(3, random_state=4)
    contrast = np.hstack([-turn, np.eye(3)])
    for i, found in enumerate(displacement_variance(var_first, var_second, covariance, turn)):
        joint = np.diag(np.concatenate([var_first[i], var_second[i]]))
        joint[:3, 3:] = joint[3:, :3] = np.diag(covariance[i])
        np.testing.assert_allclose(found, np.diag(contrast @ joint @ contrast.T), rtol=1e-12)


def seen(displacement, prior, noise):
    """Posterior of a displacement that is seen with noise."""
    variance = 1 / (1 / prior + 1 / noise)
    return variance / noise * displacement, variance


def test_the_bayes_factor_is_the_ratio_of_the_evidences():
    rng = np.random.default_rng(5)
    prior, noise = 0.3, rng.uniform(0.01, 1.0, (6, 4))
    sight = rng.standard_normal((6, 4))
    mean, variance = seen(sight, prior, noise)
    change, none = norm(0, np.sqrt(prior + noise)), norm(0, np.sqrt(noise))
    expected = (change.logpdf(sight) - none.logpdf(sight)).sum(1)
    np.testing.assert_allclose(log_bayes_factor(mean, variance, prior), expected, rtol=1e-10)


def test_unchanged_words_are_called_no_more_often_than_stated():
    rng = np.random.default_rng(6)
    num, threshold = 20_000, 0.95
    for prior, noise in ((0.05, 0.05), (0.5, 0.02), (0.02, 0.5)):
        sights = rng.standard_normal((num, 3)) * np.sqrt(noise)
        factors = log_bayes_factor(*seen(sights, prior, np.full((num, 3), noise)), prior)
        called = (probability_of_change(factors, 0.5) >= threshold).mean()
        rate = (1 - threshold) / threshold
        assert called <= rate + 5 * np.sqrt(rate / num)


def test_changed_words_are_found():
    sights = np.random.default_rng(7).standard_normal((500, 20)) * np.sqrt(0.5 + 0.05)
    factors = log_bayes_factor(*seen(sights, 0.5, np.full(sights.shape, 0.05)), 0.5)
    assert (probability_of_change(factors, 0.5) > 0.95).mean() > 0.99


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
def test_probabilities_are_bayes_rule(share):
    factors = np.array([-3.0, 0.0, 2.0])
    expected = share * np.exp(factors) / (share * np.exp(factors) + 1 - share)
    np.testing.assert_allclose(probability_of_change(factors, share), expected, rtol=1e-12)
    np.testing.assert_array_equal(probability_of_change(np.array([-1e5, 1e5]), share), [0.0, 1.0])
