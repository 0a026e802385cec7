"""Counts of the steps that take part in a fit, made ready for it."""

import dataclasses
import functools
import hashlib

import numpy as np

from driftline.words.counts.counts import Counts
from driftline.words.counts.step_counts import Negatives, StepCounts
from driftline.words.fitting import likelihood
from driftline.words.paths import priors
from driftline.words.paths.knots import Knots, tie
from driftline.words.settings import DIM, WordSettings

SHARED = ("steps", "negatives", "_tied", "total")  # do not depend on the prior


@dataclasses.dataclass(frozen=True, eq=False)
class FittingProblem:
    """What is fitted.

    Attributes:
        counts: All counts.
        settings: Hyperparameters.
        training: Steps that take part, increasing.
        dtype: Of the numbers.
        paces: What the drift is multiplied by, for words of each pace.
        pace: Which of these each word has, (V,); the first, if it is None.
    """

    counts: Counts
    settings: WordSettings
    training: np.ndarray
    dtype: type = np.float32
    paces: tuple[float, ...] = (1.0,)
    pace: np.ndarray | None = None

    @functools.cached_property
    def steps(self) -> list[StepCounts]:
        """Positive counts of the training steps."""
        return [self.counts.step(int(t)) for t in self.training]

    @functools.cached_property
    def negatives(self) -> list[Negatives]:
        """Negative counts of the training steps."""
        return [step.negatives(self.settings.ratio, self.settings.exponent) for step in self.steps]

    @functools.cached_property
    def _tied(self) -> tuple[Knots, list[np.ndarray]]:
        return tie(self.steps, len(self.counts.vocabulary))

    @property
    def knots(self) -> Knots:
        """Rows of the embeddings."""
        return self._tied[0]

    @property
    def places(self) -> list[np.ndarray]:
        """Rows that belong to the words of each step."""
        return self._tied[1]

    @property
    def dim(self) -> int:
        """Dimension of the embeddings; at first, if the texts are to decide."""
        wanted = self.settings.dim
        return min(DIM, len(self.counts.vocabulary)) if wanted is None else wanted

    @functools.cached_property
    def drift(self) -> priors.Drift:
        """The prior over the training steps."""
        settings = self.settings
        pace = np.zeros(len(self.counts.vocabulary), np.int32) if self.pace is None else self.pace
        return priors.make(settings.prior, self.dates, *settings.numbers, paces=self.paces, pace=pace)

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

    def given(
        self,
        drift: float,
        scale: float,
        paces: tuple[float, ...] = (1.0,),
        pace: np.ndarray | None = None,
    ) -> "FittingProblem":
        """The same with these numbers of the prior; what was worked out of the counts is shared."""
        settings = dataclasses.replace(self.settings, drift=drift, scale=scale)
        made = dataclasses.replace(self, settings=settings, paces=paces, pace=pace)
        shared = {name: self.__dict__[name] for name in SHARED if name in self.__dict__}
        made.__dict__.update(shared)
        return made

    @functools.cached_property
    def fingerprint(self) -> str:
        """Tells this fit from any other: counts, steps and settings."""
        what = f"({self.settings.signature}, {np.dtype(self.dtype).str!r})"
        digest = hashlib.sha256(what.encode())
        digest.update(np.ascontiguousarray(self.training).data)
        self.counts.feed(digest)
        return digest.hexdigest()


def check_problem(problem: FittingProblem) -> None:
    """Refuse counts from which nothing can be learnt."""
    if len(problem.training) < 2:
        raise ValueError(
            f"{len(problem.training)} time steps are left to fit; drift needs at least two: hold out fewer"
        )
    if not any(len(step.words) for step in problem.steps):
        raise ValueError(
            "no step has a pair of words of the vocabulary: count with a larger vocabulary or window"
        )
