import csv
import gzip
import re

import numpy as np
import pytest

from driftline.words.atlas.atlas import Atlas, load
from driftline.words.importing.vectors import import_vectors, import_word2vec
from driftline.words.paths.paths import Paths
from support.atlases import known_atlas


@pytest.fixture
def atlas():
    present = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 0]], bool)
    known = known_atlas(present).atlas
    fields = {name: getattr(known, name) for name in known.__dataclass_fields__}
    return Atlas(**(fields | {"vocabulary": ("the", "café", 'a,"b"')}))


@pytest.fixture
def independent(atlas):
    fields = {name: getattr(atlas, name) for name in atlas.__dataclass_fields__}
    words = Paths(atlas.knots, atlas.drift, atlas.words.mean.astype(np.float32), between="independent")
    return Atlas(**(fields | {"words": words, "contexts": None}))


def test_word2vec_text_has_a_file_for_each_date(atlas, tmp_path):
    paths = atlas.export(tmp_path / "out")
    assert [path.name for path in paths] == [f"{date}.txt" for date in atlas.dates]
    lines = paths[1].read_text(encoding="utf-8").splitlines()
    assert lines[0] == "3 3"
    for word, line, vector in zip(atlas.vocabulary, lines[1:], atlas.words.at_step(1)[0], strict=True):
        first, *numbers = line.split(" ")
        assert first == word
        np.testing.assert_array_equal(np.array(numbers, np.float32), vector.astype(np.float32))


def test_dates_may_be_chosen(atlas, tmp_path):
    assert [p.name for p in atlas.export(tmp_path, when=1900)] == ["1900-01-01.txt"]
    assert len(atlas.export(tmp_path, when=[1900, atlas.dates[2], "1900"])) == 2


def test_csv_has_a_line_for_each_date_and_word(atlas, tmp_path):
    (path,) = atlas.export(tmp_path / "vectors.csv", "csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["date"], row["word"]) for row in rows] == [
        (str(date), word) for date in atlas.dates for word in atlas.vocabulary
    ]
    found = np.array([[row[f"x{k}"] for k in range(3)] for row in rows], np.float32)
    expected = np.concatenate([atlas.words.at_step(t)[0] for t in range(3)]).astype(np.float32)
    np.testing.assert_array_equal(found, expected)


def test_npz_holds_arrays_without_objects(atlas, independent, tmp_path):
    (path,) = atlas.export(tmp_path / "vectors.npz", "npz", when=[atlas.dates[1], atlas.dates[2]])
    with np.load(path, allow_pickle=False) as found:
        assert tuple(found["vocabulary"]) == atlas.vocabulary
        np.testing.assert_array_equal(found["dates"], atlas.dates[1:])
        for i, step in enumerate((1, 2)):
            mean, variance = atlas.words.at_step(step)
            np.testing.assert_array_equal(found["mean"][i], mean.astype(np.float32))
            np.testing.assert_allclose(found["sd"][i] ** 2, variance, rtol=1e-6)
    (path,) = independent.export(tmp_path / "points.npz", "npz")
    with np.load(path, allow_pickle=False) as found:
        assert "sd" not in found


def test_what_is_exported_is_imported_back(independent, tmp_path):
    independent.export(tmp_path)
    found = import_word2vec(tmp_path)
    assert found.vocabulary == independent.vocabulary
    np.testing.assert_array_equal(found.dates, independent.dates)
    np.testing.assert_array_equal(found.knots.word, independent.knots.word)
    np.testing.assert_array_equal(found.knots.step, independent.knots.step)
    np.testing.assert_array_equal(found.words.mean, independent.words.mean)
    assert found.contexts is None
    assert found.words.between == "independent"
    found.save(tmp_path / "x.atlas")
    assert load(tmp_path / "x.atlas").neighbors("the", 1900).words == ("café",)
    assert found.provenance["files"][0]["name"] == "1900-01-01.txt"


def test_smoothed_vectors_survive_too(atlas, tmp_path):
    atlas.export(tmp_path)
    found = import_word2vec({date: tmp_path / f"{date}.txt" for date in reversed(atlas.dates.tolist())})
    for step in range(3):
        expected = atlas.words.at_step(step)[0].astype(np.float32)
        np.testing.assert_array_equal(found.words.at_step(step)[0], expected)
    assert found.changed(1900, found.dates[2]).probabilities is None


FORMATS = {"word2vec": "vectors", "csv": "vectors.csv", "npz": "vectors.npz"}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_imported_back(atlas, independent, tmp_path, form):
    for each in (atlas, independent):
        each.export(tmp_path / FORMATS[form], form)
        found = import_vectors(tmp_path / FORMATS[form])
        assert found.vocabulary == each.vocabulary
        np.testing.assert_array_equal(found.dates, each.dates)
        for step in range(3):
            expected = each.words.at_step(step)[0].astype(np.float32)
            np.testing.assert_array_equal(found.words.at_step(step)[0], expected)
    np.testing.assert_array_equal(found.knots.word, independent.knots.word)
    np.testing.assert_array_equal(found.knots.step, independent.knots.step)
    np.testing.assert_array_equal(found.tokens, [2, 2, 2])
    found.save(tmp_path / "x.atlas")
    assert load(tmp_path / "x.atlas").neighbors("the", 1900).words == ("café",)


def test_packed_files_are_read(tmp_path):
    (tmp_path / "1900.vec.gz").write_bytes(gzip.compress(b"1 2\nthe 0.5 1 \n"))
    np.testing.assert_array_equal(import_word2vec(tmp_path).words.mean, [[0.5, 1.0]])


def test_words_with_spaces_are_refused(atlas, tmp_path):
    fields = {name: getattr(atlas, name) for name in atlas.__dataclass_fields__}
    spaced = Atlas(**(fields | {"vocabulary": ("the", "new york", "x")}))
    with pytest.raises(ValueError, match="the word 'new york' has ' ' in it, .* use format='csv' or 'npz'"):
        spaced.export(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    spaced.export(tmp_path / "x.csv", "csv")
    with pytest.raises(ValueError, match="format='bin'; choose one of word2vec, csv, npz"):
        atlas.export(tmp_path / "out", "bin")


def test_a_full_disk_leaves_nothing_half_written(atlas, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for name, form in (("x.csv", "csv"), ("x.npz", "npz")):
        with pytest.raises(OSError, match=rf"could not write .*{name}: the disk is full; choose another"):
            atlas.export(tmp_path / name, form)
    assert list(tmp_path.iterdir()) == []


BROKEN = {
    b"": "the first line is not the number of words",
    b"the 0.5 1\n": "the first line is not the number of words",
    b"1 2\nthe 0.5\n": "line 2: 1 numbers after the word 'the' instead of 2",
    b"1 2\nthe 0.5 x\n": "line 2: could not convert string to float",
    b"1 2\nthe 0.5 nan\n": "line 2: a number is not finite",
    b"1 2\nthe 0.5 1e60\n": "line 2: a number is not finite",
    b"2 2\nthe 0.5 1\n": "has 1 words and its first line says 2",
    b"2 2\nthe 0.5 1\nthe 0.5 1\n": "has a word twice",
    b"1 2\n\xff 0.5 1\n": "line 2: byte 1 .* is not utf-8 text; convert the file to UTF-8 first",
}


@pytest.mark.parametrize("content", BROKEN)
def test_files_of_another_form_are_refused_by_line(tmp_path, content):
    (tmp_path / "1900.txt").write_bytes(content)
    with pytest.raises(ValueError, match=rf"1900\.txt.*{BROKEN[content]}"):
        import_word2vec(tmp_path)


def test_folders_of_another_form_are_refused(tmp_path):
    with pytest.raises(NotADirectoryError, match="is not a folder; pass one with files such as"):
        import_word2vec(tmp_path / "nothing")
    with pytest.raises(ValueError, match="there are no vectors in"):
        import_word2vec(tmp_path)
    (tmp_path / "old.txt").write_text("1 1\na 1\n")
    with pytest.raises(ValueError, match=r"old\.txt: no date in the name; .* a mapping of dates to files$"):
        import_word2vec(tmp_path)
    (tmp_path / "other.txt").write_text("1 2\na 1 2\n")
    with pytest.raises(ValueError, match=r"different lengths, \[1, 2\]"):
        import_word2vec({1900: tmp_path / "old.txt", 1901: tmp_path / "other.txt"})
    with pytest.raises(ValueError, match=r"old\.txt and .*other\.txt are of the same date"):
        import_word2vec({1900: tmp_path / "old.txt", "1900-01-01": tmp_path / "other.txt"})
    with pytest.raises(FileNotFoundError, match="there is no file"):
        import_word2vec({1900: tmp_path / "gone.txt"})


@pytest.mark.parametrize("mark", ["\r", "\r\n", "\n", "\x0b", "\x1c", "\x85", "\u2028", "\0", "\ud800"])
@pytest.mark.parametrize("format", ["word2vec", "csv", "npz"])
def test_odd_words_are_read_back_or_refused_by_name(independent, tmp_path, mark, format):
    fields = {name: getattr(independent, name) for name in independent.__dataclass_fields__}
    for word in (f"new{mark}york", f"york{mark}"):
        odd = Atlas(**(fields | {"vocabulary": ("the", word, "x")}))
        place = tmp_path if format == "word2vec" else tmp_path / f"x.{format}"
        is_lost = format == "word2vec" or mark in "\0\ud800" or (format == "csv" and "\r" in mark)
        if is_lost:
            with pytest.raises(ValueError, match=re.escape(f"the word {word!r} has {mark[0]!r} in it")):
                odd.export(place, format)
            assert list(tmp_path.iterdir()) == []
        else:
            odd.export(place, format)
            assert set(import_vectors(place).vocabulary) == {"the", word, "x"}
