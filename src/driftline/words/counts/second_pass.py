"""The second pass of a count: words become places in the vocabulary, and pairs of them are counted."""

from collections.abc import Iterator

import numpy as np

from driftline.words.counts.dealing import Deal
from driftline.words.counts.pairs import Accumulator, PairSums, Passages, pair_sums, weight_bits
from driftline.words.counts.progress import CountReporter
from driftline.words.counts.spool import Spool
from driftline.words.counts.step_counts import compressed
from driftline.words.counts.time_steps import TimeSteps
from driftline.words.counts.workers import Workers
from driftline.words.texts.passages import Encoded, Numbering


class Pairing:
    """Counts of words and of pairs, for each part of each time step.

    Args:
        numbering: Numbers of all words of the corpus.
        vocabulary: The words that count.
        deal: The parts; with one for each step, the steps.
        units: Weights of the distances 1, 2, … as whole numbers.

    Attributes:
        occurrences: How often each word of the vocabulary occurs in each part.
    """

    def __init__(self, numbering: Numbering, vocabulary: tuple[str, ...], deal: Deal, units: tuple[int, ...]):
        self._places = np.full(len(numbering), -1, np.int32)
        for place, word in enumerate(vocabulary):
            if word in numbering:
                self._places[numbering[word]] = place
        if (self._places < 0).all():
            raise ValueError(f"none of the {len(vocabulary)} words of the vocabulary occurs in the corpus")
        if len(deal.step) * len(vocabulary) ** 2 >= 1 << (62 - weight_bits(units)):
            raise ValueError(
                f"{len(vocabulary)} words at {len(deal.step)} steps, or parts of steps, make more pairs than "
                "can be numbered; take fewer of either"
            )
        self._deal = deal
        self._units = units
        self._total = Accumulator()
        self.occurrences = np.zeros((len(deal.step), len(vocabulary)), np.int64)

    def run(self, spool: Spool, workers: Workers, report: CountReporter) -> None:
        """Go through the passages of a spool."""
        done = 0
        for sums, size in workers.map(_sums_and_size, self._jobs(spool)):
            self._total.add(sums)
            done += size
            report.update("pairing", done, done / spool.size)

    def arrays(self, one: int) -> dict[str, np.ndarray]:
        """The positive counts as arrays of `Counts`; `one` is the number that stands for the weight 1."""
        total = self._total.result()
        if not len(total.keys):
            raise ValueError(
                "no two words of the vocabulary stand near each other in any document; "
                "take a larger vocabulary or a larger window"
            )
        num_steps, vocab_size = self.occurrences.shape
        return compressed(total, one, num_steps, vocab_size)

    def _jobs(self, spool):
        vocab_size = self.occurrences.shape[1]
        for encoded in spool:
            ids, steps = self._places[encoded.ids], self._deal.of(encoded.days, encoded.hands)
            for word, use, weight in words_at_uses(ids, encoded):
                np.add.at(self.occurrences.reshape(-1), steps[use] * vocab_size + word, weight)
            passages = Passages(ids, encoded.lengths, encoded.uses, steps, encoded.weights)
            yield passages, self._units, vocab_size


def _sums_and_size(passages, units, vocab_size) -> tuple[PairSums, int]:
    return pair_sums(passages, units, vocab_size), len(passages.ids)


def words_at_uses(
    ids: np.ndarray, encoded: Encoded
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | int]]:
    """Every use of every word: the words, the uses and their weights, in a few groups.

    Args:
        ids: Words at all places, negative where none stands that is wanted.
        encoded: Whose places and uses they are.
    """
    if not len(encoded.uses):
        kept = ids >= 0
        yield ids[kept], np.repeat(np.arange(len(encoded.lengths)), encoded.lengths)[kept], 1
        return
    first_use = np.cumsum(encoded.uses) - encoded.uses
    first_place = np.cumsum(encoded.lengths) - encoded.lengths
    for offset in range(int(encoded.lengths.max())):
        place = np.minimum(first_place + offset, len(ids) - 1)
        kept = np.flatnonzero((ids[place] >= 0) & (offset < encoded.lengths))
        many = encoded.uses[kept]
        use = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many - first_use[kept], many)
        yield np.repeat(ids[place[kept]], many), use, encoded.weights[use]


def mean_shares(spool: Spool, steps: TimeSteps, tokens: np.ndarray, num_words: int) -> np.ndarray:
    """Mean share of every word in the words of a step, times a constant, as whole numbers.

    Whole numbers, because the order of a floating-point sum would else decide between words of equal rank.

    Args:
        spool: The passages.
        steps: The time steps.
        tokens: How many words each step has.
        num_words: How many different words there are.
    """
    one = 1 << (62 - len(tokens).bit_length())
    weight_at = one // np.maximum(tokens, 1)
    scores = np.zeros(num_words, np.int64)
    for encoded in spool:
        at = steps.of(encoded.days)
        for word, use, weight in words_at_uses(encoded.ids - 1, encoded):
            np.add.at(scores, word, weight_at[at[use]] * weight)
    return scores
