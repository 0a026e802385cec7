"""Which series are fitted, by whom, and with what budget."""

import dataclasses
from typing import Any

from benchmarks.series.problem import COUNTS, VOLATILITY

NEWTON, BBVI = "driftline newton", "driftline bbvi"
EKF, GH, CUTHBERT = "dynamax EKF smoother", "dynamax GH smoother", "cuthbert Taylor smoother"
BAYESNEWTON, NUTS = "BayesNewton", "NumPyro NUTS"
SMOOTHERS = (EKF, GH, CUTHBERT)
# Names of NumPyro's guides; the table in `series_guides`, which imports NumPyro, has their classes.
DIAGONAL, WHITENED = "AutoDiagonalNormal", "AutoDiagonalNormal, non-centred"
LOW_RANK, FULL = "AutoLowRankMultivariateNormal", "AutoMultivariateNormal"
GUIDES = (DIAGONAL, WHITENED, LOW_RANK, FULL)


@dataclasses.dataclass(frozen=True)
class Case:
    """A series, and how much each contestant may do with it.

    Attributes:
        name: For tables.
        kind: Of data.
        num_steps: Their length.
        budget: Seconds of one run of a guide.
        guides: Those that are run.
        seeds: Of guides; and repeats of what has no seed.
        bbvi_seeds: None where it is not run.
        draws: Warm-up and draws per chain of NUTS; None where it is not run.
    """

    name: str
    kind: str
    num_steps: int
    budget: float
    guides: tuple[str, ...]
    seeds: int
    bbvi_seeds: int | None
    draws: tuple[int, int] | None

    def tasks(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Contestants in the order in which they run: name, kind of worker, its options."""
        seeds = {"seeds": self.seeds}
        tasks = [(NEWTON, "newton", {"seeds": 5}), (BAYESNEWTON, "bayesnewton", {"seeds": 5})]
        tasks += [(name, "dynamax", {"seeds": 5, "integrals": name.split()[1]}) for name in (EKF, GH)]
        tasks += [(CUTHBERT, "cuthbert", {"seeds": 5})]
        tasks += [(name, "guide", {**seeds, "guide": name, "budget": self.budget}) for name in self.guides]
        if self.bbvi_seeds:
            tasks += [(BBVI, "bbvi", {"seeds": self.bbvi_seeds})]
        if self.draws:
            tasks += [(NUTS, "nuts", {"warmup": self.draws[0], "draws": self.draws[1]})]
        return tasks

    def left_out(self) -> list[str]:
        """What is not run here, and why."""
        notes = []
        missing = [guide for guide in GUIDES if guide not in self.guides]
        if missing:
            notes.append(f"{self.name}: {', '.join(missing)} not run, too large or too slow for the budget.")
        if not self.bbvi_seeds:
            notes.append(f"{self.name}: {BBVI} not run, its fit would take several minutes.")
        if not self.draws:
            notes.append(f"{self.name}: NUTS not run, hence no accuracy; it would take too long.")
        if self.seeds < 5 or (self.bbvi_seeds or 5) < 5:
            notes.append(f"{self.name}: {self.seeds} seed(s) of guides, {self.bbvi_seeds or 0} of {BBVI}.")
        return notes


def cases(*, quick: bool) -> list[Case]:
    """All series, or small ones."""
    if quick:
        return [
            Case("S&P 500, T = 1,000", VOLATILITY, 1_000, 1, (DIAGONAL,), 2, 1, (200, 300)),
            Case("counts, T = 300", COUNTS, 300, 1, GUIDES, 2, 1, (200, 300)),
        ]
    without_full = (DIAGONAL, WHITENED, LOW_RANK)
    return [
        Case("S&P 500, T = 5,030", VOLATILITY, 5_030, 10, GUIDES, 5, 5, (400, 1200)),
        Case("counts, T = 300", COUNTS, 300, 4, GUIDES, 5, 5, (500, 3000)),
        Case("counts, T = 1,000", COUNTS, 1_000, 12, GUIDES, 5, 5, (500, 2000)),
        Case("counts, T = 10,000", COUNTS, 10_000, 10, without_full, 5, 5, (300, 400)),
        # More steps than fit into 10 s, so that the guides come near to their own best.
        Case("counts, T = 100,000", COUNTS, 100_000, 100, (DIAGONAL, WHITENED), 5, None, None),
    ]
