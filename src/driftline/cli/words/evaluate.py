"""`driftline words evaluate`: methods compared by how well they predict steps that they have not seen."""

import argparse
from pathlib import Path

from driftline.cli.words import model
from driftline.cli.words.inputs import chosen_steps
from driftline.words import settings

TABLE, PICTURE = "scores.json", "scores.png"
EPILOG = """\
dsg-s sees what comes after a held-out step; dsg-s-past is fitted anew for each of them, to the steps before
it, and takes as many times as long.

example:
  driftline words evaluate sotu.driftline --methods dsg-f dsg-s --dim 50 -o scores
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "evaluate",
        help="compare methods on time steps that they have not seen",
        description="Compare methods by how well they predict time steps that they have not seen.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("counts", metavar="COUNTS", type=Path, help="file from `driftline words count`")
    what = f"folder for {TABLE} and {PICTURE}"
    add("-o", "--out", type=Path, required=True, metavar="FOLDER", help=what)
    what = f"which ones: {', '.join(settings.COMPARED)} (all but the last)"
    add(
        "--methods",
        choices=settings.COMPARED,
        nargs="+",
        default=list(settings.COMPARED)[:4],
        metavar="METHOD",
        help=what,
    )
    model.add_options(parser)
    what = "passes of each phase of a method's optimiser, such as dsg-s=60,20,5"
    add("--passes", type=_passes, nargs="+", default=[], metavar="METHOD=N,...", help=what)
    usual = "every tenth (of less than 50 steps every fifth, of up to 5 the middle one)"
    model.add_hold_out(parser, f"steps that are predicted, if not {usual}")
    parser.set_defaults(run=run)


def _passes(text):
    name, _, numbers = text.partition("=")
    known = name in settings.COMPARED and all(number.isdecimal() for number in numbers.split(","))
    if not known:
        raise argparse.ArgumentTypeError(f"{text!r} is not a method and its passes, such as dsg-s=60,20,5")
    return name, tuple(map(int, numbers.split(",")))


def run(arguments: argparse.Namespace) -> int:
    """Compare, print the table, write it and its picture."""
    from driftline import words
    from driftline.terminal import Line, listener
    from driftline.words.evaluation import check_steps, settings_of_each
    from driftline.words.figures import new_figure

    new_figure()  # says what is missing before the work and not after it
    passes = dict(arguments.passes)
    options = model.chosen(arguments)
    # Refuse settings of any of the methods now, before anything is read or made.
    chosen = settings_of_each(arguments.methods, passes, options)
    counts = words.load_counts(arguments.counts)
    hold_out = None if arguments.hold_out is None else chosen_steps(arguments.hold_out, len(counts))
    check_steps(counts, chosen, hold_out)
    arguments.out.mkdir(parents=True, exist_ok=True)
    line = Line()
    try:
        found = words.evaluate(
            counts,
            arguments.methods,
            **options,
            passes=passes,
            hold_out=hold_out,
            tell=listener(None, line.write),
        )
    finally:
        line.close()
    found.save(arguments.out / TABLE)
    found.plot(arguments.out / PICTURE)
    print(f"{found}\n\nScores: {arguments.out / TABLE} and {arguments.out / PICTURE}")
    return 0
