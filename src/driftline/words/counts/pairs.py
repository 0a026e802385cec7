"""Sums of the weights of word pairs within a window, as array operations in bounded memory.

A pair of words i <= j at time step t is one number, (t V + i) V + j. Pairs are listed for each distance and
sorted, and their weights added up. Weights are whole numbers, so that the order of additions does not matter.
"""

import itertools
from typing import NamedTuple

import numpy as np

LISTED = 1 << 21  # pairs that are listed at a time
PENDING = 1 << 22  # pairs that wait to be merged, at least
PIECE = 1 << 18  # pairs that are merged at a time: fresh memory costs more than the arithmetic
FEWEST = 1 << 12  # places that are worth a block of their own
NOTHING = np.empty(0, np.int64)


class Passages(NamedTuple):
    """Passages as the kernel takes them.

    Attributes:
        ids: Vocabulary index of every place of all passages, -1 where no word of the vocabulary stands.
        lengths: Number of places in each passage.
        uses: Number of uses of each passage; empty if each has one use of weight 1.
        steps: Time step of each use.
        weights: Weight of each use; empty if all are 1.
    """

    ids: np.ndarray
    lengths: np.ndarray
    uses: np.ndarray
    steps: np.ndarray
    weights: np.ndarray


class PairSums(NamedTuple):
    """Different pairs, increasing, and the sum of the weights of each."""

    keys: np.ndarray
    sums: np.ndarray


def pair_sums(passages: Passages, units: tuple[int, ...], vocab_size: int) -> PairSums:
    """Sum of the weights of every unordered pair of words.

    Two places of a passage at distance d add `units[d - 1]` to the pair of their words. Pairs do not reach
    from one passage into the next.

    Args:
        passages: The passages.
        units: Weights of the distances 1, 2, …, as whole numbers.
        vocab_size: Number of words.
    """
    units = units[: passages.lengths.max() - 1]  # no distance is longer
    if not units:
        return PairSums(NOTHING, NOTHING)
    owner = np.repeat(np.arange(len(passages.lengths)), passages.lengths)
    place = np.arange(len(owner)) + len(units) * owner
    # Gaps without a word, as long as the window, keep passages apart, and the end within bounds.
    ids = np.full(len(passages.ids) + len(units) * (len(passages.lengths) + 1), -1, np.int64)
    ids[place] = passages.ids
    if len(passages.uses):
        return _weighted(passages, ids, place, owner, units, vocab_size)
    heads = np.zeros(len(ids), np.int64)  # without meaning where there is no word
    heads[place] = passages.steps[owner] * (vocab_size * vocab_size) + ids[place] * vocab_size
    total = Accumulator()
    borders = place[np.flatnonzero(np.diff(passages.steps[owner], prepend=-1))]  # where another step begins
    most, fitting = max(1, LISTED // len(units)), steps_in_32_bits(units, vocab_size)
    start, end = 0, len(ids) - len(units)
    while start < end:
        stop = _stop(start, end, borders, most, fitting)
        total.add(_plain_block(ids[start:], heads[start:], stop - start, units, vocab_size))
        start = stop
    return total.result()


def _stop(start, end, borders, most, fitting):
    """Where a block of at most so many places ends.

    Not within a step, if it can be, so that its pairs are of no other block; and after no more steps than
    32 bits can hold, unless these are so short that blocks would be many.
    """
    following = np.searchsorted(borders, start, side="right")
    few = borders[following + fitting - 1] if 0 < fitting <= len(borders) - following else end
    if FEWEST <= few - start <= most:
        return int(few)
    if start + most >= end:
        return end
    last = borders[np.searchsorted(borders, start + most, side="right") - 1]
    return int(last) if last > start else start + most


def steps_in_32_bits(units: tuple[int, ...], vocab_size: int) -> int:
    """Of how many steps pairs and their weights can be told apart by 31 bits and a sign."""
    return (1 << 31 - weight_bits(units)) // (vocab_size * vocab_size + vocab_size)


def weight_bits(units: tuple[int, ...]) -> int:
    """Bits of a key that its weight takes."""
    return max(units).bit_length()


def _plain_block(ids, heads, size, units, vocab_size):
    """Pairs that begin in the first `size` places, when every passage is used once.

    `heads` is what the key of a pair begins with, (t V + i) V. Where there is no word it is put so far below
    zero that the key stays there, and is cut off after sorting. The weight rides on the key. Where 32 bits
    can hold both, counted from the block's first key, sorting takes half the time.
    """
    bits, reach = weight_bits(units), size + len(units)
    ids, heads = ids[:reach], heads[:reach]
    is_word = ids >= 0
    if not is_word.any():
        return PairSums(NOTHING, NOTHING)
    low, high = heads[is_word].min(), heads[is_word].max()
    dtype = np.int32 if (int(high - low) + vocab_size) << bits < 1 << 31 else np.int64
    ids = ids.astype(dtype, copy=False)
    heads = np.where(is_word, heads - low, -vocab_size).astype(dtype)
    keys = np.empty((len(units), size), dtype)
    for distance, (unit, row) in enumerate(zip(units, keys, strict=True), 1):
        np.minimum(heads[:size], heads[distance : distance + size], out=row)
        row += np.maximum(ids[:size], ids[distance : distance + size])
        row <<= bits
        row += unit
    keys = keys.ravel()
    keys.sort()
    keys = keys[np.searchsorted(keys, 0) :]
    found = _added(keys >> bits, keys & ((1 << bits) - 1))
    return PairSums(found.keys + low, found.sums)


def _weighted(passages, ids, place, owner, units, vocab_size):
    """Pairs of passages with several uses, each of its own weight."""
    window = len(units)
    owner_at = np.zeros(len(ids), np.int64)
    owner_at[place] = owner
    uses = passages.uses.astype(np.int64)
    begin = np.cumsum(uses) - uses
    total = Accumulator()
    end, block = len(ids) - window, max(1, int(LISTED / uses.mean()))
    for start in range(0, end, block):
        one = ids[start : min(start + block, end)]
        for distance, unit in enumerate(units, 1):
            other = ids[start + distance : start + distance + len(one)]
            there = np.flatnonzero((one | other) >= 0)
            first, second, whose = one[there], other[there], owner_at[start:][there]
            pair = np.minimum(first, second) * vocab_size + np.maximum(first, second)
            many = uses[whose]
            use = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many - begin[whose], many)
            keys = np.repeat(pair, many) + passages.steps[use] * (vocab_size * vocab_size)
            weights = unit * passages.weights[use]
            total.add(added_up(keys, weights))
    return total.result()


def added_up(keys: np.ndarray, weights: np.ndarray) -> PairSums:
    """Sums over equal keys, in the order of the keys."""
    if not len(keys):
        return PairSums(keys, weights)
    bits = int(weights.max()).bit_length()
    if int(keys.max()) < 1 << (62 - bits):
        # Sorting numbers is several times faster than sorting places of numbers.
        both = np.sort((keys << bits) | weights)
        return _added(both >> bits, both & ((1 << bits) - 1))
    order = np.argsort(keys, kind="stable")
    return _added(keys[order], weights[order])


def _added(keys, weights):
    """Sums over runs of equal keys."""
    if not len(keys):
        return PairSums(keys, weights)
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    # Differences of running sums take a third of the time of np.add.reduceat on runs this short.
    ends = np.append(starts[1:], len(keys)) - 1
    sums = np.cumsum(weights)[ends]
    sums[1:] -= sums[:-1].copy()
    return PairSums(keys[starts], sums)


class Accumulator:
    """Adds sums up; memory grows with the number of different pairs, not with what is added.

    New sums wait until they are as many as those that have been merged, so that each is merged a few times.
    """

    def __init__(self):
        self._merged = PairSums(NOTHING, NOTHING)
        self._waiting: list[PairSums] = []
        self._size = 0

    def add(self, more: PairSums) -> None:
        """Add sums of some pairs."""
        self._waiting.append(more)
        self._size += len(more.keys)
        if self._size > max(PENDING, len(self._merged.keys)):
            self._merge()

    def result(self) -> PairSums:
        """All sums."""
        self._merge()
        return self._merged

    def _merge(self):
        parts = [part for part in (self._merged, *self._waiting) if len(part.keys)]
        self._waiting, self._size = [], 0
        if len(parts) > 1:
            pieces = [_merged(piece) for piece in _by_range(parts)]
            self._merged = PairSums(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
        elif parts:
            self._merged = parts[0]


def _by_range(parts):
    """The parts cut at the same keys: lists of slices that hold about `PIECE` keys in all."""
    num_pieces = 1 + sum(len(part.keys) for part in parts) // PIECE
    sample = np.sort(np.concatenate([part.keys[:: PIECE // 64] for part in parts]))
    borders = sample[np.arange(1, num_pieces) * len(sample) // num_pieces]
    cuts = [[0, *np.searchsorted(part.keys, borders), len(part.keys)] for part in parts]
    for i in range(num_pieces):
        yield [
            PairSums(part.keys[cut[i] : cut[i + 1]], part.sums[cut[i] : cut[i + 1]])
            for part, cut in zip(parts, cuts, strict=True)
            if cut[i] < cut[i + 1]
        ]


def _merged(parts):
    if len(parts) == 1:
        return parts[0]
    keys, sums = (np.concatenate([*(part[column] for part in parts), NOTHING]) for column in (0, 1))
    # Texts come in the order of time more often than not, and then what they add does too.
    if all(one.keys[-1] < next_one.keys[0] for one, next_one in itertools.pairwise(parts)):
        return PairSums(keys, sums)
    return added_up(keys, sums)
