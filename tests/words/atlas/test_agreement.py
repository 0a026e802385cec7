"""How far fits agree, against loops over words and against SciPy."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import scipy.stats

from driftline.words.atlas import agreement as module
from driftline.words.atlas.agreement import agreement, closest, rank_correlation
from support.atlases import known_atlas

PRESENT = np.random.default_rng(3).random((40, 7)) < 0.7
PRESENT[:, [0, 3, 6]] = True
PRESENT[5] = False


@pytest.fixture(scope="module")
def atlas():
    return known_atlas(PRESENT, dim=4, seed=2, noise=0.3).atlas


def with_mean(atlas, mean, **changes):
    return dataclasses.replace(atlas, words=dataclasses.replace(atlas.words, mean=mean), **changes)


def turned(atlas):
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    return with_mean(atlas, atlas.words.mean @ rotation)


def noisy(atlas, seed, sd=0.15, **changes):
    noise = np.random.default_rng(seed).standard_normal(atlas.words.mean.shape)
    return with_mean(atlas, atlas.words.mean + sd * noise, **changes)


@pytest.mark.parametrize("other", [lambda atlas: atlas, turned])
def test_an_atlas_agrees_with_itself_however_it_is_turned(atlas, other):
    found = agreement([atlas, other(atlas)], n=5)
    assert found["share"] == 1
    assert found["change"]["rank_correlation"] == pytest.approx(1, abs=1e-12)
    assert found["elbo_difference"] == 0
    assert [one["date"] for one in found["neighbors"]] == [str(atlas.dates[t]) for t in (0, 3, 6)]


def test_it_is_the_mean_over_words_and_pairs_of_fits(atlas):
    fits = [atlas, noisy(atlas, 1, elbo=-4.0), noisy(atlas, 2, elbo=-1.5)]
    found = agreement(fits, n=5, min_count=20)
    for entry, step in zip(found["neighbors"], (0, 3, 6), strict=True):
        kept = [w for i, w in enumerate(atlas.vocabulary) if atlas.support(step)[i] >= 20]
        sets = [{w: near(fit, w, step) for w in kept} for fit in fits]
        pairs = list(itertools.combinations(sets, 2))
        expected = np.mean([[len(a[w] & b[w]) / 5 for w in kept] for a, b in pairs])
        assert entry["words"] == len(kept)
        assert entry["share"] == pytest.approx(expected, rel=1e-12)
        assert entry["share"] < 1
    ends = atlas.dates[0], atlas.dates[-1]
    # Distances of the mean vectors: those of the posterior are zero for most words, which have no rank then.
    moved = [points(fit).changed(*ends, n=99, min_count=20) for fit in fits]
    moved = [dict(zip(each.words, each.distances, strict=True)) for each in moved]
    columns = [[each[word] for word in moved[0]] for each in moved]
    expected = [scipy.stats.spearmanr(*pair).statistic for pair in itertools.combinations(columns, 2)]
    assert found["change"]["words"] == len(moved[0])
    assert found["change"]["rank_correlation"] == pytest.approx(np.mean(expected), rel=1e-12)
    assert found["change"]["lowest"] == pytest.approx(min(expected), rel=1e-12)
    assert found["change"]["lowest"] < 0.99
    assert found["elbo_difference"] == 2.5
    assert found["fits"] == 3
    assert json.loads(json.dumps(found)) == found


def points(atlas):
    return dataclasses.replace(
        atlas, words=dataclasses.replace(atlas.words, variance=None, lag_covariance=None)
    )


def near(atlas, word, step):
    return set(atlas.neighbors(word, atlas.dates[step], 5, min_count=20).words)


def test_more_noise_means_less_agreement(atlas):
    shares, changes = [], []
    for sd in (0.02, 0.1, 0.5, 5.0):
        found = agreement([atlas, noisy(atlas, 1, sd)], n=5)
        shares.append(found["share"])
        changes.append(found["change"]["rank_correlation"])
    assert shares == sorted(shares, reverse=True)
    assert changes == sorted(changes, reverse=True)
    assert shares[-1] < 0.3  # by chance, 5 / 38


def test_points_have_no_elbo_and_only_words_with_vectors_count(atlas):
    paths = dataclasses.replace(atlas.words, variance=None, lag_covariance=None, between="independent")
    points = dataclasses.replace(atlas, words=paths, elbo=None)
    found = agreement([points, atlas], n=5)
    assert found["elbo_difference"] is None
    assert found["share"] > 0.9


def test_what_cannot_be_known_is_none(atlas):
    found = agreement([atlas, noisy(atlas, 1)], min_count=10**6)
    assert found["share"] is None
    assert found["change"]["rank_correlation"] is None
    assert found["change"]["words"] == 0
    json.dumps(found, allow_nan=False)


def test_fewer_words_than_asked_for_are_all_neighbours(atlas):
    found = agreement([atlas, noisy(atlas, 1)], n=1000)
    assert found["share"] == 1


@pytest.mark.parametrize("chunk", [1, 70, 1 << 24])
@pytest.mark.parametrize(("size", "n"), [(1, 3), (2, 1), (30, 4), (30, 29)])
def test_the_closest_are_those_of_a_full_sort(chunk, size, n, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    units = np.random.default_rng(size).standard_normal((size, 5))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    similar = units @ units.T
    np.fill_diagonal(similar, -2)
    n = min(n, size - 1)
    expected = np.sort(np.argsort(-similar, axis=1)[:, :n], axis=1)
    np.testing.assert_array_equal(closest(units, n), expected)


def test_equal_numbers_share_their_ranks():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 6, (2, 50))
    expected = scipy.stats.spearmanr(one, other).statistic
    assert rank_correlation(one, other) == pytest.approx(expected, rel=1e-12)
    assert rank_correlation(one, np.zeros(50)) is None


def test_what_cannot_be_compared_is_refused(atlas):
    with pytest.raises(ValueError, match="1 fits; two or more are needed"):
        agreement([atlas])
    other = dataclasses.replace(atlas, vocabulary=tuple(word.upper() for word in atlas.vocabulary))
    with pytest.raises(ValueError, match="different words or dates"):
        agreement([atlas, other])
    for name in ("n", "min_count"):
        with pytest.raises(ValueError, match=f"{name}=0; a whole number"):
            agreement([atlas, atlas], **{name: 0})
