"""Lists of changed words, held against fits of shuffled counts."""

import dataclasses

import numpy as np
import pytest

from driftline import words
from driftline.words.evaluation.shuffled_dates import NullProgress, null
from support.atlases import known_atlas

PRESENT = np.random.default_rng(3).random((30, 5)) < 0.9
PRESENT[:, [0, 4]] = True
FITTED = {"dim": 6, "drift": 0.02, "progress": False}


@pytest.fixture(scope="module")
def atlas():
    return known_atlas(PRESENT, dim=3, seed=0, noise=0.05).atlas


@pytest.fixture(scope="module")
def counts(atlas):
    """Counts of the same words and dates; what is in them is not looked at."""
    text = " ".join(atlas.vocabulary)
    corpus = [(str(date), f"{text} {i}") for date in atlas.dates for i in range(4)]
    return words.count(corpus, list(atlas.vocabulary), parts=4, progress=False)


class Refit:
    """Gives one prepared atlas after another, and remembers what it was asked to fit."""

    def __init__(self, many, **changes):
        self.atlases = [known_atlas(PRESENT, dim=3, seed=10 + b, noise=0.5).atlas for b in range(many)]
        self.atlases = [dataclasses.replace(each, **changes) for each in self.atlases]
        self.seen = []

    def __call__(self, counts):
        self.seen.append(counts)
        return self.atlases[len(self.seen) - 1]


def ends(atlas):
    return atlas.dates[0], atlas.dates[-1]


def test_rates_follow_from_the_lists_of_all_fits(counts, atlas):
    refit = Refit(4)
    found = null(counts, atlas, *ends(atlas), times=4, seed=7, refit=refit, probability=0.5, min_count=60)
    assert [each.provenance["shuffled"] for each in refit.seen] == [[7], [8], [9], [10]]
    assert refit.seen[1].fingerprint == counts.shuffled(8).fingerprint
    options = {"n": 30, "probability": 0.5, "min_count": 60}
    real = atlas.changed(*ends(atlas), **options)
    lists = [each.changed(*ends(atlas), **options) for each in refit.atlases]
    assert found.words == real.words
    assert len({each.num_compared for each in [real, *lists]}) > 2  # so that scaling matters
    for word, factor, rate in zip(real.words, real.log_factors, found.rates, strict=True):
        ratios = []
        for lower in real.log_factors[real.log_factors <= factor]:
            false = 1.0
            for each in lists:
                false += (each.log_factors >= lower).sum() * real.num_compared / each.num_compared
            ratios.append(min(1, false / 4 / (real.log_factors >= lower).sum()))
        assert rate == pytest.approx(min(ratios), rel=1e-12), word
    assert (found.num_called, found.num_compared) == (real.num_changed, real.num_compared)
    np.testing.assert_array_equal(found.null_called, [each.num_changed for each in lists])
    np.testing.assert_array_equal(found.null_compared, [each.num_compared for each in lists])
    scaled = [each.num_changed * real.num_compared / each.num_compared for each in lists]
    assert abs(sum(scaled) - found.null_called.sum()) > 0.1
    assert found.false_calls[0] == pytest.approx((1 + sum(scaled)) / 4, rel=1e-12)
    assert found.false_calls[1] == pytest.approx(max(np.std(scaled, ddof=1) / 2, 1 / 4), rel=1e-12)
    assert found.rate == pytest.approx(min(1, found.false_calls[0] / real.num_changed), rel=1e-12)


def test_without_probabilities_distances_rank(counts, atlas):
    def points(each):
        paths = dataclasses.replace(each.words, variance=None, lag_covariance=None)
        return dataclasses.replace(each, words=paths)

    refit = Refit(2)
    refit.atlases = [points(each) for each in refit.atlases]
    found = null(counts, points(atlas), *ends(atlas), times=2, refit=refit)
    real = points(atlas).changed(*ends(atlas), n=30)
    np.testing.assert_array_equal(found.scores, real.distances)
    lists = [each.changed(*ends(atlas), n=30) for each in refit.atlases]
    scaled = [
        (each.distances >= found.scores[0]).sum() * len(found.words) / each.num_compared for each in lists
    ]
    assert found.rates[0] <= min(1, (1 + sum(scaled)) / 2)
    assert found.false_calls is found.rate is found.num_called is None
    assert "30 words compared, ranked by distance" in str(found)
    assert "distance" in found.to_frame()
    with pytest.raises(ValueError, match="a method with other probabilities"):
        null(counts, atlas, *ends(atlas), times=2, refit=lambda _: points(atlas))


def test_shuffles_without_a_word_to_compare_are_left_out(counts, atlas):
    refit, few = Refit(3), Refit(3)
    few.atlases[1] = dataclasses.replace(few.atlases[1], occurrences=np.ones_like(atlas.occurrences))
    found = null(counts, atlas, *ends(atlas), times=3, refit=few)
    refit.atlases.pop(1)
    other = null(counts, atlas, *ends(atlas), times=2, refit=refit)
    np.testing.assert_array_equal(found.rates, other.rates)
    assert found.false_calls == other.false_calls
    assert found.null_compared[1] == found.null_called[1] == 0
    assert found.times == 2
    rare = Refit(2, occurrences=np.ones_like(atlas.occurrences))
    with pytest.raises(ValueError, match=r"of 2 shuffles, 0 have words with support.*; lower min_count="):
        null(counts, atlas, *ends(atlas), times=2, refit=rare)


def test_it_is_a_table_that_tells_what_shuffles_can(counts, atlas):
    still = known_atlas(PRESENT, dim=3, seed=1, noise=0.5, unmoved=(30, 0, 4)).atlas
    found = null(counts, atlas, *ends(atlas), times=3, refit=lambda _: still, probability=0.999)
    assert not found.null_called.any()
    assert "less than 1 in 3 of a word expected by chance" in found.title()
    assert found.false_calls == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (found.rates > 0).all()
    short = found.head(4)
    assert str(short).count("\n") == 5
    assert short.title() == found.title()
    frame = found.to_frame()
    np.testing.assert_allclose(frame["false_percent"], 100 * found.rates)
    assert list(frame.index) == list(found.words)
    rates = found.rates_of([found.words[3], "nothing", found.words[0]])
    np.testing.assert_array_equal(rates, [found.rates[3], np.nan, found.rates[0]])


def test_progress_is_told_and_ctrl_c_stops(counts, atlas):
    told, refit = [], Refit(3)
    null(counts, atlas, *ends(atlas), times=3, refit=refit, progress=told.append)
    lists = [each.changed(*ends(atlas)) for each in refit.atlases]
    expected = [NullProgress(b, 3, each.num_compared, each.num_changed) for b, each in enumerate(lists, 1)]
    assert told == expected

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        null(counts, atlas, *ends(atlas), refit=stop)


def test_what_cannot_be_a_null_is_refused(counts, atlas):
    for times in (1, 2.0, True):
        with pytest.raises(ValueError, match=f"times={times}; a whole number of at least 2"):
            null(counts, atlas, *ends(atlas), times=times, refit=Refit(0))
    other = dataclasses.replace(counts, vocabulary=counts.vocabulary[::-1])
    with pytest.raises(ValueError, match="other words than the counts"):
        null(other, atlas, *ends(atlas), refit=Refit(0))
    later = Refit(2, dates=atlas.dates + np.timedelta64(1, "D"))
    with pytest.raises(ValueError, match=f"has no step {atlas.dates[0]}; refit= must not leave it out"):
        null(counts, atlas, *ends(atlas), refit=later)
    with pytest.raises(ValueError, match="are both at the step"):
        null(counts, atlas, atlas.dates[0], atlas.dates[0], refit=Refit(0))


def documents(texts, length=200):
    """The same texts in pieces, all of the same date."""
    for date, text in texts:
        tokens = text.split()
        for begin in range(0, len(tokens), length):
            yield date, " ".join(tokens[begin : begin + length])


def test_planted_words_are_found_and_others_are_not():
    made = words.planted(num_steps=6, num_words=60, num_moved=2, tokens=6000)
    counts = words.count(documents(made.texts), vocabulary=60, parts=8, progress=False)
    atlas = words.fit(counts, **FITTED)
    found = null(
        counts, atlas, 1900, 1925, times=5, refit=lambda shuffled: words.fit(shuffled, **FITTED), window=0
    )
    moved = found.rates_of(made.moved)
    # If nothing in five shuffles moves as much as the two, 1 / (5 * 2); one word may in one of them.
    assert (moved <= 0.2).all()
    assert found.rates_of(set(counts.vocabulary) - set(made.moved)).mean() > 0.5
    assert found.null_compared.min() > 50
