"""Pictures of answers of an atlas."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftline.report.pictures import axis_of, new_figure, write_picture
from driftline.words.atlas.answers import Similarity

PALETTE = ("#1f5fa8", "#d98c00", "#3a9b6f", "#7f4fa8", "#b8433f", "#5c6b73")
FEW = 3  # words that occur less often around a date are hardly used there
REACH = 0.05  # share of all steps that is around a date, on either side


def draw_similarity(found: Sequence[Similarity], path: str | os.PathLike, title: str | None = None) -> None:
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
    axis = axis_of(*(pair.dates for pair in found))
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
