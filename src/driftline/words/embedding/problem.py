"""Counts of the steps that take part in a fit, made ready for it."""

import dataclasses
import functools
import hashlib

import numpy as np

from driftline.words.atlas import drift
from driftline.words.atlas.knots import Knots, tie
from driftline.words.counts import Counts
from driftline.words.embedding import likelihood
from driftline.words.settings import Settings
from driftline.words.step_counts import Negatives, StepCounts


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """What is fitted.

    Attributes:
        counts: All counts.
        settings: Hyperparameters.
        training: Steps that take part, increasing.
        dtype: Of the numbers.
    """

    counts: Counts
    settings: Settings
    training: np.ndarray
    dtype: type = np.float32

    @functools.cached_property
    def steps(self) -> list[StepCounts]:
        """Positive counts of the training steps."""
        return [self.counts.step(int(t)) for t in self.training]

    @functools.cached_property
    def negatives(self) -> list[Negatives]:
        """Negative counts of the training steps."""
        return [step.negatives(self.settings.ratio, self.settings.exponent) for step in self.steps]

    @functools.cached_property
    def _tied(self):
        return tie(self.steps, len(self.counts.vocabulary))

    @property
    def knots(self) -> Knots:
        """Rows of the embeddings."""
        return self._tied[0]

    @property
    def places(self) -> list[np.ndarray]:
        """Rows that belong to the words of each step."""
        return self._tied[1]

    @functools.cached_property
    def drift(self) -> drift.Drift:
        """The prior over the training steps."""
        settings = self.settings
        return drift.make(settings.prior, self.dates, settings.drift, settings.scale)

    @property
    def dates(self) -> np.ndarray:
        """Dates of the training steps."""
        return self.counts.dates[self.training]

    @functools.cached_property
    def total(self) -> float:
        """Sum of all positive and negative counts."""
        return sum(step.total for step in self.steps) * (1.0 + self.settings.ratio)

    def batches(self) -> list[likelihood.Batch]:
        """The counts as the likelihood takes them."""
        return likelihood.batches(self.steps, self.negatives, self.places, len(self.knots), self.dtype)

    def pooled(self) -> list[likelihood.Batch]:
        """All counts together, as those of a single step at which every word is present."""
        size = len(self.counts.vocabulary)
        everything = _sum(self.steps, size)
        negatives = everything.negatives(self.settings.ratio, self.settings.exponent)
        return likelihood.batches([everything], [negatives], [everything.words], size, self.dtype)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Tells this fit from any other: counts, steps and settings."""
        digest = hashlib.sha256(repr((self.settings, np.dtype(self.dtype).str)).encode())
        digest.update(np.ascontiguousarray(self.training).data)
        self.counts.feed(digest)
        return digest.hexdigest()


def _sum(steps, num_words):
    """Sum of the counts of all steps; the likelihood of pooled counts writes out as large a matrix too."""
    total = np.zeros((num_words, num_words), np.float32)
    for step in steps:
        total[np.repeat(step.words, np.diff(step.indptr)), step.words[step.indices]] += step.values
    first, second = np.nonzero(total)
    present, row = np.unique(first, return_inverse=True)
    place = np.zeros(num_words, np.int32)
    place[present] = np.arange(len(present))
    indptr = np.searchsorted(row, np.arange(len(present) + 1))
    return StepCounts(present.astype(np.int32), indptr, place[second], total[first, second])
