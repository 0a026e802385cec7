"""Pictures of scores."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftline.report.pictures import axis_of, new_figure, write_picture

if TYPE_CHECKING:
    from driftline.words.evaluation.scores import Evaluation

COLORS = {"sgi": "#b0b0b0", "sgp": "#d98c00", "dsg-f": "#3a9b6f", "dsg-s": "#1f5fa8", "dsg-s-past": "#7f4fa8"}


def draw_scores(
    evaluation: "Evaluation",
    path: str | os.PathLike,
    beside: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> None:
    """Scores against dates, a curve for each method.

    Args:
        evaluation: The scores.
        path: A picture file.
        beside: Dates and scores of some of the methods that somebody else found, drawn dashed.
    """
    figure, ax = new_figure()
    others = {name: np.asarray(dates, "datetime64[D]") for name, (dates, _) in (beside or {}).items()}
    axis = axis_of(evaluation.dates, *others.values())
    for name, (_, scores) in (beside or {}).items():
        ax.plot(
            axis(others[name]), scores, linewidth=0.9, color=COLORS[name], linestyle=(0, (3, 2)), alpha=0.6
        )
    zero = float(np.log(0.5))
    ax.axhline(zero, color="0.6", linewidth=0.8, linestyle=":")
    for name, found in evaluation.methods.items():
        few = len(found.steps) <= len(evaluation.held_out)
        style: dict[str, Any] = {"marker": "o", "markersize": 4, "zorder": 3} if few else {"alpha": 0.85}
        label = f"{name}  {evaluation.mean(name):.4f}"
        ax.plot(
            axis(evaluation.dates[found.steps]),
            found.scores,
            linewidth=1.3,
            color=COLORS[name],
            label=label,
            **style,
        )
    ax.annotate(
        "zero embeddings", (0.995, zero), xycoords=("axes fraction", "data"), ha="right", va="top",
        fontsize=8, color="0.45",
    )  # fmt: skip
    ax.set_title("How well unseen time steps are predicted", loc="left", fontweight="bold")
    ax.set_ylabel("log-likelihood per count")
    figure.legend(
        loc="outside lower left",
        frameon=False,
        ncols=len(evaluation.methods),
        title="mean of held-out steps" + ("; dashed: as published" if beside else ""),
        alignment="left",
    )
    write_picture(figure, Path(path))
