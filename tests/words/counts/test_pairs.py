import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftline.words.counts import pairs
from driftline.words.counts.pairs import Accumulator, PairSums, Passages, pair_sums

SIZE, UNITS = 5, (4, 3, 2, 1)


def oracle(texts, steps, uses, weights, units=UNITS, size=SIZE):
    """Sums over unordered pairs, place by place."""
    sums = collections.Counter()
    for text, of_text in zip(texts, np.split(np.arange(len(steps)), np.cumsum(uses)[:-1]), strict=True):
        for a, first in enumerate(text):
            for distance, unit in enumerate(units, 1):
                if a + distance < len(text) and first >= 0 and text[a + distance] >= 0:
                    low, high = sorted((first, text[a + distance]))
                    for use in of_text:
                        sums[(steps[use] * size + low) * size + high] += unit * weights[use]
    return dict(sums)


def passages(texts, steps, uses=(), weights=()):
    return Passages(
        np.array([i for text in texts for i in text], np.int32),
        np.array([len(text) for text in texts], np.int32),
        np.array(uses, np.int32),
        np.array(steps, np.int64),
        np.array(weights, np.int64),
    )


def as_dict(sums):
    assert (np.diff(sums.keys) > 0).all()
    return dict(zip(sums.keys.tolist(), sums.sums.tolist(), strict=True))


TEXT = st.lists(st.integers(-1, SIZE - 1), min_size=1, max_size=12)


@given(
    st.lists(st.tuples(TEXT, st.integers(0, 3)), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from([1, 2, 29, 1 << 21]),
    st.sampled_from([1, 20, 1 << 12]),
    # Of the number of words it depends how many steps 32 bits can hold: many, two, none.
    st.sampled_from([SIZE, 10_000, 100_000]),
)
def test_texts_are_paired_as_place_by_place(dated, in_order, listed, fewest, size):
    if in_order:
        dated = sorted(dated, key=lambda pair: pair[1])
    texts, steps = zip(*dated, strict=True)
    ones = [1] * len(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "LISTED", listed)
        patch.setattr(pairs, "FEWEST", fewest)
        found = pair_sums(passages(texts, steps), UNITS, size)
    assert as_dict(found) == oracle(texts, steps, ones, ones, size=size)


@pytest.mark.parametrize(("size", "steps"), [(10_000, 2), (16_383, 1), (20_000, 0)])
def test_as_many_steps_as_32_bits_can_tell_apart(size, steps):
    assert pairs.steps_in_32_bits(UNITS, size) == steps
    last_pair = (size - 1) * size + size - 1  # of the last words, with the largest weight
    assert ((max(0, steps - 1) * size * size + last_pair) * 8 + max(UNITS) < 1 << 31) == (steps > 0)


USES = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 1 << 39)), min_size=1, max_size=4)


@given(st.lists(st.tuples(TEXT, USES), min_size=1, max_size=5), st.sampled_from([1, 9, 1 << 21]))
def test_weighted_passages_are_paired_as_place_by_place(used, listed):
    texts = [text for text, _ in used]
    uses = [len(each) for _, each in used]
    steps, weights = zip(*(use for _, each in used for use in each), strict=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "LISTED", listed)
        got = pair_sums(passages(texts, steps, uses, weights), UNITS, SIZE)
    assert as_dict(got) == oracle(texts, steps, uses, weights)


@given(
    st.lists(st.dictionaries(st.integers(0, 1 << 61), st.integers(1, 1 << 40), max_size=20), max_size=8),
    st.sampled_from([1, 10, 1 << 22]),
    st.sampled_from([64, 1 << 18]),
)
def test_sums_add_up_however_they_are_merged(parts, pending, piece):
    expected = collections.Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "PENDING", pending)
        patch.setattr(pairs, "PIECE", piece)
        total = Accumulator()
        for part in parts:
            keys = np.array(sorted(part), np.int64)
            total.add(PairSums(keys, np.array([part[key] for key in keys.tolist()], np.int64)))
            expected.update(part)
        assert as_dict(total.result()) == dict(expected)


def test_large_merges_go_piece_by_piece():
    rng = np.random.default_rng(0)
    total, expected = Accumulator(), np.zeros(1_000_000, np.int64)
    for _ in range(5):
        keys = np.unique(rng.integers(0, 1_000_000, 400_000))
        total.add(PairSums(keys, keys % 7 + 1))
        expected[keys] += keys % 7 + 1
    result = total.result()
    np.testing.assert_array_equal(result.keys, np.flatnonzero(expected))
    np.testing.assert_array_equal(result.sums, expected[expected > 0])


def test_the_window_may_be_wider_than_any_text():
    text = [0, 1, 0]
    wide = tuple(range(40_000, 0, -1))
    got = pair_sums(passages([text, [1]], [0, 1]), wide, SIZE)
    assert as_dict(got) == {0: 39_999, 1: 80_000}
