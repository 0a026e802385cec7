import numpy as np
import pytest
from scipy.stats import norm, ortho_group

from driftline.words.atlas.change import (
    CommonMap,
    Displacements,
    common_map,
    displacements,
    log_bayes_factors,
    mixed,
    probability_of_change,
)
from driftline.words.paths.rotation import common_rotation
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


def posterior(sight, prior, noise):
    """Of a displacement that is seen with noise."""
    variance = 1 / (1 / prior + 1 / noise)
    return variance / noise * sight, np.broadcast_to(variance, sight.shape)


def no_map(dim):
    return CommonMap(np.eye(dim), np.zeros((dim, dim)))


def test_what_the_data_say_is_the_sight_and_its_noise():
    """The prior is taken out of the posterior, whatever it was for each word."""
    rng = np.random.default_rng(3)
    prior, noise = rng.uniform(0.1, 1.0, 9), rng.uniform(0.01, 1.0, (9, 4))
    first, sight = rng.standard_normal((2, 9, 4))
    mean, variance = posterior(0.1 * sight, prior[:, None], noise)
    found = displacements(first, first + mean, variance, prior, no_map(4))
    assert found.inflation == 1.0
    np.testing.assert_allclose(found.value, 0.1 * sight, rtol=1e-9)
    np.testing.assert_allclose(found.variance, noise, rtol=1e-9)


def test_a_common_map_and_what_is_not_known_of_it_are_taken_out():
    rng = np.random.default_rng(4)
    first, moved = rng.standard_normal((2, 9, 4))
    matrix = np.eye(4) + 0.3 * rng.standard_normal((4, 4))
    root = 0.1 * rng.standard_normal((4, 4))
    noise = np.full((9, 4), 0.2)
    variance = 1 / (1 / 0.5 + 1 / noise)
    second = first @ matrix.T + 0.01 * moved
    shared = CommonMap(matrix, root @ root.T)
    found = displacements(first, second, variance, np.full(9, 0.5), shared)
    np.testing.assert_allclose(found.value, 0.01 * moved * noise / variance, rtol=1e-6)
    for i in range(9):
        # By draws of the map's rows it would be the same: their covariance between what they multiply.
        expected = noise[i] + first[i] @ root @ root.T @ first[i]
        np.testing.assert_allclose(found.variance[i], expected, rtol=1e-9)


def test_where_the_data_say_nothing_there_is_no_evidence():
    first = np.zeros((20, 3))
    variance, prior = np.full((20, 3), 0.3), np.full(20, 0.3)
    found = displacements(first, first + 1e-9, variance, prior, no_map(3))
    assert (found.variance > 1e4).all()
    np.testing.assert_allclose(log_bayes_factors(found, np.array([0.1, 0.3, 9.0])), 0.0, atol=1e-3)


def test_the_bayes_factor_is_the_ratio_of_the_evidences():
    rng = np.random.default_rng(5)
    priors, noise = np.array([0.03, 0.3, 3.0]), rng.uniform(0.01, 1.0, (6, 4))
    sight = rng.standard_normal((6, 4))
    found = log_bayes_factors(Displacements(sight, noise, 1.0), priors)
    none = norm(0, np.sqrt(noise))
    each = []
    for prior in priors:
        change = norm(0, np.sqrt(prior + noise))
        each.append((change.logpdf(sight) - none.logpdf(sight)).sum(1))
    np.testing.assert_allclose(found, np.stack(each, 1), rtol=1e-10)
    # Of a mixture, that of the mean of the densities.
    np.testing.assert_allclose(mixed(found), np.log(np.mean(np.exp(each), axis=0)), rtol=1e-10)


PRIORS = np.array([0.005, 0.05, 0.5])


def probabilities(sights, own, noise, share=0.5):
    """As `Atlas.changed` has them: of words whose own prior is one of several, and no map."""
    mean, variance = posterior(sights, own, noise)
    first = np.zeros(sights.shape)
    found = displacements(first, mean, variance, np.full(len(sights), own), no_map(sights.shape[1]))
    return probability_of_change(mixed(log_bayes_factors(found, PRIORS)), share), found


@pytest.mark.parametrize(("own", "noise"), [(0.05, 0.05), (0.5, 0.02), (0.005, 0.5)])
def test_unchanged_words_are_called_no_more_often_than_stated(own, noise):
    num, threshold = 20_000, 0.95
    sights = np.random.default_rng(6).standard_normal((num, 3)) * np.sqrt(noise)
    called = (probabilities(sights, own, noise)[0] >= threshold).mean()
    rate = (1 - threshold) / threshold
    assert called <= rate + 5 * np.sqrt(rate / num)


def test_changed_words_are_found():
    sights = np.random.default_rng(7).standard_normal((500, 20)) * np.sqrt(0.05)
    sights[:100] *= np.sqrt(0.55 / 0.05)  # fewer than half, so that they are no bulk
    found = probabilities(sights, 0.5, 0.05)[0] > 0.95
    assert found[:100].mean() > 0.99
    assert found[100:].mean() < 0.06


def test_noise_that_the_model_does_not_know_is_allowed_for():
    """With twice the noise, the bulk of words tells of it, and unchanged words are not called for it."""
    rng, num, noise = np.random.default_rng(8), 4000, 0.05
    sights = rng.standard_normal((num, 3)) * np.sqrt(2 * noise)
    found, seen = probabilities(sights, 0.5, noise)
    # The median of 12,000 squares has a standard error of 1.6 %.
    assert seen.inflation == pytest.approx(2.0, rel=0.08)
    rate = 0.05 / 0.95
    assert (found >= 0.95).mean() <= rate + 5 * np.sqrt(rate / num)
    # Taken at its word, the model would have called many.
    plain = Displacements(seen.value, seen.variance / seen.inflation, 1.0)
    blind = probability_of_change(mixed(log_bayes_factors(plain, PRIORS)), 0.5)
    assert (blind >= 0.95).mean() > (found >= 0.95).mean()
    # Noise as the model has it is left alone.
    right = probabilities(sights / np.sqrt(2), 0.5, noise)[1]
    assert right.inflation == pytest.approx(1.0, abs=0.08)


def test_a_planted_map_is_found_through_noise():
    rng = np.random.default_rng(9)
    first = rng.standard_normal((400, 5))
    matrix = np.eye(5) + 0.1 * rng.standard_normal((5, 5))
    noise = np.full((400, 5), 0.02)
    second = first @ matrix.T + rng.standard_normal((400, 5)) * np.sqrt(noise)
    found = common_map(first, second, noise)
    errors = (found.matrix - matrix) / np.sqrt(np.diag(found.covariance))[None, :]
    # Least squares has this error; the ridge is next to nothing for a map of this size.
    expected = np.sqrt(np.diag(0.02 * np.linalg.inv(first.T @ first)))
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), expected, rtol=0.3)
    assert np.abs(errors).max() < 4.5
    assert 0.6 < errors.std() < 1.4


def test_a_few_words_that_move_do_not_make_a_map():
    rng = np.random.default_rng(10)
    first = rng.standard_normal((200, 4))
    matrix = np.eye(4) + 0.1 * rng.standard_normal((4, 4))
    second = first @ matrix.T + 0.05 * rng.standard_normal((200, 4))
    noise = np.full((200, 4), 0.05**2)
    calm = common_map(first, second, noise).matrix
    second[:8] += np.array([3.0, -2.0, 0.0, 1.0])  # all of them the same way
    found = common_map(first, second, noise).matrix
    plain = np.linalg.lstsq(first, second, rcond=None)[0].T
    assert np.abs(found - calm).max() < 0.25 * np.abs(plain - calm).max()
    assert np.abs(found - matrix).max() < 0.05
    apart = second - first @ found.T
    assert np.abs(apart[:8] - np.array([3.0, -2.0, 0.0, 1.0])).max() < 0.4


@pytest.mark.parametrize("num_words", [3, 12, 300])
def test_where_there_is_no_map_none_is_found(num_words):
    """Also with fewer words than dimensions, which any map could be fitted to."""
    rng = np.random.default_rng(11)
    first = rng.standard_normal((num_words, 20))
    noise = np.full((num_words, 20), 0.1)
    still = common_map(first, first, noise)
    np.testing.assert_allclose(still.matrix, np.eye(20), atol=1e-12)
    found = common_map(first, first + rng.standard_normal(first.shape) * np.sqrt(noise), noise)
    off = found.matrix - np.eye(20)
    # What noise could make of a map without a ridge is far larger.
    fitted = np.linalg.lstsq(first, rng.standard_normal(first.shape) * np.sqrt(0.1), rcond=None)[0]
    assert np.abs(off).max() < 0.2 * np.abs(fitted).max()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
def test_probabilities_are_bayes_rule(share):
    factors = np.array([-3.0, 0.0, 2.0])
    expected = share * np.exp(factors) / (share * np.exp(factors) + 1 - share)
    np.testing.assert_allclose(probability_of_change(factors, share), expected, rtol=1e-12)
    np.testing.assert_array_equal(probability_of_change(np.array([-1e5, 1e5]), share), [0.0, 1.0])
