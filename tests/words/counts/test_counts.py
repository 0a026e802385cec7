import numpy as np
import pytest

from driftline import words
from driftline.storage import checked_files as files
from driftline.words.counts.counts import KIND


@pytest.fixture
def counts():
    texts = ["the cat and the dog", "a cat saw the dog", "the dog saw a bird in the tree"]
    return words.count([(1850 + i, text) for i, text in enumerate(texts)], ["the", "cat", "dog", "saw", "é"])


@pytest.fixture
def path(counts, tmp_path):
    counts.save(tmp_path / "texts.counts")
    return tmp_path / "texts.counts"


def test_what_is_saved_is_loaded(counts, path):
    loaded = words.load_counts(path)
    assert loaded.vocabulary == counts.vocabulary
    assert loaded.provenance == counts.provenance
    assert loaded.window == 4
    for name in (
        "dates",
        "step_indptr",
        "rows",
        "indptr",
        "indices",
        "values",
        "occurrences",
        "tokens",
        "documents",
    ):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(counts, name))
        assert getattr(loaded, name).dtype == getattr(counts, name).dtype
    assert (
        repr(loaded)
        == "Counts(3 steps from 1850-01-01 to 1852-01-01, 5 words, 13 pairs, 18 tokens in 3 documents)"
    )


def test_numbers_are_compact(counts):
    assert counts.values.dtype == np.float32
    assert counts.indices.dtype == counts.rows.dtype == np.int32


def test_a_step_is_symmetric_and_sorted(counts):
    for t in range(len(counts)):
        step = counts.step(t)
        row = np.repeat(np.arange(len(step.words)), np.diff(step.indptr))
        entries = dict(zip(zip(row, step.indices, strict=True), step.values, strict=True))
        assert list(entries) == sorted(entries)
        assert all(entries[j, i] == value for (i, j), value in entries.items())
        assert set(row) == set(range(len(step.words)))
    np.testing.assert_array_equal(counts.step(-1).values, counts.step(2).values)
    with pytest.raises(IndexError, match="step 3 of 3"):
        counts.step(3)


def test_words_have_places_and_frequencies(counts):
    assert counts.index("dog") == 2
    np.testing.assert_allclose(counts.frequency("the"), [2 / 5, 1 / 5, 2 / 8])
    with pytest.raises(KeyError, match="'bird' is not one of the 5 words"):
        counts.index("bird")


def test_truncated_and_flipped_files_are_refused(path):
    good = path.read_bytes()
    places = range(0, len(good), 7)
    for broken in [
        *(good[:n] for n in places),
        *(good[:n] + bytes([good[n] ^ 1]) + good[n + 1 :] for n in places),
    ]:
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"texts\.counts"):
            words.load_counts(path)


BROKEN = {
    "rows name words that are not there": lambda a, f: a["rows"].__setitem__(0, 99),
    "indices name words that are not there": lambda a, f: a["indices"].__setitem__(0, -1),
    "a count is not positive": lambda a, f: a["values"].__setitem__(0, np.nan),
    "indices are not sorted": lambda a, f: a["indices"].__setitem__(slice(0, 3), [2, 1, 0]),
    "a pair is out of order": lambda a, f: a["rows"].__setitem__(slice(1, 2), 4),
    "pointers decrease": lambda a, f: a["step_indptr"].__setitem__(1, 99),
    "pointers do not span": lambda a, f: a["indptr"].__setitem__(-1, 99),
    "pointers have another length": lambda a, f: a.update(indptr=a["indptr"][:-1]),
    "pairs and values do not agree": lambda a, f: a.update(values=a["values"][:-1]),
    "dates do not increase": lambda a, f: a["days"].__setitem__(1, a["days"][0]),
    "occurrences have another shape": lambda a, f: f["vocabulary"].append("more"),
    "occurrences has dtype": lambda a, f: a.update(occurrences=a["occurrences"].astype(np.float64)),
    "steps do not agree": lambda a, f: a.update(tokens=a["tokens"][:-1]),
    "tokens are negative": lambda a, f: a["tokens"].__setitem__(0, -1),
    "words repeat": lambda a, f: f["vocabulary"].__setitem__(0, "cat"),
    "other arrays": lambda a, f: a.update(more=np.zeros(1)),
    "the window": lambda a, f: f.update(window=0.5),
    "rows": lambda a, f: a.pop("rows"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_inconsistent_files_are_refused_even_with_a_good_checksum(path, what):
    arrays, facts = files.read(path, KIND)
    arrays = {name: array.copy() for name, array in arrays.items()}
    BROKEN[what](arrays, facts)
    files.write(path, KIND, arrays, facts)
    with pytest.raises(
        ValueError, match=rf"texts\.counts does not hold sound counts \(.*{what}.*\); count the texts again"
    ):
        words.load_counts(path)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(counts, path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        OSError, match=r"could not write .*texts\.counts: the disk is full; choose another place"
    ):
        counts.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(counts, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"could not write .*nowhere/x: No such file"):
        counts.save(tmp_path / "nowhere" / "x")
