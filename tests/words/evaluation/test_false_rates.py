"""Rates of false discoveries, against their definition in loops."""

import numpy as np
import pytest

from driftline.words.evaluation.false_rates import expected, false_rates


def by_definition(scores, shuffled):
    """q-values by two loops."""
    shuffled = [each for each in shuffled if len(each)]

    def ratio(s):
        false = 1 + sum(len(scores) / len(each) * sum(x >= s for x in each) for each in shuffled)
        return min(1, false / len(shuffled) / sum(x >= s for x in scores))

    return [min(ratio(lower) for lower in scores if lower <= s) for s in scores]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2, 40])
def test_they_are_those_of_the_definition(seed, size):
    rng = np.random.default_rng(seed)
    scores = np.round(rng.standard_normal(size) + (rng.random(size) < 0.3) * 3, 1)  # of which some are equal
    shuffled = [np.round(rng.standard_normal(many), 1) for many in (30, 50, 0, 37, 1)]
    found = false_rates(scores, shuffled)
    np.testing.assert_allclose(found.rates, by_definition(scores, shuffled), rtol=1e-12)
    assert (found.rates > 0).all()
    assert (found.rates <= 1).all()


def test_a_higher_score_never_has_a_higher_rate():
    rng = np.random.default_rng(1)
    scores, shuffled = rng.standard_normal(200) + 0.5, list(rng.standard_normal((7, 200)))
    rates = false_rates(scores, shuffled).rates[np.argsort(scores)]
    assert (np.diff(rates) <= 0).all()
    assert rates[-1] < rates[0]


def test_what_no_shuffle_reaches_is_one_in_shuffles_times_words():
    found = false_rates(np.array([9.0, 8.0, 7.0, 0.0]), [np.zeros(4)] * 5)
    np.testing.assert_allclose(found.rates, [1 / 15, 1 / 15, 1 / 15, 1.0], rtol=1e-12)
    np.testing.assert_allclose(found.errors[:3], [1 / 15] * 3, rtol=1e-12)


def test_shuffles_with_fewer_words_are_scaled_up():
    # One of 2, and 4 of 8: half of the 6 words in both.
    shuffled = [np.array([1.0, 0.0]), np.repeat([1.0, 0.0], 4)]
    found = false_rates(np.array([1.0, 1, 1, 1, 1, 0]), shuffled)
    np.testing.assert_allclose(found.rates, [(1 + 3 + 3) / 2 / 5] * 5 + [min(1, (1 + 12) / 2 / 6)])


def test_errors_are_those_of_a_mean_over_shuffles():
    scores = np.arange(10.0)
    shuffled = [np.arange(10.0) - lag for lag in (0, 2, 4, 9)]
    found = false_rates(scores, shuffled)
    order = np.array([[sum(x >= s for x in each) for s in scores] for each in shuffled], float)
    errors = np.maximum(order.std(0, ddof=1) / 2, 1 / 4) / np.arange(10, 0, -1)
    ratio = np.minimum((1 + order.sum(0)) / 4 / np.arange(10, 0, -1), 1)
    own = ratio == found.rates
    assert own.sum() > 3
    np.testing.assert_allclose(found.errors[own], errors[own], rtol=1e-12)


def test_where_all_is_chance_rates_are_high_and_where_not_the_rate_holds():
    """The share of false words in lists cut at a rate of 0.2 is at most 0.2, but for chance."""
    rng = np.random.default_rng(5)
    shares, found_any = [], 0
    for _ in range(300):
        changed = np.arange(100) < 20
        scores = rng.standard_normal(100) + 3 * changed
        listed = false_rates(scores, list(rng.standard_normal((20, 100)))).rates <= 0.2
        shares.append((listed & ~changed).sum() / max(listed.sum(), 1))
        noise = false_rates(rng.standard_normal(100), list(rng.standard_normal((20, 100)))).rates
        found_any += bool((noise <= 0.2).any())
    # At most 20 % of lists of noise hold a word, and the mean share is at most 0.2; four standard errors.
    assert found_any / 300 <= 0.2 + 4 * np.sqrt(0.16 / 300)
    assert 0.05 < np.mean(shares) <= 0.2 + 4 * np.std(shares) / np.sqrt(300)


def test_one_call_is_added_to_all_shuffles():
    mean, error = expected(np.array([0.0, 0, 0, 0]))
    assert (mean, error) == (0.25, 0.25)
    mean, error = expected(np.array([1.0, 3, 1, 3]))
    assert mean == 9 / 4
    assert error == pytest.approx(np.std([1, 3, 1, 3], ddof=1) / 2)
