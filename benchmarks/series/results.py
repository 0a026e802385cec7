"""What contestants left behind: how near the optimum, how soon, and how far from the reference."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.series.cases import GUIDES, NEWTON, NUTS, Case

NEAR = 0.1  # nats
MOST = 0.9  # of a climb


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one contestant measured; `measured` is empty, and `reason` is not, where it could not run."""

    measured: dict[str, Any]
    mean: np.ndarray | None = None
    sd: np.ndarray | None = None
    reason: str = ""

    @property
    def traces(self) -> list[np.ndarray]:
        """One per seed: rows of seconds and ELBO, without those that are not finite."""
        traces = [np.asarray(trace, float) for trace in self.measured.get("traces", [])]
        return [trace[np.isfinite(trace[:, 1])] for trace in traces]

    @property
    def elbo(self) -> float | None:
        """The ELBO at the end, the median over seeds."""
        elbos = self.measured.get("elbos")
        return float(np.median(elbos)) if elbos else None

    @property
    def best(self) -> float:
        """The best ELBO that any seed ever had."""
        return float(max(trace[:, 1].max() for trace in self.traces))

    def seconds_to(self, elbo: float) -> float | None:
        """Seconds until an ELBO is reached, the median over seeds; None if half of them never reach it."""
        times = [_first(trace, elbo) for trace in self.traces]
        middle = float(np.median(times)) if times else np.inf
        return middle if np.isfinite(middle) else None

    def seconds_to_own(self) -> float:
        """Seconds until each seed is near the best that it ever had itself, the median over seeds."""
        return float(np.median([_first(trace, trace[:, 1].max() - NEAR) for trace in self.traces]))

    def most_of_climb(self) -> tuple[float, float]:
        """Seconds until most of the way from the first step to a seed's own best, and the ELBO there.

        Unlike the best itself, which a falling rate reaches when the budget ends, this depends on it less.
        """
        levels = [(1 - MOST) * trace[0, 1] + MOST * trace[:, 1].max() for trace in self.traces]
        times = [_first(trace, level) for trace, level in zip(self.traces, levels, strict=True)]
        return float(np.median(times)), float(np.median(levels))


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Errors against NUTS, in its standard deviations: median and largest over time; ratios of sd."""

    median: float
    largest: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def ratio_error(self) -> float:
        """How far ratios of standard deviations are from one, the larger side."""
        return max(abs(math.log(self.ratio_low)), abs(math.log(self.ratio_high)))


@dataclasses.dataclass(frozen=True)
class Match:
    """A case with the outcomes of all contestants."""

    case: Case
    outcomes: dict[str, Outcome]

    @property
    def optimum(self) -> float:
        """The best ELBO that anyone reached; the family of all who are structured is the same."""
        return max(outcome.elbo for outcome in self.outcomes.values() if outcome.elbo is not None)

    @property
    def guides(self) -> Sequence[str]:
        """Guides that ran, the best first."""
        ran = [name for name in GUIDES if name in self.outcomes and self.outcomes[name].traces]
        return sorted(ran, key=lambda name: -self.outcomes[name].best)

    @property
    def newton(self) -> Outcome:
        """Ours."""
        return self.outcomes[NEWTON]

    def accuracy(self, name: str) -> Accuracy | None:
        """Against NUTS; None where either did not run."""
        reference, outcome = self.outcomes.get(NUTS), self.outcomes[name]
        if reference is None or reference.sd is None or reference.mean is None:
            return None
        if outcome.mean is None or outcome.sd is None or name == NUTS:
            return None
        errors = np.abs(outcome.mean - reference.mean) / reference.sd
        ratios = outcome.sd / reference.sd
        low, high = np.quantile(ratios, [0.01, 0.99])
        return Accuracy(*(float(v) for v in (np.median(errors), errors.max(), np.median(ratios), low, high)))


def _first(trace, elbo):
    reached = np.flatnonzero(trace[:, 1] >= elbo)
    return trace[reached[0], 0] if len(reached) else np.inf
