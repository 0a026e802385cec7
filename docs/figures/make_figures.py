"""Draw the pictures of the documentation: `python docs/figures/make_figures.py`, half a minute.

`nile.png` and `words.png` are written by `driftline demo`; `sotu_scores.png` by `benchmarks/words/figure.py`.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

import driftline as dl
from driftline import datasets

HERE = Path(__file__).parent
STYLES = {  # ink, paper, the fit, the forecast
    "": ("#222222", "#ffffff", "#1f5fa8", "#c46a00"),
    "-dark": ("#d8dde3", "#131416", "#7db4f0", "#f0a850"),
}


def coal():
    """Disasters a year, their rate, and what the next 20 years may bring."""
    years, disasters = datasets.coal()
    walk = dl.RandomWalk(scale=dl.learn(0.1), initial_mean=1.0)
    post = dl.fit(dl.Model(walk, dl.Poisson()), disasters, times=years)
    ahead = post.forecast(20)
    seen = np.quantile(ahead.observations(4000), [0.05, 0.95], axis=0)
    for suffix, style in STYLES.items():
        draw_coal(post, ahead, seen, *style).savefig(HERE / f"counts{suffix}.png", dpi=160)


def draw_coal(post, ahead, seen, ink, paper, blue, orange):
    """One picture in the given colours."""
    colours = {
        name: ink
        for name in ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    }
    with mpl.rc_context(colours | {"figure.facecolor": paper, "axes.facecolor": paper, "font.size": 11}):
        figure, ax = plt.subplots(figsize=(9, 3.9), layout="constrained")
        ax.vlines(
            post.times, 0, post.values, color=ink, alpha=0.3, linewidth=2.6, label="disasters", zorder=0
        )
        for each, colour, name in ((post, blue, "rate, 90 % band"), (ahead, orange, "forecast of the rate")):
            lower, upper = each.interval(0.9)
            ax.fill_between(each.times, np.exp(lower), np.exp(upper), color=colour, alpha=0.3, linewidth=0)
            ax.plot(each.times, np.exp(each.mean), color=colour, linewidth=2.0, label=name)
        ax.plot(
            ahead.times, seen[1], ":", color=orange, linewidth=1.6, label="forecast of counts, 95 % below"
        )
        ax.set_title("British coal-mining disasters", loc="left", fontweight="bold")
        ax.set_ylabel("a year")
        ax.set_ylim(0, 6.6)
        ax.margins(x=0.01)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, ncols=2)
    return figure


if __name__ == "__main__":
    mpl.use("Agg")
    coal()
