"""Options that describe a word model, for the commands that fit one."""

import argparse
from typing import Any

from driftline.cli.words.inputs import steps
from driftline.words.settings import OPTIMISERS, PRIORS, WordSettings

NAMES = ("dim", "drift", "scale", "prior", "ratio", "exponent", "optimiser", "seed")


def add_options(group: Any) -> None:
    """Describe them."""
    add, defaults = group.add_argument, WordSettings()
    what = (
        "dimension of the embeddings; auto takes as many as the ELBO prefers, up to 100, and is the default "
        "of smoothing (100 for the other methods)"
    )
    add("--dim", type=_dimension, metavar="N|auto", help=what)
    what = "variance that an embedding gathers in a year (smoothing learns it; 0.001 for the other methods)"
    add("--drift", type=float, metavar="D", help=what)
    what = (
        "width of the pull towards zero; with --prior stationary, a component's standard deviation at first"
    )
    add("--scale", type=float, metavar="S", help=f"{what} (smoothing learns it; 0.3 for the other methods)")
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


def _dimension(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto")
    return int(text)


def add_hold_out(group: Any, what: str) -> None:
    """Describe the option that names held-out steps."""
    help = f"{what}: numbers that start at 0, or FIRST:END:BY"
    group.add_argument("--hold-out", type=steps, nargs="+", metavar="STEPS", help=help)


def chosen(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of the library."""
    return {name: vars(arguments)[name] for name in NAMES}
