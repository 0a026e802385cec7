import codecs
import gzip
import os
import threading

import numpy as np
import pytest

from driftline import words

# Two layouts of the same 3-grams; tagged ones and a year out of range among them.
OF_2012 = """\
The cat sat\t1800\t3\t1
The cat sat\t1801\t5\t2
The cat_NOUN sat\t1800\t3\t1
_START_ the cat\t1800\t2\t1
cat , the\t1801\t7\t1
cat sat cat\t1801\t2\t2
cat sat the\t2009\t100\t9
"""
OF_2020 = """\
The cat sat\t1800,3,1\t1801,5,2
The cat_NOUN sat\t1800,3,1
_START_ the cat\t1800,2,1
cat , the\t1801,7,1
cat sat cat\t1801,2,2
cat sat the\t2009,100,9
"""
YEARS = (1800, 2008)


def named(counts, t):
    step = counts.step(t)
    row = np.repeat(np.arange(len(step.words)), np.diff(step.indptr))
    names = [counts.vocabulary[word] for word in step.words]
    return {
        (names[i], names[j]): v
        for i, j, v in zip(row, step.indices, step.values, strict=True)
        if names[i] <= names[j]
    }


@pytest.fixture(params=["2012", "2020", "2012.gz", "2020.gz"])
def path(request, tmp_path):
    content = (OF_2012 if request.param.startswith("2012") else OF_2020).encode()
    path = tmp_path / request.param
    path.write_bytes(gzip.compress(content) if path.suffix else content)
    return path


def test_both_layouts_give_the_counts_made_by_hand(path):
    counts = words.count(words.ngrams(path, years=YEARS), ["the", "cat", "sat"], step="year")
    assert [str(date) for date in counts.dates] == ["1800-01-01", "1801-01-01"]
    assert named(counts, 0) == {("cat", "the"): 3.0, ("cat", "sat"): 3.0, ("sat", "the"): 2.25}
    assert named(counts, 1) == {
        ("cat", "the"): 5 + 0.75 * 7,  # the comma keeps its place
        ("cat", "sat"): 5 + 2 * 2,
        ("sat", "the"): 0.75 * 5,
        ("cat", "cat"): 0.75 * 2 * 2,
    }
    np.testing.assert_array_equal(counts.occurrences, [[3, 3, 3], [12, 16, 7]])
    np.testing.assert_array_equal(counts.tokens, [9, 42])
    np.testing.assert_array_equal(counts.documents, [3, 14])
    assert counts.provenance["source"]["kind"] == "3-grams"
    assert counts.provenance["num_files"] == 1


def test_the_words_are_ranked_by_matches(path):
    assert words.count(words.ngrams(path, years=YEARS), 3).vocabulary == ("cat", "the", "sat")
    by_share = words.count(words.ngrams(path, years=YEARS), 3, rank="per-step").vocabulary
    assert by_share == ("cat", "the", "sat")


@pytest.mark.parametrize("buffer", [1, 40, 1 << 20])
def test_buffers_and_processes_change_nothing(path, buffer):
    whole = words.count(words.ngrams(path), 3)
    parts = words.count(
        words.ngrams(path), 3, buffer=buffer, processes=2 if buffer == 40 and not path.suffix else 1
    )
    assert whole.vocabulary == parts.vocabulary
    for name in ("dates", "rows", "indptr", "indices", "values", "occurrences", "tokens", "documents"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_ngrams_can_be_looked_at(path):
    found = list(words.ngrams(path, case="keep", years=YEARS))
    assert found[0] == (("The", "cat", "sat"), [1800, 1801], [3, 5])
    assert found[1] == (("cat", None, "the"), [1801], [7])
    assert len(found) == 3


def test_tags_are_dropped_stripped_or_kept(path):
    stripped = list(words.ngrams(path, tags="strip"))
    assert stripped[1] == (("the", "cat", "sat"), [1800], [3])
    assert stripped[2] == ((None, "the", "cat"), [1800], [2])
    kept = list(words.ngrams(path, tags="keep"))
    assert kept[1].words == ("the", "cat_NOUN", "sat")
    assert len(kept) == 6


@pytest.mark.parametrize(
    ("token", "stem"), [("_", None), ("_NOUN_", None), ("._.", None), ("x_X", "x"), ("a_NOUNS", "a_nouns")]
)
def test_odd_tokens(tmp_path, token, stem):
    (tmp_path / "x").write_text(f"{token} b\t1800\t1\t1\n")
    (found,) = words.ngrams(tmp_path / "x", tags="strip")
    assert found.words == (stem, "b")


def test_divided_by_their_overlap_ngrams_count_as_the_text_they_came_from(tmp_path):
    text = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"] * 3
    pad = [","] * 4  # the ends of the text, so that every pair is in all its 5-grams
    padded = [*pad, *text, *pad]
    grams = [" ".join(padded[i : i + 5]) for i in range(len(padded) - 4)]
    (tmp_path / "x").write_text("".join(f"{gram}\t{year}\t1\t1\n" for year in (1800, 1801) for gram in grams))
    vocabulary = sorted(set(text))
    divided = words.count(words.ngrams(tmp_path / "x", overlap="divide"), vocabulary)
    running = words.count([(1800, " ".join(text)), (1801, " ".join(text))], vocabulary)
    for name in ("rows", "indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(divided, name), getattr(running, name))
    kept = words.count(words.ngrams(tmp_path / "x"), vocabulary)
    assert kept.step(0).total > divided.step(0).total


def test_several_tables_are_one(tmp_path):
    (tmp_path / "a").write_text("the cat\t1800\t1\t1\n")
    (tmp_path / "b").write_text("\nthe cat\t1801,2,1\n")
    for source in (tmp_path, [tmp_path / "a", tmp_path / "b"]):
        counts = words.count(words.ngrams(source), 2)
        assert [record["name"] for record in counts.provenance["files"]] == ["a", "b"]
        np.testing.assert_array_equal(counts.values, [1, 2])


BAD = {
    "another n": (
        "the cat\t1800\t1\t1\nthe cat sat\t1800\t1\t1\n",
        "x, line 2: 'the cat sat' is not a 2-gram",
    ),
    "no numbers": ("the cat\n", "x, line 1: b'' is not year, matches and volumes"),
    "a word for a number": ("the cat\t1800\tten\t1\n", "x, line 1: b'1800,ten,1' is not year"),
    "a hole": ("the cat\t1800,,1\n", "x, line 1: b'1800,,1' is not year"),
    "two numbers": ("the cat\t1800,1\t1801,1\n", "x, line 1: b'1800,1' is not year"),
    "a negative number": ("the cat\t1800\t-1\t1\n", "x, line 1"),
    "a year that is none": ("the cat\t0\t1\t1\n", "x, line 1: 1 matches in the year 0 cannot be"),
    "absurd matches": ("the cat\t1800\t99999999999999999999\t1\n", "cannot be"),
    "no text": (b"the \xff\xfe\t1800\t1\t1\n", "x, line 1: the n-gram: byte 5.*; convert the file to UTF-8"),
    "one year": ("the cat\t1800\t1\t1\n", "one time step, 1800-01-01"),
    "only tags": ("the_DET cat\t1800\t1\t1\n", "there is no document"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_by_line(tmp_path, case):
    content, message = BAD[case]
    (tmp_path / "x").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        words.count(words.ngrams(tmp_path / "x"), 2)


def test_bad_options_are_refused(tmp_path):
    (tmp_path / "x").write_text("the cat\t1800\t1\t1\n")
    for options in ({"case": "upper"}, {"tags": "some"}, {"overlap": "half"}, {"years": (1900, 1800)}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}="):
            words.ngrams(tmp_path / "x", **options)
    with pytest.raises(ValueError, match="leave tokenise= out"):
        words.count(words.ngrams(tmp_path / "x"), 2, tokenise=str.split)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        words.ngrams(tmp_path / "y")
    (tmp_path / "single").write_text("cat\t1800\t1\t1\n")
    with pytest.raises(
        ValueError, match="single: 1-grams, or no n-grams at all; pairs of words need 2-grams"
    ):
        words.ngrams(tmp_path / "single")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="no line in it"):
        words.ngrams(tmp_path / "empty")


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(codecs.BOM_UTF8 + b"cat sat\t1800,3,1\ncat ran\t1801,5,2\n")
    assert [ngram.words for ngram in words.ngrams(path)] == [("cat", "sat"), ("cat", "ran")]


def test_years_that_the_tables_do_not_have_are_explained(path):
    remedy = "none of the years 1900 to 1950, but begin with n-grams of 1800 to 2009: change years="
    with pytest.raises(ValueError, match=remedy):
        words.count(words.ngrams(path, years=(1900, 1950)), 2)


def test_a_table_that_is_named_twice_is_refused(tmp_path):
    path = tmp_path / "table"
    path.write_text(OF_2020)
    with pytest.raises(ValueError, match="are one file and would count twice; name it once"):
        words.ngrams([path, tmp_path / "." / ".." / tmp_path.name / "table"])
    (tmp_path / "table.gz").write_bytes(gzip.compress(OF_2020.encode()))
    with pytest.raises(ValueError, match=r"table and .*table\.gz look like one file"):
        words.ngrams(tmp_path)


def test_what_is_beside_the_tables_is_named(tmp_path):
    (tmp_path / "table").write_text(OF_2020)
    (tmp_path / "more").mkdir()
    assert words.count(words.ngrams(tmp_path), 2).skipped.endswith("files not read: 1, more")


def test_tables_may_come_through_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=[OF_2020])
    writer.start()
    table = words.ngrams(tmp_path / "pipe", years=YEARS)
    writer.join()
    assert words.count(table, ["the", "cat", "sat"], step="year").tokens.tolist() == [9, 42]
