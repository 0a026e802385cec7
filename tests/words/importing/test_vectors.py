import gzip
import hashlib
import io
import struct
import zipfile

import numpy as np
import pytest
import zstandard

from driftline.words.atlas.atlas import load
from driftline.words.importing.npz import npy
from driftline.words.importing.vectors import import_vectors, import_word2vec
from support.atlases import known_atlas

CSV = b'''date,word,x0,x1
1900-01-01,the,0.5,1
1900-01-01,"a,""b\nc""",0.25,-1
1910-01-01,the,0.5,2
'''


def vectors_of(atlas):
    """Vectors by date and word."""
    places = zip(atlas.dates[atlas.knots.step], atlas.knots.word, strict=True)
    return {
        (str(date), atlas.vocabulary[word]): tuple(vector)
        for (date, word), vector in zip(places, atlas.words.mean.tolist(), strict=True)
    }


def test_csv_is_read_with_quotes_and_line_ends_in_words(tmp_path):
    (tmp_path / "x.csv").write_bytes(CSV)
    found = import_vectors(tmp_path / "x.csv")
    assert vectors_of(found) == {
        ("1900-01-01", "the"): (0.5, 1.0),
        ("1900-01-01", 'a,"b\nc"'): (0.25, -1.0),
        ("1910-01-01", "the"): (0.5, 2.0),
    }
    record = {"name": "x.csv", "bytes": len(CSV), "sha256": hashlib.sha256(CSV).hexdigest()}
    assert found.provenance == {"source": "CSV", "files": [record]}
    assert found.settings == {"method": "imported", "dim": 2}


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("x.csv.gz", gzip.compress),
        ("x.csv.zst", zstandard.compress),
        ("X.CSV", lambda text: b"\xef\xbb\xbf" + text.replace(b"\n1910", b"\r\n\r\n1910")),
    ],
)
def test_csv_may_be_packed_or_from_a_spreadsheet(tmp_path, name, pack):
    (tmp_path / "x.csv").write_bytes(CSV)
    expected = vectors_of(import_vectors(tmp_path / "x.csv"))
    (tmp_path / name).write_bytes(pack(CSV))
    assert vectors_of(import_vectors(tmp_path / name)) == expected


def test_the_lines_of_csv_may_come_in_any_order(tmp_path):
    lines = ["1910,the,1", "1900-01-01,the,2", "1905-06,of,3", "1900,of,4"]
    (tmp_path / "x.csv").write_text("\n".join(["date,word,x0", *lines]))
    found = import_vectors(tmp_path / "x.csv")
    assert found.dates.astype(str).tolist() == ["1900-01-01", "1905-06-01", "1910-01-01"]
    np.testing.assert_array_equal(found.trajectory("the").mean[:, 0], [2, 0, 1])
    np.testing.assert_array_equal(found.trajectory("of").mean[:, 0], [4, 3, 0])


BROKEN_CSV = {
    b"": "x.csv: the first line is ''; name the columns date, word, x0",
    b"date,word\n": "the first line is 'date,word'",
    b"word,date,x0\na,1900,1\n": "the first line is 'word,date,x0'",
    b"date,word,x0,x2\n": "the first line is 'date,word,x0,x2'",
    b"date,word,x0\n": "no word has a vector that is not zero in .*x.csv",
    b"date,word,x0\n1900,a,0\n": "no word has a vector that is not zero in .*x.csv",
    b"date,word,x0\n1900,a,1\n1900,b\n": r"x.csv, line 3: 2 fields, \['1900', 'b'\], instead of a date",
    b"date,word,x0\n1900,a,1,2\n": "x.csv, line 2: 4 fields",
    b'date,word,x0\n1900,"a\nb",1\n1900,,1\n': "x.csv, line 4: 3 fields, .* instead of a date, a word",
    b"date,word,x0\nsoon,a,1\n": "x.csv, line 2: 'soon' is not a date; write dates like 1850-12-31",
    b"date,word,x0\n1900-02-30,a,1\n": "x.csv, line 2: '1900-02-30' is not a date",
    b"date,word,x0\n1900,a,b\n": "x.csv, line 2: could not convert string to float: 'b'; write numbers",
    b"date,word,x0\n1900,a,inf\n": "x.csv, line 2: a number is not finite",
    b"date,word,x0\n1900,a,1e60\n": "x.csv, line 2: a number is not finite",
    b"date,word,x0\n1900,a,1\n1900-01-01,a,2\n": "x.csv, line 3: the word 'a' is there twice at 1900-01-01",
    b"date,word,x0\n1900,a,0\n1900,a,2\n": "x.csv, line 3: the word 'a' is there twice at 1900; keep one",
    b'date,word,x0\n1900,a,1\n1900,"b,1\n': "x.csv, line 3: not CSV .*; look for a quote",
    b"date,word,x0\n1900,\xff,1\n": "x.csv, line 2: byte 6 .* is not utf-8 text; convert",
}


@pytest.mark.parametrize("content", BROKEN_CSV)
def test_csv_of_another_form_is_refused_by_line(tmp_path, content):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(ValueError, match=BROKEN_CSV[content]):
        import_vectors(tmp_path / "x.csv")


def some_arrays():
    """Two dates, three words, of which the second has a vector at the second date only."""
    mean = np.arange(1.0, 13.0, dtype=np.float32).reshape(2, 3, 2)
    mean[0, 1] = 0
    return {
        "vocabulary": np.array(["the", "new york", "café"]),
        "dates": np.array(["1900-01-01", "1910-01-01"], "datetime64[D]"),
        "mean": mean,
        "sd": np.full_like(mean, 0.5),
    }


def write_npz(path, changes=(), without=()):
    arrays = some_arrays() | dict(changes)
    np.savez(path, **{name: array for name, array in arrays.items() if name not in without})
    return path


def test_npz_has_no_vector_where_all_is_zero(tmp_path):
    found = import_vectors(write_npz(tmp_path / "x.npz"))
    assert found.vocabulary == ("the", "new york", "café")
    np.testing.assert_array_equal(found.knots.word, [0, 0, 1, 2, 2])
    np.testing.assert_array_equal(found.knots.step, [0, 1, 1, 0, 1])
    np.testing.assert_array_equal(found.occurrences_of("new york"), [0, 1])
    content = (tmp_path / "x.npz").read_bytes()
    record = {"name": "x.npz", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert found.provenance == {"source": "NumPy", "files": [record]}


def test_arrays_of_other_widths_and_orders_are_the_same_vectors(tmp_path):
    expected = vectors_of(import_vectors(write_npz(tmp_path / "x.npz")))
    arrays = some_arrays()
    arrays["vocabulary"] = arrays["vocabulary"].astype(">U99")
    arrays["mean"] = np.asfortranarray(arrays["mean"], ">f8")
    np.savez_compressed(tmp_path / "y.npz", **arrays)
    assert vectors_of(import_vectors(tmp_path / "y.npz")) == expected


def test_standard_deviations_give_the_bands_of_the_atlas_they_are_from(tmp_path):
    atlas = known_atlas(np.ones((6, 3), bool)).atlas
    atlas.export(tmp_path / "x.npz", "npz")
    import_vectors(tmp_path / "x.npz").save(tmp_path / "x.atlas")
    found = load(tmp_path / "x.atlas")
    single = {"rtol": 1e-4, "atol": 1e-5}  # of cosines, from numbers in single precision
    for part in ("mean", "lower", "upper"):
        expected = getattr(atlas.similarity("word0", "word1"), part)
        np.testing.assert_allclose(getattr(found.similarity("word0", "word1"), part), expected, **single)
    for part in ("expected", "lower", "upper"):
        expected = getattr(atlas.neighbors("word0", atlas.dates[1]), part)
        np.testing.assert_allclose(
            getattr(found.neighbors("word0", atlas.dates[1]), part), expected, **single
        )
    np.testing.assert_allclose(found.trajectory("word0").sd, atlas.trajectory("word0").sd, rtol=1e-6)
    assert found.changed(atlas.dates[0], atlas.dates[2]).probabilities is None


def test_without_a_vector_there_is_no_band_either(tmp_path):
    write_npz(tmp_path / "x.npz", {"sd": np.where(some_arrays()["mean"] == 0, np.nan, 0.5)})
    found = import_vectors(tmp_path / "x.npz")
    assert np.isnan(found.similarity("the", "new york").lower).tolist() == [True, False]
    found.export(tmp_path / "y.npz", "npz")
    again = import_vectors(tmp_path / "y.npz")
    np.testing.assert_array_equal(again.words.variance, found.words.variance)


def changed_at(name, place, number):
    array = some_arrays()[name]
    array[place] = number
    return {name: array}


BROKEN_NPZ = {
    "no dates": (
        {},
        ["dates"],
        "it holds vocabulary, mean, sd and not vocabulary, dates, mean and perhaps sd",
    ),
    "another array": ({"std": np.ones(3)}, [], "it holds vocabulary, dates, mean, sd, std and not"),
    "numbers for words": (
        {"vocabulary": np.arange(3)},
        [],
        "vocabulary has dtype int64, and not .* kind 'U'",
    ),
    "text for dates": ({"dates": np.array(["1900", "1910"])}, [], "dates has dtype <U4, and not"),
    "hours": ({"dates": np.arange(2).astype("datetime64[h]")}, [], "dates has dtype .* not datetime64.D."),
    "whole numbers": ({"mean": np.ones((2, 3, 2), int)}, [], "mean has dtype int64"),
    "one date": ({"mean": np.ones((3, 2))}, [], "mean has 2 axes instead of 3"),
    "no components": ({"mean": np.ones((2, 3, 0))}, [], r"mean has shape \(2, 3, 0\)"),
    "too few words": (
        {"vocabulary": np.array(["a", "b"])},
        [],
        r"has shape \(2, 3, 2\), with 2 dates, 2 words and mean of shape \(2, 3, 2\)",
    ),
    "too many dates": ({"dates": np.arange(3).astype("datetime64[D]")}, [], r"with 3 dates, 3 words"),
    "sd of one component": ({"sd": np.ones((2, 3, 1))}, [], r"sd has shape \(2, 3, 1\), .* mean of shape"),
    "a word twice": (changed_at("vocabulary", 2, "the"), [], "vocabulary has the word 'the' twice"),
    "an empty word": (changed_at("vocabulary", 2, ""), [], "vocabulary has an empty word"),
    "no character": ({"vocabulary": np.array([1, 2, 1 << 30], "<u4").view("<U1")}, [], "utf-32-le"),
    "half a character": ({"vocabulary": np.array([1, 2, 0xD800], "<u4").view("<U1")}, [], "utf-32-le"),
    "dates that fall": (
        {"dates": some_arrays()["dates"][::-1]},
        [],
        "the date 1900-01-01 comes after 1910-01",
    ),
    "a date twice": (changed_at("dates", 1, "1900-01-01"), [], "the date 1900-01-01 comes after 1900-01-01"),
    "no date": (changed_at("dates", 1, "NaT"), [], "there is a date NaT, which is not between"),
    "a far date": (changed_at("dates", 1, "10000-01-01"), [], "there is a date 10000-01-01, which is not"),
    "NaN": (changed_at("mean", (1, 2, 0), np.nan), [], "mean of 'café' at 1910-01-01 has a component of nan"),
    "too large": (
        {"mean": np.full((2, 3, 2), 1e60)},
        [],
        "mean of 'the' at 1900-01-01 has a component of inf",
    ),
    "sd of zero": (
        changed_at("sd", (1, 1, 1), 0),
        [],
        "sd of 'new york' at 1910-01-01 has a component of 0.0",
    ),
    "negative sd": (changed_at("sd", (1, 0, 1), -1), [], "sd of 'the' at 1910-01-01 has a component of -1.0"),
    "infinite sd": (changed_at("sd", (1, 0, 1), np.inf), [], "sd of 'the' .* has a component of inf"),
    "nothing": ({"mean": np.zeros((2, 3, 2))}, [], "no word has a vector that is not zero in"),
}


@pytest.mark.parametrize("case", BROKEN_NPZ)
def test_arrays_of_another_form_are_refused(tmp_path, case):
    changes, without, message = BROKEN_NPZ[case]
    with pytest.raises(ValueError, match=rf"x\.npz.*{message}|{message}.*x\.npz"):
        import_vectors(write_npz(tmp_path / "x.npz", changes, without))


def with_header(path, name, descr, shape, body=b""):
    """Write a file whose arrays are sound but for one, of which the header says what it likes."""
    content = io.BytesIO()
    npy.write_array_header_1_0(content, {"descr": descr, "fortran_order": False, "shape": shape})
    write_npz(path, without=[name, "sd"])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{name}.npy", content.getvalue() + body)
    return path


LYING = {
    "8 TiB": ("mean", "<f4", (1 << 40, 2, 1), "has 8,796,093,022,208 bytes, but 0 are there"),
    "more bytes than can be counted": ("mean", "<f8", (1 << 62, 1 << 62, 1), "bytes, but 0 are there"),
    "less than nothing": ("mean", "<f4", (-2, -3, 2), r"mean has shape \(-2, -3, 2\)"),
    "long words": ("vocabulary", f"<U{1 << 28}", (3,), "has 3,221,225,472 bytes, but 0 are there"),
    "many words of no length": ("vocabulary", "<U0", (1 << 60,), "vocabulary holds empty texts"),
    "objects": ("vocabulary", "|O", (3,), "vocabulary has dtype object"),
    "a dtype of many numbers": ("mean", ("<f4", (1 << 20,)), (2, 3, 2), "mean has dtype"),
    "no dtype": ("mean", "what", (2, 3, 2), "mean has a header that cannot be read .*'what'"),
    "no shape": ("mean", "<f4", ("a",), "mean has a header that cannot be read"),
}


@pytest.mark.parametrize("case", LYING)
def test_no_array_is_read_whose_header_lies(tmp_path, monkeypatch, case):
    name, descr, shape, message = LYING[case]
    with_header(tmp_path / "x.npz", name, descr, shape)
    monkeypatch.delattr(npy, "read_array")
    with pytest.raises(ValueError, match=rf"x\.npz: .*{message}.*; write it with np\.savez"):
        import_vectors(tmp_path / "x.npz")


def test_nested_headers_are_refused(tmp_path):
    for text in (b"-" * 9000 + b"1", b"(" * 9000, b"{[]: 1}"):
        write_npz(tmp_path / "x.npz", without=["mean"])
        with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
            archive.writestr("mean.npy", npy.magic(1, 0) + struct.pack("<H", len(text)) + text)
        with pytest.raises(ValueError, match=r"x\.npz: mean has a header that cannot be read"):
            import_vectors(tmp_path / "x.npz")


def test_archives_that_unpack_to_far_more_are_refused(tmp_path, monkeypatch):
    arrays = some_arrays()
    arrays["mean"], arrays["sd"] = np.zeros((2, 2, 3, 1_000_000), np.float32)
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(ValueError, match=r"mean unpacks from .* to 24,000,128, .* decompression bomb; write"):
        import_vectors(tmp_path / "x.npz")


def test_sizes_in_the_directory_of_an_archive_are_not_believed(tmp_path):
    content = bytearray(write_npz(tmp_path / "x.npz", without=["sd"]).read_bytes())
    entry = content.rindex(b"PK\1\2")  # of the mean; its sizes, packed and unpacked, begin at byte 20
    content[entry + 20 : entry + 28] = struct.pack("<II", 1 << 31, 1 << 31)
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"mean unpacks from [\d,]{3,5} bytes to 2,147,483,648, .* bomb"):
        import_vectors(tmp_path / "x.npz")


def test_objects_are_not_unpickled(tmp_path):
    opened = []

    class Trap:
        def __reduce__(self):
            return opened.append, (1,)

    write_npz(tmp_path / "x.npz", {"vocabulary": np.array([Trap()] * 3, object)})
    with pytest.raises(ValueError, match="vocabulary has dtype object"):
        import_vectors(tmp_path / "x.npz")
    assert not opened


def test_damaged_archives_are_refused_by_name(tmp_path):
    content = write_npz(tmp_path / "x.npz").read_bytes()
    place = content.index(some_arrays()["mean"].tobytes())
    flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    for damaged in (b"", b"x", CSV, content[:-30], content[200:], flipped):
        (tmp_path / "x.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"x\.npz is damaged or no \.npz file \(.*\); write it with"):
            import_vectors(tmp_path / "x.npz")


def test_vectors_of_zeros_in_word2vec_text_are_none(tmp_path):
    (tmp_path / "1900.txt").write_text("2 2\nthe 0.5 1\nof 0 0\n")
    found = import_word2vec(tmp_path)
    assert vectors_of(found) == {("1900-01-01", "the"): (0.5, 1.0)}
    assert found.vocabulary == ("the", "of")


def test_sources_of_another_form_are_refused(tmp_path):
    (tmp_path / "1900.txt").write_text("1 1\nthe 1\n")
    for source in (tmp_path, {1900: tmp_path / "1900.txt"}):
        assert vectors_of(import_vectors(source)) == {("1900-01-01", "the"): (1.0,)}
    with pytest.raises(ValueError, match=r"1900\.txt ends in none of \.csv, \.npz; if it is word2vec"):
        import_vectors(tmp_path / "1900.txt")
    for name in ("none", "none.csv", "none.npz"):
        with pytest.raises(FileNotFoundError, match=f"there is no file or folder .*{name}$"):
            import_vectors(tmp_path / name)


def test_by_default_imported_words_need_occur_but_once_to_be_compared(tmp_path):
    atlas = known_atlas(np.ones((30, 3), bool)).atlas
    dates = atlas.dates[0], atlas.dates[2]
    atlas.export(tmp_path / "x.npz", "npz")
    found = import_vectors(tmp_path / "x.npz").changed(*dates, n=30)
    assert set(found.words) == set(atlas.vocabulary)
    fitted = [atlas.changed(*dates, n=30, window=0, **kept).words for kept in ({}, {"min_count": 10})]
    assert fitted[0] == fitted[1]
    assert 0 < len(fitted[0]) < 30


def test_dates_without_a_common_word_are_not_compared(tmp_path):
    (tmp_path / "x.csv").write_text("date,word,x0\n1900,the,1\n1901,of,1\n")
    with pytest.raises(ValueError, match="none of the 2 words that occur at least 1 .* has a vector at both"):
        import_vectors(tmp_path / "x.csv").changed(1900, 1901)
