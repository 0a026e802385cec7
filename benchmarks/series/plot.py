"""The plot of the comparison of series: how far below the optimum, against time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.series.cases import (
    BAYESNEWTON,
    BBVI,
    CUTHBERT,
    DIAGONAL,
    EKF,
    FULL,
    GH,
    LOW_RANK,
    NEWTON,
    WHITENED,
)
from benchmarks.series.results import Match, Outcome

LEAST = 1e-3  # nats; what is nearer the optimum is drawn here
# Blue for us, red for the nearest relative, greens and browns for guides, greys for smoothers.
COLOURS = {
    NEWTON: "#0b4fa8", BBVI: "#5b9be6", BAYESNEWTON: "#c62828", DIAGONAL: "#2e7d32", WHITENED: "#8bc34a",
    LOW_RANK: "#b8860b", FULL: "#7b3f00", EKF: "#222222", GH: "#777777", CUTHBERT: "#7e57c2",
}  # fmt: skip
MARKERS = {EKF: "o", GH: "s", CUTHBERT: "^"}


def draw(matches: Sequence[Match], file: Path) -> None:
    """One panel per series; a line for who climbs, a mark for who goes through the data once."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(matches), figsize=(5.6 * len(matches), 5.4), sharey=True, squeeze=False, layout="constrained"
    )
    handles = {}
    for axis, match in zip(axes[0], matches, strict=True):
        for name, outcome in match.outcomes.items():
            if outcome.traces:
                handles[name] = _contestant(axis, name, outcome, match.optimum)
        axis.axhline(0.1, color="#999999", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", yscale="log", title=match.case.name, xlabel="seconds, compilation apart")
        axis.grid(visible=True, color="#eeeeee")
        axis.set_axisbelow(True)
    axes[0][0].set_ylabel(f"nats below the optimum (at least {LEAST:g} is drawn)")
    axes[0][0].text(0.01, 0.1, "0.1 nat", transform=axes[0][0].get_yaxis_transform(), va="bottom")
    order = [name for name in COLOURS if name in handles]
    figure.legend(
        [handles[name] for name in order], order, loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _contestant(axis, name: str, outcome: Outcome, optimum: float):
    trace = _middle(outcome.traces)
    gaps = np.maximum(optimum - trace[:, 1], LEAST)
    style = {"color": COLOURS[name], "linewidth": 2.4 if name == NEWTON else 1.5}
    if len(trace) == 1:
        return axis.plot(trace[:, 0], gaps, MARKERS[name], markersize=8, color=COLOURS[name])[0]
    last = int(np.argmax(gaps <= LEAST)) if (gaps <= LEAST).any() else len(gaps) - 1
    return axis.plot(trace[: last + 1, 0], gaps[: last + 1], **style)[0]


def _middle(traces):
    """The seed whose end is in the middle; a median over curves would be no run that ever was."""
    order = np.argsort([trace[-1, 1] for trace in traces])
    return traces[order[len(order) // 2]]
