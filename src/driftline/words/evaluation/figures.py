"""Pictures of word models."""

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftline.storage import checked_files as files
from driftline.words.texts.streams import explained

if TYPE_CHECKING:
    from driftline.words.atlas.answers import Similarity
    from driftline.words.evaluation.scores import Evaluation

COLORS = {"sgi": "#b0b0b0", "sgp": "#d98c00", "dsg-f": "#3a9b6f", "dsg-s": "#1f5fa8", "dsg-s-past": "#7f4fa8"}
PALETTE = ("#1f5fa8", "#d98c00", "#3a9b6f", "#7f4fa8", "#b8433f", "#5c6b73")
FEW = 3  # words that occur less often around a date are hardly used there
YEAR = 365.2425  # days
MARGIN = 0.2  # share of the time from first to last that a picture may go beyond them
CALENDAR = np.array(["0001-01-01", "9999-12-31"], "datetime64[D]").astype(np.int64)
REACH = 0.05  # share of all steps that is around a date, on either side


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
    axis = _axis(evaluation.dates, *others.values())
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


def draw_similarity(found: Sequence["Similarity"], path: str | os.PathLike, title: str | None = None) -> None:
    """Similarity of pairs of words over time, with bands; pale where one of the two is hardly used.

    Hardly used is what occurs less than `FEW` times at a step and the steps around it, a share of `REACH` of
    all steps on either side. Where a word has no vector there is a gap.

    Args:
        found: Answers of `Atlas.similarity`.
        path: A picture file.
        title: What stands above it, if not the words.
    """
    figure, ax = new_figure()
    ax.axhline(0.0, color="0.6", linewidth=0.8, linestyle=":")
    ends = []
    axis = _axis(*(pair.dates for pair in found))
    for k, pair in enumerate(found):
        dates = axis(pair.dates)
        color = PALETTE[k % len(PALETTE)]
        used = _in_use(pair)
        if pair.lower is not None and pair.upper is not None:
            for where, alpha in ((None, 0.06), (used, 0.16)):
                ax.fill_between(
                    dates, pair.lower, pair.upper, where=where, color=color, alpha=alpha, linewidth=0
                )
        ax.plot(dates, pair.mean, color=color, linewidth=1.1, alpha=0.6, linestyle=(0, (4, 2)))
        ax.plot(dates, np.where(used, pair.mean, np.nan), color=color, linewidth=2.2)
        known = pair.mean[np.isfinite(pair.mean)]
        ends.append((float(known[-1]) if len(known) else 0.0, f"{pair.a} – {pair.b}", color))
    _label_ends(ax, axis(found[0].dates)[-1], ends)
    names = " and ".join((found[0].a, found[0].b)) if len(found) == 1 else "some pairs of words"
    ax.set_title(title or f"Similarity of {names}", loc="left", fontweight="bold")
    has_band = any(pair.lower is not None for pair in found)
    ax.set_ylabel("cosine: mean and 90 % band" if has_band else "cosine")
    note = f"Pale and dashed: one of the two words occurs less than {FEW} times {_around(found)}."
    if has_band:
        note += "\nThe less is known of a word, the nearer its cosine is to zero."
    ax.annotate(note, (0.0, -0.1), xycoords="axes fraction", fontsize=8, color="0.4", va="top")
    write_picture(figure, Path(path))


def _axis(*dates):
    """What turns dates into places on the axis: dates, or years as numbers near the ends of the calendar.

    Matplotlib looks for ticks a little beyond the data, and has no dates before the year 1 or after 9999.
    """
    days = np.concatenate(dates).astype("datetime64[D]").astype(np.int64)
    beyond = MARGIN * (days.max() - days.min()) + YEAR
    if CALENDAR[0] <= days.min() - beyond and days.max() + beyond <= CALENDAR[1]:
        return lambda some: some
    return lambda some: 1970.0 + some.astype("datetime64[D]").astype(np.int64) / YEAR


def write_picture(figure: Any, path: Path) -> None:
    """Write a figure as a picture of the kind that its name says, whole or not at all."""
    content = io.BytesIO()
    figure.savefig(content, dpi=150, format=path.suffix[1:] or "png")
    try:
        with files.replacing(path) as file:
            file.write(content.getvalue())
    except OSError as error:
        raise explained(error, f"could not write {path}", "choose another place") from error


def _in_use(pair):
    """Where both words occur at least a few times at the steps around."""
    steps, reach = np.arange(len(pair.dates)), _reach(pair)
    first, last = np.maximum(steps - reach, 0), np.minimum(steps + reach + 1, len(steps))
    sums = [np.append(0, np.cumsum(each)) for each in (pair.a_occurrences, pair.b_occurrences)]
    return np.all([total[last] - total[first] >= FEW for total in sums], axis=0)


def _reach(pair):
    return round(REACH * len(pair.dates))


def _around(found):
    """The rule of `_in_use` in words; pairs of one atlas share it."""
    reaches = sorted({_reach(pair) for pair in found})
    if reaches == [0]:
        return "at that step"
    return f"within {' or '.join(map(str, reaches))} step{'s' * (reaches != [1])} of that date"


def _label_ends(ax, date, ends, gap: float = 0.055):
    """Names at the right ends of curves, moved apart where they would overlap."""
    low, high = ax.get_ylim()
    gap *= high - low
    last = -np.inf
    for height, text, color in sorted(ends):
        last = max(height, last + gap)
        ax.annotate(
            text, (date, last), xytext=(8, 0), textcoords="offset points", color=color, va="center",
            fontweight="bold", annotation_clip=False,
        )  # fmt: skip


def new_figure() -> tuple[Any, Any]:
    """A figure and its axes, for files only."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.01)
    return figure, ax
