"""Counts in parts, and counts with shuffled dates."""

import collections

import numpy as np
import pytest

from driftline import words
from driftline.storage import checked_files as files
from driftline.words.counts.counts import KIND

ARRAYS = ("dates", "step_indptr", "rows", "indptr", "indices", "values", "occurrences", "tokens", "documents")


def marked(num_documents=60, length=30, num_years=5, seed=0):
    """Documents of some years, of which each has a word of its own; the last year has one only."""
    rng = np.random.default_rng(seed)
    for i in range(num_documents):
        year = 1804 if i == 0 else 1800 + int(rng.integers(num_years - 1))
        drawn = [f"w{w}" for w in np.minimum(rng.geometric(0.15, length), 20)]
        yield f"{year}-{1 + i % 12:02d}", " ".join([*drawn, f"mark{i}", "w1"])


@pytest.fixture(scope="module")
def corpus():
    return list(marked())


def counted(corpus, **options):
    return words.count(corpus, **({"vocabulary": 80, "step": "year", "progress": False} | options))


@pytest.fixture(scope="module", params=[3, 4])  # a third is not a number of single precision
def window(request):
    return request.param


@pytest.fixture(scope="module")
def counts(corpus, window):
    return counted(corpus, parts=4, window=window)


def assert_same(one, other):
    assert one.vocabulary == other.vocabulary
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name


def part_of_document(counts):
    """Part in which each document's own word stands."""
    place = [counts.index(f"mark{i}") for i in range(int(counts.documents.sum()))]
    table = counts.parts.occurrences[:, place]
    assert (table.sum(0) == 1).all()
    return table.argmax(0)


def test_parts_leave_the_counts_as_they_are(corpus, window, counts):
    whole = counted(corpus, window=window)
    assert_same(counts, whole)
    assert counts.fingerprint == whole.fingerprint
    assert len(counts) == counts.dates.size == 5
    assert whole.parts is None
    assert whole.num_parts == 5
    assert "parts" not in whole.provenance["options"]
    assert counts.provenance["options"].pop("parts") == 4
    assert counts.provenance == whole.provenance
    counts.provenance["options"]["parts"] = 4


def test_parts_do_not_choose_the_vocabulary():
    # By their mean share of a step, and not of a part or of some of its tokens.
    corpus = [("1850", "long " * 1000), *(("1850", f"new {i}") for i in range(20)), ("1851", "old old old")]
    counts = words.count(corpus, 3, rank="per-step", step="year", parts=6)
    assert counts.vocabulary == ("old", "long", "new")
    assert_same(counts, words.count(corpus, 3, rank="per-step", step="year"))


def test_every_step_has_at_most_so_many_parts_and_none_is_empty(counts):
    per_step = np.bincount(counts.parts.step)
    np.testing.assert_array_equal(per_step, [4, 4, 3, 4, 1])  # by chance, one part of the third is empty
    assert counts.num_parts == 16
    assert (counts.parts.documents > 0).all()
    assert f"{counts!r}".endswith("in 60 documents, dealt into 16 parts)")


def test_each_part_is_a_count_of_its_documents(corpus, counts):
    """Against a count in which each part is a time step of its own."""
    part = part_of_document(counts)
    alone = [(str(1000 + p), text) for p, (_, text) in zip(part, corpus, strict=True)]
    steps = words.count(alone, list(counts.vocabulary), counts.window, progress=False)
    for name in ARRAYS[1:]:
        np.testing.assert_array_equal(getattr(counts.parts, name), getattr(steps, name), err_msg=name)
    years = [int(date[:4]) - 1800 for date, _ in corpus]
    np.testing.assert_array_equal(counts.parts.step[part], years)


@pytest.mark.parametrize("options", [{"processes": 2, "buffer": 500}, {"buffer": 1}, {"rank": "per-step"}])
def test_neither_order_nor_buffers_nor_processes_matter(corpus, options):
    # The order of words of the same rank is that of the alphabet.
    one = counted(corpus, parts=3, rank=options.get("rank", "total"))
    other = counted(corpus[::-1], parts=3, **options)
    assert_same(one, other)
    for name in one.parts._fields:
        np.testing.assert_array_equal(getattr(one.parts, name), getattr(other.parts, name), err_msg=name)


def test_copies_of_a_document_stay_together_in_their_step():
    corpus = [(date, "the same again") for date in ("1850-01", "1850-02", "1850-02", "1851")]
    counts = words.count(corpus, 3, step="year", parts=50)
    np.testing.assert_array_equal(counts.parts.step, [0, 1])
    np.testing.assert_array_equal(counts.parts.documents, [3, 1])


def test_documents_are_dealt_evenly():
    many = 4000
    counts = words.count([(1850 + i % 2, f"a b {i}") for i in range(many)], ["a", "b"], parts=5)
    # Each part of a step is binomial; five standard deviations are passed once in a million.
    expected, share = many / 2 / 5, 1 / 5
    sd = np.sqrt(many / 2 * share * (1 - share))
    assert counts.num_parts == 10
    assert np.abs(counts.parts.documents - expected).max() < 5 * sd


def test_half_a_character_can_be_dealt():
    assert words.count([(1850, "a b \ud800"), (1851, "a b")], ["a", "b"], parts=2).num_parts == 2


def test_empty_documents_change_no_part(corpus):
    holes = [document for each in corpus for document in ((each[0], "..."), each)]
    one, other = counted(corpus, parts=3), counted(holes, parts=3)
    for name in one.parts._fields:
        np.testing.assert_array_equal(getattr(one.parts, name), getattr(other.parts, name), err_msg=name)


def test_empty_documents_are_in_no_part():
    corpus = [(1850, "a b"), (1850, "..."), (1851, ""), (1851, "b a")]
    counts = words.count(corpus, 2, parts=9)
    np.testing.assert_array_equal(counts.parts.documents, [1, 1])
    assert counts.provenance["empty_documents"] == 2


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_shuffled_counts_are_those_of_documents_with_other_dates(corpus, counts, seed):
    shuffled = counts.shuffled(seed)
    np.testing.assert_array_equal(np.bincount(shuffled.parts.step), np.bincount(counts.parts.step))
    years = 1800 + shuffled.parts.step[part_of_document(counts)]
    dated = [(str(year), text) for year, (_, text) in zip(years, corpus, strict=True)]
    recounted = words.count(dated, list(counts.vocabulary), counts.window, step="year", progress=False)
    assert_same(shuffled, recounted)


def test_a_shuffle_moves_parts_and_keeps_totals(counts):
    shuffled = counts.shuffled(0)
    assert shuffled.fingerprint != counts.fingerprint
    for name in ("occurrences", "tokens", "documents"):
        np.testing.assert_array_equal(getattr(shuffled, name).sum(0), getattr(counts, name).sum(0))
    assert shuffled.values.sum(dtype=np.float64) == pytest.approx(
        counts.values.sum(dtype=np.float64), rel=1e-6
    )
    assert shuffled.num_parts == counts.num_parts
    np.testing.assert_array_equal(shuffled.dates, counts.dates)


def test_the_seed_decides_and_is_on_record(counts):
    assert_same(counts.shuffled(3), counts.shuffled(3))
    assert len({counts.shuffled(seed).fingerprint for seed in range(20)}) == 20
    again = counts.shuffled(3).shuffled(np.int64(4))
    assert again.provenance == counts.provenance | {"shuffled": [3, 4]}
    assert "shuffled" not in counts.provenance
    for seed in (-1, 1.5, True, None):
        with pytest.raises(ValueError, match=f"seed={seed}; a whole number"):
            counts.shuffled(seed)


def test_every_part_comes_to_every_step_as_often():
    corpus = [(1850 + i % 3, f"a b {i}") for i in range(30)]
    counts = words.count(corpus, ["a", "b"], parts=100)
    per_step, num = np.bincount(counts.parts.step), 900
    found = np.zeros((counts.num_parts, 3))
    for seed in range(num):
        found[np.arange(counts.num_parts), counts.shuffled(seed).parts.step] += 1
    expected = num * per_step / counts.num_parts
    # Of about 90 numbers, each binomial, one is five standard deviations off once in 20,000 times.
    assert np.abs(found - expected).max() < 5 * np.sqrt(num * 2 / 9)


def test_without_parts_whole_steps_change_places():
    texts = ["a b c", "", "b b a", "c a c a", "a b d d c"]
    corpus = [(1850 + i, text or "x x") for i, text in enumerate(texts)]  # of which one has no pair
    counts = words.count(corpus, ["a", "b", "c", "d"])
    seen = collections.Counter()
    for seed in range(60):
        shuffled = counts.shuffled(seed)
        # Tokens tell all but the first and third step apart, and these have other words.
        order = [
            next(
                s
                for s in range(5)
                if counts.tokens[s] == shuffled.tokens[t]
                and (counts.occurrences[s] == shuffled.occurrences[t]).all()
            )
            for t in range(5)
        ]
        assert sorted(order) == list(range(5))
        dated = [(1850 + t, corpus[s][1]) for t, s in enumerate(order)]
        assert_same(shuffled, words.count(dated, list(counts.vocabulary)))
        assert shuffled.parts is None
        assert shuffled.provenance["shuffled"] == [seed]
        seen[tuple(order)] += 1
    assert len(seen) > 40  # of 120 orders


def test_two_steps_of_one_part_can_be_shuffled():
    counts = words.count([(1850, "a b"), (1851, "b a b")], ["a", "b"])
    found = {tuple(counts.shuffled(seed).tokens) for seed in range(20)}
    assert found == {(2, 3), (3, 2)}


@pytest.mark.parametrize("seed", [None, 5])
def test_parts_survive_their_file(counts, seed, tmp_path):
    counts = counts if seed is None else counts.shuffled(seed)
    counts.save(tmp_path / "x")
    loaded = words.load_counts(tmp_path / "x")
    assert_same(loaded, counts)
    assert loaded.fingerprint == counts.fingerprint
    for name in counts.parts._fields:
        a, b = getattr(loaded.parts, name), getattr(counts.parts, name)
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)
    assert_same(loaded.shuffled(9), counts.shuffled(9))


def test_a_file_without_parts_is_as_it_was(corpus, tmp_path):
    counted(corpus).save(tmp_path / "x")
    arrays, _ = files.read(tmp_path / "x", KIND)
    assert sorted(arrays) == sorted({*ARRAYS, "days"} - {"dates"})


BROKEN = {
    "part_step has dtype": lambda a: a.update(part_step=a["part_step"].astype(np.int64)),
    "part_step has 2 axes": lambda a: a.update(part_step=a["part_step"][None]),
    "parts belong to steps that are not there": lambda a: a["part_step"].__setitem__(0, 5),
    "a step has no part": lambda a: a["part_step"].__setitem__(-1, 0),
    "occurrences have another shape": lambda a: a.update(part_step=a["part_step"][:-1]),
    "pointers have another length": lambda a: a.update(step_indptr=a["step_indptr"][:-1]),
    "a part has no document": lambda a: a["documents"].__setitem__(2, 0),
    "a count is not a multiple of its weights": lambda a: a["values"].__setitem__(3, 0.1),
    "a count is not positive": lambda a: a["values"].__setitem__(3, np.inf),
}


@pytest.mark.parametrize("what", BROKEN)
def test_parts_that_do_not_agree_are_refused(counts, what, tmp_path):
    path = tmp_path / "x.counts"
    counts.save(path)
    arrays, facts = files.read(path, KIND)
    arrays = {name: array.copy() for name, array in arrays.items()}
    BROKEN[what](arrays)
    files.write(path, KIND, arrays, facts)
    with pytest.raises(
        ValueError, match=rf"x\.counts does not hold sound counts \({what}.*\); count the texts again"
    ):
        words.load_counts(path)


@pytest.mark.parametrize("parts", [0, 1.5, True, "2"])
def test_what_is_no_number_of_parts_is_refused(parts):
    with pytest.raises(ValueError, match=f"parts={parts!r}; a whole number of at least 1"):
        words.count([], parts=parts)
    with pytest.raises(ValueError, match="parts=1001; take at most 1000"):
        words.count([], parts=1001)


def test_tables_of_ngrams_have_no_parts(tmp_path):
    (tmp_path / "x").write_text("a b\t1850\t3\t1\na b\t1851\t4\t1\n")
    table = words.ngrams(tmp_path / "x")
    with pytest.raises(ValueError, match="parts=2, but tables of n-grams have no documents to deal"):
        words.count(table, ["a", "b"], parts=2)
    counts = words.count(table, ["a", "b"])
    assert {tuple(counts.shuffled(seed).tokens) for seed in range(9)} == {(6, 8), (8, 6)}
