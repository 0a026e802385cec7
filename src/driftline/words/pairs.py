"""Sums of the weights of word pairs within a window, as array operations in bounded memory.

A pair of words i <= j at time step t is one number, (t V + i) V + j. Pairs are listed for each distance and
sorted, and their weights added up. Weights are whole numbers, so that the order of additions does not matter.
"""

from typing import NamedTuple

import numpy as np

LISTED = 1 << 21  # pairs that are listed at a time
PENDING = 1 << 22  # pairs that wait to be merged, at least
PIECE = 1 << 18  # pairs that are merged at a time: fresh memory costs more than the arithmetic
NOTHING = np.empty(0, np.int64)
NO_PAIR = np.int64(-1 << 32)  # less than minus any number of words


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
    heads = np.full(len(ids), NO_PAIR)
    heads[place] = passages.steps[owner] * (vocab_size * vocab_size) + ids[place] * vocab_size
    heads[ids < 0] = NO_PAIR
    total = Accumulator()
    end, block = len(ids) - len(units), max(1, LISTED // len(units))
    for start in range(0, end, block):
        total.add(_plain_block(ids, heads, start, min(start + block, end), units))
    return total.result()


def weight_bits(units: tuple[int, ...]) -> int:
    """Bits of a key that its weight takes."""
    return max(units).bit_length()


def _plain_block(ids, heads, start, end, units):
    """Pairs that begin in a block of places, when every passage is used once.

    `heads` is what the key of a pair begins with, (t V + i) V. It is so far below zero where there is no word
    that the key stays there, and is cut off after sorting. The weight rides on the key.
    """
    bits = weight_bits(units)
    keys = np.empty((len(units), end - start), np.int64)
    for distance, (unit, row) in enumerate(zip(units, keys, strict=True), 1):
        np.minimum(heads[start:end], heads[start + distance : end + distance], out=row)
        row += np.maximum(ids[start:end], ids[start + distance : end + distance])
        row <<= bits
        row += unit
    keys = keys.ravel()
    keys.sort()
    keys = keys[np.searchsorted(keys, 0) :]
    return _added(keys >> bits, keys & ((1 << bits) - 1))


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
            total.add(_sorted(keys, weights))
    return total.result()


def _sorted(keys, weights):
    """Sums over equal keys, in their order."""
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
    keys, sums = ([part[column] for part in parts] for column in (0, 1))
    return _sorted(np.concatenate([*keys, NOTHING]), np.concatenate([*sums, NOTHING]))
