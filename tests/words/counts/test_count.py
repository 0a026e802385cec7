import collections
import hashlib
import io
import itertools
import json
import signal
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftline import words
from driftline.words.counts.workers import Workers
from driftline.words.texts.corpus import Corpus
from driftline.words.texts.sources import DatedTexts

ARRAYS = ("dates", "step_indptr", "rows", "indptr", "indices", "values", "occurrences", "tokens", "documents")


def dense(counts, t):
    step = counts.step(t)
    matrix = np.zeros((len(counts.vocabulary),) * 2)
    for i, word in enumerate(step.words):
        row = slice(step.indptr[i], step.indptr[i + 1])
        matrix[word, step.words[step.indices[row]]] = step.values[row]
    return matrix


def named(counts, t):
    """Positive counts by the names of the words."""
    matrix = dense(counts, t)
    return {
        (counts.vocabulary[i], counts.vocabulary[j]): matrix[i, j]
        for i, j in zip(*np.nonzero(matrix), strict=True)
    }


def assert_same(one, other):
    assert one.vocabulary == other.vocabulary
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def both_orders(pairs):
    return {key: value for (a, b), value in pairs.items() for key in ((a, b), (b, a))}


def test_a_text_counted_by_hand():
    # Places:     0 1 2 3 4 5    and, in another document of the same day, 0 1
    corpus = [("1850", "a b c x a d"), ("1850", "d a"), ("1851", "a a")]
    counts = words.count(corpus, vocabulary=["a", "b", "c", "d"])
    assert named(counts, 0) == both_orders(
        {
            ("a", "b"): 1 + 0.5,  # distances 1 and 3
            ("a", "c"): 0.75 + 0.75,  # 2 and 2: the x, not in the vocabulary, keeps its place
            ("a", "a"): 0.25 * 2,  # distance 4, in both orders
            ("a", "d"): 1 + 1,  # distance 1, and 1 in the second document; distance 5 counts nothing
            ("b", "c"): 1,
            ("b", "d"): 0.25,  # distance 4
            ("c", "d"): 0.5,  # distance 3
        }
    )
    assert named(counts, 1) == {("a", "a"): 2.0}
    np.testing.assert_array_equal(counts.occurrences, [[3, 1, 1, 2], [2, 0, 0, 0]])
    np.testing.assert_array_equal(counts.tokens, [8, 2])
    np.testing.assert_array_equal(counts.documents, [2, 1])
    np.testing.assert_array_equal(counts.dates, np.array(["1850-01-01", "1851-01-01"], "datetime64[D]"))


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_weights_fall_with_the_distance(window):
    counts = words.count([("1850", "a b c d e f"), ("1851", "a b")], vocabulary=list("abcdef"), window=window)
    expected = [max(0, 1 - between / window) for between in range(5)]
    np.testing.assert_allclose(dense(counts, 0)[0, 1:], expected, rtol=1e-7)


def test_windows_end_with_the_document():
    apart = words.count([("1850", "a"), ("1850", "b a"), ("1851", "a b")], vocabulary=["a", "b"])
    assert named(apart, 0) == {("a", "b"): 1.0, ("b", "a"): 1.0}


def test_negative_counts_follow_from_the_marginals():
    corpus = [("1850", "a b c a b a d"), ("1851", "a b")]
    counts = words.count(corpus, vocabulary=list("abcde"))
    positive = dense(counts, 0)
    share = positive.sum(axis=1) / positive.sum()
    smooth = share**0.75 / (share**0.75).sum()
    expected = positive.sum() * 1.0 * np.outer(share, smooth)
    step = counts.step(0)
    np.testing.assert_array_equal(step.words, [0, 1, 2, 3])  # e is not there
    np.testing.assert_allclose(step.marginals, share[:4], rtol=1e-15)
    negatives = step.negatives()
    np.testing.assert_allclose(np.outer(*negatives), expected[:4, :4], rtol=1e-14)
    assert np.outer(*negatives).sum() == pytest.approx(positive.sum(), rel=1e-14)
    np.testing.assert_allclose(step.negatives(ratio=5, exponent=0).columns, np.full(4, 0.25), rtol=1e-15)
    assert step.negatives(ratio=5).rows.sum() == pytest.approx(5 * step.total, rel=1e-14)
    assert not expected[4].any()
    assert not expected[:, 4].any()


def test_negative_counts_by_hand():
    # With a window of 1, neighbours only: 15 pairs of a and a, each in both orders, and 2 of a and b.
    corpus = [("1850", "a " * 16), ("1850", "b a"), ("1850", "a b"), ("1851", "a b")]
    step = words.count(corpus, vocabulary=["a", "b", "c"], window=1).step(0)
    assert step.total == 30 + 2 + 2
    np.testing.assert_allclose(step.marginals, [32 / 34, 2 / 34], rtol=1e-15)
    # The shares are as 16 to 1, so that their powers to 3/4 are as 8 to 1.
    negatives = np.outer(*step.negatives())
    np.testing.assert_allclose(negatives, [[32 * 8 / 9, 32 / 9], [2 * 8 / 9, 2 / 9]], rtol=1e-14)
    np.testing.assert_allclose(negatives.sum(axis=1), [32, 2], rtol=1e-14)  # as of the positive ones
    np.testing.assert_allclose(negatives.sum(axis=0), [34 * 8 / 9, 34 / 9], rtol=1e-14)


DOCUMENTS = st.lists(
    st.tuples(
        st.sampled_from(["1850", "1850-03", "1861", "1862"]),
        st.lists(st.sampled_from("abcdefg"), max_size=15),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(DOCUMENTS, st.integers(1, 6), st.integers(2, 6), st.sampled_from(["total", "per-step"]))
def test_counts_equal_those_of_the_definition(documents, window, size, rank):
    every_pair = [("1862", list(pair)) for pair in itertools.combinations("abcdefg", 2)]
    documents = [("1850", list("ab")), *every_pair, *documents]
    counts = _quiet(
        [(date, " ".join(text)) for date, text in documents], size, window, step="year", rank=rank
    )
    by_year = collections.defaultdict(list)
    for date, text in documents:
        by_year[date[:4]].append(text)
    years = sorted(year for year in by_year if any(by_year[year]))
    assert [str(date)[:4] for date in counts.dates] == years
    _assert_ranked(counts.vocabulary, _scores(by_year, years, rank), size, rank)
    for t, year in enumerate(years):
        expected = collections.Counter()
        for text in by_year[year]:
            for a, b in ((a, b) for a in range(len(text)) for b in range(len(text)) if a != b):
                weight = max(0, 1 - (abs(a - b) - 1) / window)
                if weight and {text[a], text[b]} <= set(counts.vocabulary):
                    expected[text[a], text[b]] += weight
        assert named(counts, t) == pytest.approx(dict(expected), rel=1e-6)
        tokens = [word for text in by_year[year] for word in text]
        assert counts.tokens[t] == len(tokens)
        assert counts.occurrences[t].tolist() == [tokens.count(word) for word in counts.vocabulary]
        if counts.step(t).words.size:
            assert (np.diff(counts.step(t).words) > 0).all()


def _scores(by_year, years, rank):
    found = collections.Counter()
    for year in years:
        tokens = [word for text in by_year[year] for word in text]
        for word in tokens:
            found[word] += 1 if rank == "total" else 1 / len(tokens)
    return found


def _assert_ranked(vocabulary, scores, size, rank):
    """Highest first, and the alphabet decides; shares that are equal may differ by a rounding."""
    if rank == "total":
        assert vocabulary == tuple(sorted(scores, key=lambda word: (-scores[word], word)))[:size]
    others = [score for word, score in scores.items() if word not in vocabulary]
    ranked = [scores[word] for word in vocabulary] + [max(others, default=0)]
    assert len(vocabulary) == min(size, len(scores))
    assert all(after < before + 1e-9 for before, after in itertools.pairwise(ranked))


def _quiet(corpus, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return words.count(corpus, *arguments, **options)


def zipfian(num_documents, length, num_words=500, seed=0):
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, num_words + 1)
    for i in range(num_documents):
        tokens = rng.choice(num_words, length, p=shares / shares.sum())
        yield (
            f"{1800 + i % 7}-{1 + i % 12:02d}",
            " ".join(f"w{token}é" if token % 50 == 1 else f"w{token}" for token in tokens),
        )


@pytest.fixture(scope="module")
def zipf():
    return list(zipfian(200, 100))


@pytest.mark.parametrize("buffer", [1, 1000, 33_333])
@pytest.mark.parametrize("rank", ["total", "per-step"])
def test_the_size_of_the_buffer_changes_nothing(zipf, buffer, rank):
    options = {"step": "year", "rank": rank}
    assert_same(words.count(zipf, 300, buffer=buffer, **options), words.count(zipf, 300, **options))


def test_the_order_of_documents_changes_nothing(zipf):
    assert_same(words.count(zipf, 300, step="month"), words.count(zipf[::-1], 300, step="month"))


def test_processes_change_nothing(zipf):
    alone = words.count(zipf, 300, step="month", buffer=5000)
    together = words.count(zipf, 300, step="month", buffer=5000, processes=2)
    assert_same(alone, together)
    assert alone.provenance == together.provenance


def test_ctrl_c_is_left_to_the_first_process():
    with Workers(2) as workers:
        assert list(workers.map(signal.getsignal, [(signal.SIGINT,)])) == [signal.SIG_IGN]


def test_a_tokeniser_that_cannot_travel_is_refused(zipf):
    with pytest.raises(ValueError, match="cannot be sent to other processes.*processes=1"):
        words.count(zipf, 300, tokenise=lambda text: text.split(), processes=2)


def test_any_function_can_cut_texts():
    corpus = [("1850", "a-b-a"), ("1851", "b-a")]
    counts = words.count(corpus, 2, tokenise=lambda text: text.split("-"))
    assert counts.vocabulary == ("a", "b")
    assert words.count(corpus, 2, tokenise=words.Tokeniser(lower=False)).vocabulary == ("a", "b")
    for wrong, error in (
        (lambda _: [1, 2], TypeError),
        (lambda _: ["a", ""], TypeError),
        (lambda _: ["\0"], ValueError),
    ):
        with pytest.raises(error, match="tokenise"):
            words.count(corpus, 2, tokenise=wrong)


def test_rank_by_share_keeps_a_long_text_from_choosing_alone():
    corpus = [("1850", "new " * 5 + "long " * 1000), ("1851", "old old"), ("1852", "old and")]
    assert words.count(corpus, 2).vocabulary == ("long", "new")
    assert words.count(corpus, 2, rank="per-step").vocabulary == ("old", "long")


def test_stop_words_and_rare_words_are_not_chosen():
    corpus = [("1850", "the cat the dog"), ("1851", "the cat the dog once")]
    counts = words.count(corpus, 2, stop=["the"], min_count=2)
    assert counts.vocabulary == ("cat", "dog")
    assert named(counts, 0) == {("cat", "dog"): 0.75, ("dog", "cat"): 0.75}, "a stop word keeps its place"


def test_a_vocabulary_larger_than_the_corpus_is_said_and_cut():
    with pytest.warns(UserWarning, match="of 10000 words was asked for, but only 2 words") as caught:
        counts = words.count([("1850", "a b"), ("1851", "a")])
    assert counts.vocabulary == ("a", "b")
    assert caught[0].filename == __file__


def test_steps_can_be_joined():
    corpus = [("1850-01-01", "a b"), ("1850-01-06", "a b"), ("1850-01-13", "a b"), ("1850-03-01", "a")]
    counts = words.count(corpus, 2, join_days=7)
    assert [str(date) for date in counts.dates] == ["1850-01-01", "1850-01-13", "1850-03-01"]
    np.testing.assert_array_equal(counts.documents, [2, 1, 1])
    assert len(counts.step(2).words) == 0
    assert counts.step(2).total == 0
    assert counts.step(2).negatives().rows.shape == (0,)


def test_empty_documents_are_skipped_counted_and_the_first_is_named():
    counts = words.count([("1850", "a b"), ("1850", "..."), ("1851", ""), ("1852", "a")], 2)
    assert counts.provenance["empty_documents"] == 2
    assert counts.provenance["first_empty"] == "document 2"
    assert repr(counts).endswith("2 documents; skipped as empty: 2, the first at document 2)")
    assert len(counts) == 2


@pytest.mark.parametrize("buffer", [1, 1000])
def test_an_empty_document_is_named_by_its_place(tmp_path, buffer):
    (tmp_path / "x.csv").write_text("date,text\n1850,a b\n1851,a b\n1852,...\n")
    counts = words.count(words.read(tmp_path / "x.csv"), 2, buffer=buffer)
    assert counts.skipped == "skipped as empty: 1, x.csv, row 3 (line 4)"
    for year, text in ((1850, "a b"), (1851, "--"), (1852, "b a")):
        (tmp_path / f"{year}.txt").write_text(text)
    (tmp_path / "x.csv").unlink()
    assert words.count(words.read(tmp_path), 2, buffer=buffer).skipped == "skipped as empty: 1, 1851.txt"


BAD = {
    "all documents are empty": (
        [("1850", ""), ("1851", "!")],
        {},
        "all 2 documents are empty; check the name",
    ),
    "no document": ([], {}, "there is no document"),
    "one time step": (
        [("1850", "a b"), ("1850", "a")],
        {},
        "all 2 documents fall into one time step, 1850-01-01; .* finer step=",
    ),
    "one decade": ([("1850", "a b"), ("1851", "a")], {"step": "decade"}, "one time step, 1850-01-01"),
    "a bad date": ([("1850", "a"), ("soon", "b")], {}, "document 2: 'soon' is not a date"),
    "no text": ([("1850", 5)], {}, "document 1: the text is 5, not a string"),
    "no pairs": ([("1850", "a"), ("1851", "b")], {}, "no two words of the vocabulary stand near each other"),
    "a vocabulary that is not there": (
        [("1850", "a"), ("1851", "b")],
        {"vocabulary": ["x", "y"]},
        "none of the 2 words",
    ),
    "a vocabulary with a repeat": ([], {"vocabulary": ["x", "y", "x"]}, "'x' is in the vocabulary twice"),
    "a vocabulary of one": ([], {"vocabulary": 1}, "at least two words"),
    "a minimum that is too high": ([("1850", "a b"), ("1851", "b")], {"min_count": 5}, "lower min_count"),
    "no window": ([], {"window": 0}, "window=0; a whole number"),
    "an unknown rank": ([], {"rank": "best"}, "rank='best'; choose one of"),
    "no processes": ([], {"processes": 0}, "processes=0; a whole number"),
    "half a process": ([], {"processes": "2"}, "processes='2'; a whole number"),
    "a choice among words that are given": (
        [("1850", "a b"), ("1851", "a b")],
        {"vocabulary": ["a", "b"], "stop": ["a"]},
        "stop=, min_count= and rank= choose a vocabulary, but it is given",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_remedy(case):
    corpus, options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        words.count(corpus, **({"vocabulary": 2} | options))


def test_what_is_no_pair_is_refused():
    with pytest.raises(TypeError, match="document 2 is 'text', not a pair"):
        words.count([("1850", "a"), "text"], 2)
    with pytest.raises(TypeError, match="is one string"):
        words.count([], "words")
    with pytest.raises(TypeError, match="stop='the' is one string"):
        words.count([], stop="the")


def test_the_source_is_on_record(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [{"date": f"{year}-01-02", "text": "a b c"} for year in range(1850, 1860)]
    path.write_text("\n".join(map(json.dumps, rows)))
    counts = words.count(words.read(path).between(1851, 1855), 3, step="year", stop=["x"], min_count=2)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(counts) == 5
    assert counts.provenance == {
        "source": {
            "kind": "tables", "date": "date", "text": "text", "date_format": None, "encoding": "utf-8",
            "delimiter": None, "quoted": None, "start": "1851-01-01", "end": "1855-12-31",
        },
        "files": [{"name": "x.jsonl", "bytes": path.stat().st_size, "sha256": digest}],
        "num_files": 1,
        "skipped_files": [],
        "num_skipped_files": 0,
        "sha256": digest,
        "empty_documents": 0,
        "first_empty": None,
        "options": {
            "vocabulary": 3, "window": 4, "step": "year", "join_days": 0, "tokenise": "Tokeniser(lower=True)",
            "rank": "total", "min_count": 2, "stop": ["x"],
        },
    }  # fmt: skip


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "driftline.words.counts.pairs.PENDING", 1 << 14
    )  # else a corpus this small is never merged
    peaks = []
    for num_documents in (1500, 6000):
        path = tmp_path / f"{num_documents}.tsv"
        with path.open("w") as file:
            file.write("date\ttext\n")
            file.writelines(f"{date}\t{text}\n" for date, text in zipfian(num_documents, 50, num_words=60))
        tracemalloc.start()
        words.count(words.read(path), 60, step="year", buffer=20_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_one_time_step_names_the_source(tmp_path):
    (tmp_path / "a.csv").write_text("date,text\n1850,a b\n")
    (tmp_path / "b.csv").write_text("date,text\n1850,b a\n")
    with pytest.raises(ValueError, match=r"^a\.csv and 1 more: all 2 documents fall into one time step"):
        words.count(words.read(tmp_path), 2)


def test_no_more_than_all_is_read(monkeypatch):
    told = []
    texts = Corpus(DatedTexts([(1850, "a b"), (1851, "a b")]))
    scan = DatedTexts.scan

    def underestimated(self, tally):
        tally.bytes_total, tally.bytes_read = 10, 12
        return scan(self, tally)

    monkeypatch.setattr(DatedTexts, "scan", underestimated)
    words.count(texts, 2, progress=told.append)
    assert [each.share for each in told] == [1, 1]


def test_progress_is_told():
    told = []
    words.count(zipfian(50, 50), 100, step="year", buffer=2000, progress=told.append)
    assert [each.phase for each in told] == sorted((each.phase for each in told), reverse=True)
    assert {each.phase for each in told} == {"reading", "pairing"}
    assert told[-1].share == 1
    assert told[-1].tokens == 2500
    assert all(each.tokens_per_second > 0 for each in told)


def test_progress_is_written_on_request(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("date,text\n1850,a b\n1851,a b\n")
    words.count(words.read(path), 2, progress=True)
    assert capsys.readouterr().err.startswith("\rreading  100%  4 words")
    words.count(words.read(path), 2)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_is_named_and_nothing_stays_behind(zipf, monkeypatch):
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: io.FileIO("/dev/full", "r+"))
    with pytest.raises(
        OSError, match="a temporary file in .*: the disk is full; free some space there, or .*TMPDIR"
    ):
        words.count(zipf, 300)
