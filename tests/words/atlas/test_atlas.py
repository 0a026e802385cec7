import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2, norm

from driftline.words.atlas import pictures
from driftline.words.atlas.atlas import Atlas
from driftline.words.atlas.change import common_map
from driftline.words.atlas.pictures import draw_similarity
from driftline.words.paths.long_steps import forward
from driftline.words.paths.paths import Paths
from support.atlases import DRIFT, SCALE, dense_prior, known_atlas

PRESENT = np.random.default_rng(11).random((30, 12)) < 0.5
PRESENT[:, [2, 9]] = True
PRESENT[7] = False  # a word that never occurs
PRESENT[8] = np.arange(12) < 3  # and one that goes out of use


@pytest.fixture(scope="module")
def known():
    return known_atlas(PRESENT, dim=5, seed=1, noise=0.3)


@pytest.fixture(scope="module")
def atlas(known):
    return known.atlas


def with_paths(atlas, **changes):
    fields = {name: getattr(atlas, name) for name in atlas.__dataclass_fields__}
    words = {name: getattr(atlas.words, name) for name in atlas.words.__dataclass_fields__}
    return Atlas(**(fields | {"words": Paths(**(words | changes))}))


@pytest.fixture(scope="module")
def independent(atlas):
    return with_paths(atlas, variance=None, lag_covariance=None, between="independent")


@pytest.fixture(scope="module")
def filtered(atlas):
    ahead = forward("diffusion", atlas.dates, DRIFT, SCALE)
    return with_paths(atlas, lag_covariance=None, between="filtered", forward=ahead)


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def around(atlas, word, step, window=2):
    rows = (atlas.knots.word == word) & (np.abs(atlas.knots.step - step) <= window)
    return int(atlas.occurrences[rows].sum())


def test_neighbours_are_the_largest_cosines_of_words_in_use(known, atlas):
    step = 9
    found = atlas.neighbors("word3", atlas.dates[step], 6)
    every = {
        i: cosine(known.mean[3, step], known.mean[i, step])
        for i in range(30)
        if i != 3 and around(atlas, i, step) >= 1
    }
    best = sorted(every, key=lambda i: -every[i])[:6]
    assert found.words == tuple(f"word{i}" for i in best)
    np.testing.assert_allclose(found.similarities, [every[i] for i in best], rtol=1e-9)
    assert found.date == found.vector_date == atlas.dates[step]
    assert (found.lower < found.expected).all()
    assert (found.expected < found.upper).all()
    np.testing.assert_array_equal(found.support, [around(atlas, i, step) for i in best])
    assert found.word_support == around(atlas, 3, step)


def test_words_out_of_use_are_no_neighbours(atlas):
    found = atlas.neighbors("word3", atlas.dates[9], 100)
    assert not {"word3", "word7", "word8"} & set(found.words)
    assert "word8" in atlas.neighbors("word3", atlas.dates[9], 100, min_count=0).words
    few = atlas.neighbors("word3", atlas.dates[9], 100, min_count=60)
    assert 0 < len(few.words) < len(found.words)
    assert (few.support >= 60).all()


def test_similarity_is_the_cosine_at_every_step(known, atlas):
    found = atlas.similarity("word0", "word4")
    expected = [cosine(known.mean[0, t], known.mean[4, t]) for t in range(12)]
    np.testing.assert_allclose(found.cosine, expected, rtol=1e-9)
    np.testing.assert_array_equal(found.dates, atlas.dates)
    assert (found.lower < found.upper).all()
    same = atlas.similarity("word0", "word0")
    np.testing.assert_allclose([same.lower, same.mean, same.upper], 1.0, rtol=1e-12)


def test_trajectories_and_frequencies(known, atlas):
    found = atlas.trajectory("word5")
    np.testing.assert_allclose(found.mean, known.mean[5], rtol=1e-9)
    np.testing.assert_allclose(found.sd**2, np.einsum("ktt->tk", known.covariance[5]), rtol=1e-9)
    rows = atlas.knots.word == 5
    np.testing.assert_array_equal(found.occurrences[atlas.knots.step[rows]], atlas.occurrences[rows])
    assert found.occurrences.sum() == atlas.occurrences[rows].sum()
    np.testing.assert_allclose(atlas.frequency("word5"), found.occurrences / 10_000)


def dense_change(known, first, second):
    """Distances and evidence for all words in use at both steps, from the dense posterior."""
    atlas = known.atlas
    supports = {
        i: (around(atlas, i, first), around(atlas, i, second))
        for i in range(len(PRESENT))
        if min(around(atlas, i, first), around(atlas, i, second)) >= 10
    }
    words = list(supports)
    start, end = known.mean[words, first], known.mean[words, second]
    prior = dense_prior(atlas.dates)
    spread = prior[first, first] + prior[second, second] - 2 * prior[first, second]
    variance = np.array(
        [
            [cov[first, first] + cov[second, second] - 2 * cov[first, second] for cov in known.covariance[i]]
            for i in words
        ]
    )
    shared = common_map(start, end, variance)
    apart = end - start @ shared.matrix.T
    # What a sight of the displacement must have been, for the prior to become this posterior.
    noise = 1 / (1 / variance - 1 / spread)
    sight = apart / variance * noise
    inflation = max(1.0, np.median(apart**2 / variance / (1 - variance / spread)) / chi2(1).median())
    noise = inflation * noise + np.einsum("nk,kl,nl->n", start, shared.covariance, start)[:, None]
    change, none = norm(0, np.sqrt(spread + noise)), norm(0, np.sqrt(noise))
    evidence = (change.logpdf(sight) - none.logpdf(sight)).sum(1)
    return {i: (evidence[row], supports[i]) for row, i in enumerate(words)}, inflation


@pytest.mark.parametrize(("first", "second"), [(2, 9), (9, 2), (0, 11), (4, 5)])
def test_change_is_ranked_with_the_evidence_of_the_dense_posterior(known, atlas, first, second):
    expected, inflation = dense_change(known, first, second)
    found = atlas.changed(atlas.dates[first], atlas.dates[second], n=100, probability=0.7)
    places = [atlas.index(word) for word in found.words]
    assert sorted(places) == sorted(expected)
    assert found.inflation == pytest.approx(inflation, rel=1e-3)  # the median is known to four digits
    np.testing.assert_allclose(found.log_factors, [expected[i][0] for i in places], rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(found.probabilities, 1 / (1 + np.exp(-found.log_factors)), rtol=1e-12)
    np.testing.assert_array_equal(found.start_support, [expected[i][1][0] for i in places])
    np.testing.assert_array_equal(found.end_support, [expected[i][1][1] for i in places])
    called = found.probabilities >= 0.7
    assert found.num_changed == called.sum()
    assert found.num_compared == len(expected)
    assert called[: called.sum()].all()
    plain = atlas.changed(atlas.dates[first], atlas.dates[second], n=100, probability=0.7, bands=False)
    assert plain.words == found.words
    assert plain.lower is plain.upper is None
    assert (np.diff(plain.distances[called]) <= 0).all()
    assert (np.diff(found.probabilities[~called]) <= 0).all()
    assert (found.lower <= found.distances).all()
    assert (found.distances <= found.upper).all()
    assert not found.distances[found.probabilities < 0.5].any()
    assert found.start == atlas.dates[first]


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_unmoved_words_are_called_no_more_often_than_stated(noise):
    known = known_atlas(np.ones((2000, 6), bool), dim=6, seed=8, noise=noise, unmoved=(1000, 1, 4))
    atlas = known.atlas
    found = atlas.changed(atlas.dates[1], atlas.dates[4], n=2000, min_count=0)
    places = np.array([atlas.index(word) for word in found.words])
    called = found.probabilities >= found.threshold
    rate, stated = called[places < 1000].mean(), 0.05 / 0.95
    assert rate <= stated + 5 * np.sqrt(stated / 1000)
    assert called[places >= 1000].mean() > 4 * rate


@pytest.mark.parametrize("seed", range(5))
def test_fewer_unmoved_words_than_dimensions_are_not_called_changed(seed):
    known = known_atlas(np.ones((4, 6), bool), dim=20, seed=seed, noise=1.0, unmoved=(4, 1, 4))
    found = known.atlas.changed(known.atlas.dates[1], known.atlas.dates[4], min_count=0)
    assert found.num_compared == 4
    assert found.num_changed == 0


def test_fewer_words_are_the_first_of_all(atlas):
    every = atlas.changed(atlas.dates[2], atlas.dates[9], n=100)
    some = atlas.changed(atlas.dates[2], atlas.dates[9], n=4)
    assert some.words == every.words[:4]
    assert some.num_compared == every.num_compared


def test_a_rotation_of_a_whole_step_is_no_change(known):
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    atlas = with_paths(known.atlas, variance=None, lag_covariance=None, between="independent")
    mean = atlas.words.mean.copy()
    late, early = atlas.knots.step == 9, atlas.knots.step == 2
    both = np.intersect1d(atlas.knots.word[late], atlas.knots.word[early])
    late &= np.isin(atlas.knots.word, both)
    early &= np.isin(atlas.knots.word, both)
    mean[late] = mean[early] @ turned.T
    found = with_paths(atlas, mean=mean)
    steps = found.dates[2], found.dates[9]
    np.testing.assert_allclose(found.changed(*steps, n=100, min_count=1).distances, 0.0, atol=1e-12)
    closest = found.counterparts("word4", at=steps[0], when=steps[1])
    assert closest.words[0] == "word4"
    np.testing.assert_allclose(closest.similarities[0], 1.0)


def test_counterparts_compare_a_turned_vector_with_another_date(known, atlas):
    found = atlas.counterparts("word4", at=atlas.dates[2], when=atlas.dates[9], n=3)
    used = [i for i in range(30) if min(around(atlas, i, 2), around(atlas, i, 9)) > 0]
    cov = known.covariance[used]
    variance = cov[:, :, 2, 2] + cov[:, :, 9, 9] - 2 * cov[:, :, 2, 9]
    turn = common_map(known.mean[used, 2], known.mean[used, 9], variance).matrix.T
    every = {
        i: cosine(known.mean[4, 2] @ turn, known.mean[i, 9]) for i in range(30) if around(atlas, i, 9) >= 1
    }
    best = sorted(every, key=lambda i: -every[i])[:3]
    assert found.words == tuple(f"word{i}" for i in best)
    np.testing.assert_allclose(found.similarities, [every[i] for i in best], rtol=1e-8)
    assert (found.vector_date, found.date) == (atlas.dates[2], atlas.dates[9])
    assert "word4" in atlas.counterparts("word4", at=atlas.dates[2], when=atlas.dates[9], n=100).words
    assert "word4" not in atlas.counterparts("word4", at=atlas.dates[2], when=atlas.dates[2], n=100).words


def test_point_estimates_have_no_bands_and_no_probabilities(independent):
    dates = independent.dates
    found = independent.changed(dates[2], dates[9])
    assert found.probabilities is found.log_factors is found.lower is found.num_changed is None
    assert (np.diff(found.distances) <= 0).all()
    assert independent.neighbors("word3", dates[9]).lower is None
    similarity = independent.similarity("word0", "word4")
    assert similarity.lower is None
    np.testing.assert_array_equal(similarity.mean, similarity.cosine)
    assert independent.trajectory("word0").sd is None
    assert "no probabilities" in str(found)


def test_a_filter_has_bands_at_a_date_but_no_joint_posterior_of_two(filtered):
    dates = filtered.dates
    assert filtered.changed(dates[2], dates[9]).probabilities is None
    assert filtered.neighbors("word3", dates[9]).lower is not None
    found = filtered.counterparts("word3", dates[2], dates[9], n=100)
    own = np.array(found.words) == "word3"
    assert own.sum() == 1
    for numbers in (found.expected, found.lower, found.upper):
        np.testing.assert_array_equal(np.isnan(numbers), own)
    assert np.isfinite(found.similarities).all()
    same = filtered.neighbors("word3", dates[9], n=100)
    assert np.isfinite(same.expected).all()


def absent_and_present(atlas, word):
    """A step at which a word has no knot and one at which it has."""
    steps = atlas.knots.step[atlas.knots.word == atlas.index(word)]
    return np.setdiff1d(np.arange(len(atlas)), steps)[0], steps


def test_a_word_without_a_vector_has_no_neighbours(atlas, independent, filtered):
    absent, present = absent_and_present(independent, "word3")
    dates = independent.dates
    message = (
        f"'word3' has no vector at {dates[absent]}.* at {len(present)} of 12 dates, from {dates[present[0]]}"
    )
    with pytest.raises(ValueError, match=message):
        independent.neighbors("word3", dates[absent])
    with pytest.raises(ValueError, match=message):
        independent.counterparts("word3", dates[absent], dates[present[0]])
    assert independent.neighbors("word3", dates[present[0]]).words
    first = atlas.knots.step[atlas.knots.start[:-1]]
    late = int(np.flatnonzero((first > 0) & PRESENT.any(1))[0])
    with pytest.raises(ValueError, match=f"'word{late}' has no vector at 1900-01-01"):
        filtered.neighbors(f"word{late}", dates[0])
    for each in (atlas, independent, filtered):
        with pytest.raises(ValueError, match="'word7' has no vector at .*, nor at any other date"):
            each.neighbors("word7", dates[9])


def test_the_similarity_to_a_word_without_a_vector_is_not_a_number(atlas, independent, tmp_path):
    _, present = absent_and_present(independent, "word3")
    found = independent.similarity("word3", "word0")
    both = np.intersect1d(present, absent_and_present(independent, "word0")[1])
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(found.cosine)), both)
    assert "nan" in str(found)
    never = independent.similarity("word7", "word0"), atlas.similarity("word7", "word0")
    assert np.isnan(never[0].mean).all()
    assert np.isnan(never[1].cosine).all()
    assert (never[1].lower < 0).all()
    assert (never[1].upper > 0).all()
    pytest.importorskip("matplotlib")
    draw_similarity([found, never[0]], tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_print_what_they_call_hardly_used(atlas):
    many = atlas.similarity("word0", "word4")
    steps = np.datetime64("2020-01-01") + np.arange(60)
    rare = np.zeros(60, np.int64)
    rare[30] = 3
    pair = dataclasses.replace(many, dates=steps, a_occurrences=rare, b_occurrences=rare)
    np.testing.assert_array_equal(np.flatnonzero(pictures._in_use(pair)), np.arange(27, 34))
    assert pictures._around([pair]) == "within 3 steps of that date"
    assert pictures._around([many]) == "within 1 step of that date"


def test_words_do_not_take_the_place_of_columns(atlas):
    found = dataclasses.replace(atlas.similarity("word0", "word4"), a="mean", b="date")
    columns = found.columns()
    assert list(columns) == ["date", "cosine", "mean", "lower", "upper", "count mean", "count date"]
    np.testing.assert_array_equal(columns["mean"], found.mean)
    np.testing.assert_array_equal(columns["count mean"], found.a_occurrences)


def test_answers_print_as_tables(atlas, independent):
    text = str(atlas.neighbors("word3", atlas.dates[9], 2)).splitlines()
    assert text[0].startswith("Closest to word3 (")
    assert text[1].split() == ["word", "similarity", "expected", "lower", "upper", "count"]
    assert len(text) == 4
    bare = str(independent.neighbors("word3", atlas.dates[9], 2)).splitlines()
    assert bare[1].split() == ["word", "similarity", "count"]
    change = str(atlas.changed(atlas.dates[2], atlas.dates[9], n=3)).splitlines()
    assert change[0].startswith(f"Change from {atlas.dates[2]} to {atlas.dates[9]}: ")
    assert "changed with probability 0.95 or more" in change[0]
    assert str(atlas.trajectory("word3")).splitlines()[1].split()[:3] == ["date", "length", "spread"]
    assert str(atlas.similarity("word3", "word4")).splitlines()[0] == "Similarity of word3 and word4"
    assert repr(atlas).startswith("Atlas(dsg-s, 12 steps from 1900-01-01 to ")


def test_answers_become_frames(atlas):
    pandas = pytest.importorskip("pandas")
    frame = atlas.changed(atlas.dates[2], atlas.dates[9], n=3).to_frame()
    assert frame.index.name == "word"
    assert list(frame.columns[:3]) == ["distance", "lower", "upper"]
    assert len(frame) == 3
    assert isinstance(atlas.similarity("word0", "word1").to_frame().index, pandas.DatetimeIndex)


def test_what_is_not_there_is_named_with_a_remedy(atlas):
    with pytest.raises(KeyError, match=r"'wordd3' is not one of the 30 words .*; did you mean 'word3'"):
        atlas.neighbors("wordd3", 1905)
    with pytest.raises(ValueError, match="1700 is .* days from the nearest step, 1900-01-01"):
        atlas.neighbors("word3", 1700)
    with pytest.raises(ValueError, match="are both at the step 1900-01-01; choose dates further apart"):
        atlas.changed(1900, "1900-01")
    with pytest.raises(ValueError, match="no word occurs at least 9999 times within 2 steps of 1900-01-01"):
        atlas.changed(1900, atlas.dates[-1], min_count=9999)
    with pytest.raises(ValueError, match=r"probability=1.0; a number between 0 and 1 is needed"):
        atlas.changed(1900, atlas.dates[-1], probability=1.0)
    with pytest.raises(ValueError, match="n=-1; a whole number of at least 0 is needed"):
        atlas.neighbors("word3", 1900, -1)


def test_parts_that_do_not_fit_are_refused(atlas):
    fields = {name: getattr(atlas, name) for name in atlas.__dataclass_fields__}
    with pytest.raises(ValueError, match="the knots are of 30 words and 12 steps, but there are 29 words"):
        Atlas(**(fields | {"vocabulary": atlas.vocabulary[1:]}))
    with pytest.raises(ValueError, match="occurrences must have a number for each knot"):
        Atlas(**(fields | {"occurrences": atlas.occurrences[1:]}))


def test_an_atlas_needs_no_jax():
    code = "import sys, driftline.words.importing.vectors; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_stopped_words_are_neither_listed_nor_counted(atlas):
    first, last = atlas.dates[0], atlas.dates[-1]
    options = {"n": 99, "min_count": 0, "probability": 0.01}
    every = atlas.changed(first, last, **options)
    stop = [every.words[0], every.words[-1], "no such word"]
    found = atlas.changed(first, last, stop=stop, **options)
    assert found.words == every.words[1:-1]
    np.testing.assert_array_equal(found.distances, every.distances[1:-1])
    assert found.num_compared == every.num_compared - 2 == len(found.words)
    assert found.num_changed == (found.probabilities >= 0.01).sum()
    with pytest.raises(TypeError, match=r"stop='word0' is one string; .* or a pathlib\.Path"):
        atlas.changed(first, last, stop="word0")


def test_stopped_words_may_be_in_a_file_and_in_any_case(atlas, tmp_path):
    first, last = atlas.dates[0], atlas.dates[-1]
    options = {"n": len(atlas.vocabulary), "min_count": 0, "bands": False, "anyway": True}
    every = atlas.changed(first, last, **options)
    listed = tmp_path / "stop"
    listed.write_text(f"{every.words[0].upper()}  # the first\n\n{every.words[-1]}\nnone\n")
    wanted = atlas.changed(first, last, stop=[every.words[0], every.words[-1]], **options)
    assert wanted.words == every.words[1:-1]
    for stop in (listed, [every.words[0].upper(), every.words[-1].title()]):
        assert atlas.changed(first, last, stop=stop, **options).words == wanted.words
    with pytest.raises(FileNotFoundError, match="stop='.*gone': there is no such file; name one with a word"):
        atlas.changed(first, last, stop=tmp_path / "gone")


def test_stopped_words_keep_their_case_if_the_atlas_has_both(atlas):
    words = ("Word0", *atlas.vocabulary[1:])
    mixed, ends = dataclasses.replace(atlas, vocabulary=words), (atlas.dates[0], atlas.dates[-1])
    options = {"n": len(words), "min_count": 0, "bands": False, "anyway": True}
    assert "Word0" in mixed.changed(*ends, stop=["word0"], **options).words
    assert "Word0" not in mixed.changed(*ends, stop=["Word0"], **options).words


@pytest.fixture
def unfinished(atlas):
    return dataclasses.replace(
        atlas, converged=False, message="the level phase reached its limit of 3 passes"
    )


CAVEAT = "This fit has not converged: the level phase reached its limit of 3 passes."


def test_answers_of_an_unfinished_fit_begin_with_a_caveat(atlas, unfinished):
    first, last = atlas.dates[2], atlas.dates[9]
    for ask in (
        lambda each: each.neighbors("word3", last, 2),
        lambda each: each.counterparts("word3", first, last, 2),
        lambda each: each.similarity("word3", "word4"),
        lambda each: each.changed(first, last, anyway=True),
    ):
        with_caveat, without = ask(unfinished), ask(atlas)
        assert with_caveat.caveat == CAVEAT
        lines = str(with_caveat).splitlines()
        assert lines[0] == CAVEAT
        assert "\n".join(lines[1:]) == str(without)
        assert without.caveat == ""


def test_an_unfinished_fit_gives_no_probabilities_unless_asked(atlas, unfinished):
    ends = atlas.dates[2], atlas.dates[9]
    found = unfinished.changed(*ends)
    assert found.probabilities is found.log_factors is found.num_changed is found.inflation is None
    assert found.lower is found.upper is None
    assert (np.diff(found.distances) <= 0).all()
    assert "no probabilities" in str(found).splitlines()[1]
    anyway, sound = unfinished.changed(*ends, anyway=True), atlas.changed(*ends)
    assert anyway.words == sound.words
    np.testing.assert_array_equal(anyway.probabilities, sound.probabilities)


@pytest.fixture
def brief():
    """An atlas of four steps."""
    return known_atlas(np.ones((30, 4), bool), dim=5, seed=1, noise=0.3).atlas


def test_few_steps_are_a_caveat_that_names_the_remedy(brief):
    first, last = brief.dates[0], brief.dates[-1]
    for found in (
        brief.changed(first, last),
        brief.changed(first, last, anyway=True),
        brief.similarity("word3", "word4"),
        brief.neighbors("word3", last),
    ):
        line = str(found).splitlines()[0]
        assert line == found.caveat
        assert line.startswith("With 4 steps the noise between steps cannot be measured, which takes 5")
        assert "--null 20" in line
        assert "--parts 10" in line


def test_few_steps_give_no_probabilities_unless_asked(brief):
    ends = brief.dates[0], brief.dates[-1]
    found = brief.changed(*ends)
    assert found.probabilities is found.log_factors is found.num_changed is found.lower is None
    assert "no probabilities" in found.title()
    assert brief.changed(*ends, anyway=True).probabilities is not None


def test_five_steps_are_enough():
    each = known_atlas(np.ones((30, 5), bool), dim=5, seed=1, noise=0.3).atlas
    assert each.caveat == ""
    assert each.changed(each.dates[0], each.dates[-1]).probabilities is not None


def test_few_steps_without_a_joint_posterior_have_no_caveat(brief):
    points = with_paths(brief, variance=None, lag_covariance=None, between="independent")
    assert points.caveat == ""


def test_an_unfinished_fit_of_few_steps_tells_both(brief):
    each = dataclasses.replace(brief, converged=False, message="because")
    assert each.caveat == f"This fit has not converged: because. {brief.caveat}"


@pytest.mark.parametrize(("num_compared", "told"), [(9, "9 of 100"), (10, "10")])
def test_an_answer_on_few_of_all_words_says_so(atlas, num_compared, told):
    found = atlas.changed(atlas.dates[2], atlas.dates[9])
    assert found.num_words == 30
    fewer = dataclasses.replace(found, num_compared=num_compared, num_words=100)
    assert f": {told} words compared, {found.num_changed} changed" in fewer.title()


@pytest.mark.parametrize("converged", [True, None])
def test_a_fit_that_has_converged_or_is_not_known_has_no_caveat(atlas, converged):
    each = dataclasses.replace(atlas, converged=converged, message="converged")
    assert each.caveat == ""
    assert each.changed(atlas.dates[2], atlas.dates[9]).probabilities is not None
