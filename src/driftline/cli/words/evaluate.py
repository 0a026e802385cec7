"""`driftline words evaluate`: methods compared by how well they predict steps that they have not seen."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftline.cli.console.stopping import stopped_by
from driftline.cli.words import model
from driftline.cli.words.inputs import check_out, chosen_steps, read_counts
from driftline.cli.words.locks import only_one
from driftline.words import settings

if TYPE_CHECKING:
    from driftline.words.counts.counts import Counts
    from driftline.words.evaluation.scores import Evaluation

ORDER = 30
TABLE, PICTURE = "scores.json", "scores.png"
EPILOG = """\
dsg-s sees what comes after a held-out step; dsg-s-past is fitted again for each of them, to the steps before
it, and takes as many times as long.

Scores are saved whenever a method has finished. If Ctrl-C or a crash stops the others, the same command with
--resume runs them only.

examples:
  driftline words evaluate sotu.counts --methods dsg-f dsg-s --dim 50 -o scores
  driftline words evaluate sotu.counts --methods dsg-f dsg-s --dim 50 -o scores --resume
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
    what = "the most passes of each phase of a method's optimiser, such as dsg-s=2000,1000"
    add("--passes", type=_passes, nargs="+", default=[], metavar="METHOD=N,...", help=what)
    usual = "every tenth (of less than 50 steps every fifth, of up to 5 the middle one)"
    model.add_hold_out(parser, f"steps that are predicted, if not {usual}")
    what = f"keep the methods that {TABLE} has and run the others, with the same settings"
    add("--resume", action="store_true", help=what)
    parser.set_defaults(run=run)


def _passes(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = text.partition("=")
    known = name in settings.COMPARED and all(number.isdecimal() for number in numbers.split(","))
    if not known:
        raise argparse.ArgumentTypeError(f"{text!r} is not a method and its passes, such as dsg-s=2000,1000")
    return name, tuple(map(int, numbers.split(",")))


def run(arguments: argparse.Namespace) -> int:
    """Compare, print the table, write it and its picture; Ctrl-C leaves what is finished."""
    table, picture = (arguments.out / name for name in (TABLE, PICTURE))
    counts, options = _prepare(arguments, table)
    with only_one(table):
        return _evaluate(arguments, counts, options, table, picture)


def _evaluate(
    arguments: argparse.Namespace, counts: "Counts", options: dict[str, Any], table: Path, picture: Path
) -> int:
    from driftline.words.evaluation.scores import unfinished

    try:
        found = _compare(counts, arguments.methods, options)
    except KeyboardInterrupt as stop:
        if not arguments.resume and not unfinished(table):
            raise
        remedy = "the same command with --resume goes on from there"
        print(f"driftline: interrupted; what is done is in {table}: {remedy}", file=sys.stderr)
        return stopped_by(stop)
    print(found, flush=True)  # first, since what follows can fail
    found.save(table)
    found.plot(picture)
    print(f"\nScores: {table} and {picture}")
    return 0


def _prepare(arguments: argparse.Namespace, table: Path) -> "tuple[Counts, dict[str, Any]]":
    """The counts, and the options of `words.evaluate`; what would stop it is refused now."""
    from driftline.report.pictures import new_figure
    from driftline.words.evaluation.evaluate import check_steps, settings_of_each
    from driftline.words.evaluation.scores import check_scores

    new_figure()  # says what is missing before the work and not after it
    passes, options = dict(arguments.passes), model.chosen(arguments)
    # Settings of all methods and the places to write to come first, before anything is read or made.
    chosen = settings_of_each(arguments.methods, passes, options)
    _check_folder(arguments.out, arguments.counts)
    check_scores(table, arguments.resume)
    counts = read_counts(arguments.counts)
    hold_out = None if arguments.hold_out is None else chosen_steps(arguments.hold_out, len(counts))
    check_steps(counts, chosen, hold_out)
    _make(arguments.out)
    return counts, options | {
        "passes": passes,
        "hold_out": hold_out,
        "path": table,
        "resume": arguments.resume,
    }


def _check_folder(out: Path, counts: Path) -> None:
    """Refuse a folder that cannot be made or written to before the work and not after it."""
    place = next(each for each in (out, *out.absolute().parents) if os.path.lexists(each))
    if not place.is_dir():
        raise ValueError(f"{place} is not a folder; name another for the scores")
    if not os.access(place, os.W_OK):
        raise PermissionError(f"the folder {place} cannot be written to; name another for the scores")
    if place == out:
        for name in (TABLE, PICTURE):
            check_out(out / name, [counts], name)


def _make(folder: Path) -> None:
    from driftline.storage.explained_errors import explained

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explained(error, f"could not make the folder {folder}", "choose another place") from error


def _compare(counts: "Counts", methods: list[str], options: dict[str, Any]) -> "Evaluation":
    from driftline import words
    from driftline.terminal import Line, listener

    line = Line()
    try:
        return words.evaluate(counts, methods, **options, tell=listener(None, line.write))
    finally:
        line.close()
