"""Options that describe a word model, for the commands that fit one."""

import argparse
from typing import Any

from driftline.cli.words.inputs import steps
from driftline.words.settings import OPTIMISERS, PRIORS, Settings

NAMES = ("dim", "drift", "scale", "prior", "ratio", "exponent", "optimiser", "seed")


def add_options(group: Any) -> None:
    """Describe them."""
    add, defaults = group.add_argument, Settings()
    add(
        "--dim", type=int, default=defaults.dim, metavar="N", help="dimension of the embeddings (%(default)s)"
    )
    what = "variance that an embedding gathers in a year (%(default)s)"
    add("--drift", type=float, default=defaults.drift, metavar="D", help=what)
    what = (
        "width of the pull towards zero; with --prior stationary, a component's standard deviation at first"
    )
    add("--scale", type=float, default=defaults.scale, metavar="S", help=f"{what} (%(default)s)")
    what = "the papers' model is --prior diffusion --scale 1 (%(default)s)"
    add("--prior", choices=PRIORS, default=defaults.prior, help=what)
    what = "negative for each positive count (%(default)s)"
    add("--ratio", type=float, default=defaults.ratio, metavar="R", help=what)
    what = "flattens the distribution of negative contexts (%(default)s)"
    add("--exponent", type=float, default=defaults.exponent, metavar="E", help=what)
    what = "fast, or as published, which takes many times as long (%(default)s)"
    add("--optimiser", choices=OPTIMISERS, default=defaults.optimiser, help=what)
    what = "the same seed gives the same numbers (%(default)s)"
    add("--seed", type=int, default=defaults.seed, metavar="N", help=what)


def add_hold_out(group: Any, what: str) -> None:
    """Describe the option that names held-out steps."""
    help = f"{what}: numbers from zero on, or FIRST:END:BY"
    group.add_argument("--hold-out", type=steps, nargs="+", metavar="STEPS", help=help)


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of the library."""
    return {name: vars(arguments)[name] for name in NAMES}
