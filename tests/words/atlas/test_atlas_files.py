import numpy as np
import pytest

from driftline.storage import checked_files as files
from driftline.storage import mapped_files
from driftline.words.atlas.atlas import Atlas, load
from driftline.words.atlas.atlas_file import KIND
from driftline.words.counts import counts
from driftline.words.paths import priors
from driftline.words.paths.long_steps import forward
from driftline.words.paths.paths import Paths
from support.atlases import known_atlas

PRESENT = np.random.default_rng(2).random((6, 5)) < 0.6
PRESENT[0] = True


def fields_of(thing):
    return {name: getattr(thing, name) for name in thing.__dataclass_fields__}


@pytest.fixture(
    params=["smoothed", "filtered", "independent", "independent with variances", "without contexts"]
)
def atlas(request):
    return an_atlas(request.param)


def an_atlas(kind):
    known = known_atlas(PRESENT).atlas
    sides = {}
    for side in ("words", "contexts"):
        parts = fields_of(getattr(known, side))
        if kind == "filtered":
            parts |= {"lag_covariance": None, "forward": forward("diffusion", known.dates, 0.02, 0.8)}
        if kind == "independent":
            parts |= {"lag_covariance": None, "variance": None}
        if kind == "independent with variances":
            parts |= {"lag_covariance": None}
        if kind.startswith(("filtered", "independent")):
            parts["between"] = kind.split()[0]
        for name in ("mean", "variance", "lag_covariance"):
            if parts[name] is not None:
                parts[name] = parts[name].astype(np.float32)
        sides[side] = Paths(**parts)
    if kind == "without contexts":
        sides["contexts"] = None
    return Atlas(**(fields_of(known) | sides))


@pytest.fixture
def path(tmp_path):
    an_atlas("smoothed").save(tmp_path / "some.atlas")
    return tmp_path / "some.atlas"


def test_what_is_saved_is_loaded(atlas, tmp_path):
    atlas.save(tmp_path / "some.atlas")
    loaded = load(tmp_path / "some.atlas")
    for name in ("vocabulary", "settings", "provenance", "history", "elbo", "converged", "message", "learnt"):
        assert getattr(loaded, name) == getattr(atlas, name)
    for name in ("dates", "occurrences", "tokens"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(atlas, name))
    for name in ("variance", "log_regression", "pace"):
        np.testing.assert_array_equal(getattr(loaded.drift, name), getattr(atlas.drift, name))
    assert (loaded.contexts is None) == (atlas.contexts is None)
    for side in ("words", "contexts"):
        old, new = getattr(atlas, side), getattr(loaded, side)
        if old is not None:
            assert new.between == old.between
            for step in range(5):
                for before, after in zip(old.at_step(step), new.at_step(step), strict=True):
                    np.testing.assert_array_equal(after, before)
    assert loaded.neighbors("word0", 1900).words == atlas.neighbors("word0", 1900).words


def test_the_same_atlas_is_the_same_bytes(atlas, tmp_path):
    atlas.save(tmp_path / "a")
    load(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_atlas_may_be_saved_over_its_own_file(path):
    loaded = load(path)
    before = loaded.words.at_step(1)[0]
    loaded.save(path)
    np.testing.assert_array_equal(load(path).words.at_step(1)[0], before)


def test_numbers_of_numpy_are_written_as_numbers_and_what_is_not_finite_as_null(tmp_path):
    atlas = an_atlas("smoothed")
    history = {"elbo": np.array([-1.5, np.nan]), "seconds": [np.float32(0.5), np.int64(3), float("inf")]}
    Atlas(**(fields_of(atlas) | {"history": history, "elbo": np.float64(-1)})).save(tmp_path / "x")
    loaded = load(tmp_path / "x")
    assert loaded.history == {"elbo": [-1.5, None], "seconds": [0.5, 3, None]}
    assert loaded.elbo == -1.0


def test_truncated_and_flipped_files_are_refused(path):
    good = path.read_bytes()
    places = range(0, len(good), 11)
    for broken in [
        *(good[:n] for n in places),
        *(good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :] for n in places),
    ]:
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"some\.atlas"):
            load(path)


BROKEN = {
    "knots are not sorted": lambda a, f: a["knot_steps"].__setitem__(slice(0, 2), [1, 0]),
    "knots name words that are not there": lambda a, f: a["knot_words"].__setitem__(-1, 99),
    "knots name steps that are not there": lambda a, f: a["knot_steps"].__setitem__(0, -1),
    "knots and occurrences do not agree": lambda a, f: a.update(occurrences=a["occurrences"][:-1]),
    "occurrences are negative": lambda a, f: a["occurrences"].__setitem__(0, -1),
    "tokens and dates do not agree": lambda a, f: a.update(tokens=a["tokens"][:-1]),
    "tokens has dtype": lambda a, f: a.update(tokens=a["tokens"].astype(np.float64)),
    "dates do not increase": lambda a, f: a["days"].__setitem__(1, a["days"][0]),
    "words repeat": lambda a, f: f["vocabulary"].__setitem__(0, "word1"),
    "a word is not text": lambda a, f: f["vocabulary"].__setitem__(0, 3),
    "prior_variance": lambda a, f: a["prior_variance"].__setitem__(0, 0.0),
    "contexts_mean has shape": lambda a, f: a.update(contexts_mean=a["contexts_mean"][:, :-1].copy()),
    "words_mean has dtype": lambda a, f: a.update(words_mean=a["words_mean"].astype(np.float64)),
    "arrays are missing, or there are others": lambda a, f: a.update(more=np.zeros(1)),
    "arrays are missing": lambda a, f: a.pop("contexts_lag_covariance"),
    "words_mean has a number that is not finite": lambda a, f: a["words_mean"].__setitem__((0, 0), np.nan),
    "not finite": lambda a, f: a["contexts_mean"].__setitem__((0, 0), np.inf),
    "words_variance has a variance that is not": lambda a, f: a["words_variance"].__setitem__((0, 0), 0.0),
    "between is 'guessed'": lambda a, f: f.update(between="guessed"),
    "filtered|others": lambda a, f: f.update(between="filtered"),
    "missing, or there are others": lambda a, f: f.update(between="independent"),
    "the history has no lists": lambda a, f: f.update(history={"elbo": 3}),
    "the settings are not an object": lambda a, f: f.update(settings=[]),
    "the elbo is not a number": lambda a, f: f.update(elbo="high"),
    "vocabulary": lambda a, f: f.pop("vocabulary"),
    "paces and words do not agree": lambda a, f: a.update(paces=a["paces"][:-1]),
    "paces name one that is not there": lambda a, f: a["paces"].__setitem__(0, 1),
    "paces name one": lambda a, f: a["paces"].__setitem__(0, -1),
    "prior_variance and dates do not agree": lambda a, f: a.update(prior_variance=a["prior_variance"][:-1]),
    "prior_log_regression and prior_variance": lambda a, f: a.update(
        prior_log_regression=np.tile(a["prior_log_regression"], 2)
    ),
    "converged is neither true nor false": lambda a, f: f.update(converged="yes"),
    "the message is not text": lambda a, f: f.update(message=3),
    "what was learnt is not an object": lambda a, f: f.update(learnt=[]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_inconsistent_files_are_refused_even_with_good_checksums(path, what):
    arrays, facts = mapped_files.read(path, KIND)
    arrays = {name: array.copy() for name, array in arrays.items()}
    BROKEN[what](arrays, facts)
    mapped_files.write(path, KIND, arrays, facts)
    with pytest.raises(ValueError, match=rf"some\.atlas .*{what}.*again"):
        load(path)


def test_facts_that_are_no_object_are_refused(path):
    arrays, _ = mapped_files.read(path, KIND)
    mapped_files.write(path, KIND, arrays, [])
    with pytest.raises(ValueError, match="does not hold a sound atlas"):
        load(path)


def test_an_unsound_atlas_is_not_written(tmp_path):
    atlas = an_atlas("smoothed")
    atlas.words.mean[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"not sound \(words_mean has a number that is not finite\)"):
        atlas.save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_refused_by_what_they_are(tmp_path):
    files.write(tmp_path / "x", counts.KIND, {"a": np.zeros(3)}, {})
    with pytest.raises(ValueError, match="holds counts of words"):
        load(tmp_path / "x")
    (tmp_path / "text").write_text("this is a text and no atlas")
    with pytest.raises(ValueError, match="text is damaged or not a driftline file"):
        load(tmp_path / "text")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "nothing")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before, atlas = path.read_bytes(), an_atlas("filtered")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    message = r"could not write .*some\.atlas: the disk is full; choose another place"
    with pytest.raises(OSError, match=message):
        atlas.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match=r"could not write .*nowhere/x: No such file"):
        atlas.save(path.parent / "nowhere" / "x")


@pytest.mark.parametrize("converged", [True, False, None])
def test_how_a_fit_ended_and_what_it_learnt_are_kept(tmp_path, converged):
    learnt = {"scale": 0.5, "free": ["dim"], "drifts": [0.1, 0.2]}
    atlas = Atlas(
        **(fields_of(an_atlas("smoothed")) | {"converged": converged, "message": "because", "learnt": learnt})
    )
    atlas.save(tmp_path / "x")
    loaded = load(tmp_path / "x")
    assert loaded.converged is converged
    assert (loaded.message, loaded.learnt) == ("because", learnt)
    assert loaded.caveat == ("This fit has not converged: because." if converged is False else "")


def test_words_keep_their_paces(tmp_path):
    atlas = an_atlas("smoothed")
    pace = np.array([0, 2, 1, 1, 0, 2], np.int32)
    law = priors.make("diffusion", atlas.dates, 0.02, 0.8, paces=(0.1, 1.0, 9.0), pace=pace)
    sides = {
        side: Paths(**(fields_of(getattr(atlas, side)) | {"drift": law})) for side in ("words", "contexts")
    }
    Atlas(**(fields_of(atlas) | sides | {"drift": law})).save(tmp_path / "x")
    loaded = load(tmp_path / "x")
    for found in (loaded.drift, loaded.words.drift, loaded.contexts.drift):
        np.testing.assert_array_equal(found.pace, pace)
        np.testing.assert_array_equal(found.variance, law.variance)
        np.testing.assert_array_equal(found.log_regression, law.log_regression)
    # Between knots a word's path depends on its pace.
    np.testing.assert_allclose(loaded.words.of_word(1)[1], sides["words"].of_word(1)[1], rtol=1e-12)
