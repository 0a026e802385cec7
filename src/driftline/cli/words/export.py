"""`driftline words export`: mean vectors for other programs."""

import argparse
from pathlib import Path

from driftline.cli.words.answers import size_of
from driftline.cli.words.inputs import DATE, check_out

ORDER = 70
FORMATS = ("word2vec", "csv", "npz")


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "export",
        help="write vectors for other programs",
        description="Write the mean vectors of the words for other programs.",
        epilog="example:\n  driftline words export sotu.atlas --format word2vec --at 1900 2000 -o vectors\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("atlas", metavar="ATLAS", type=Path, help="file from `driftline words fit`")
    what = "folder for word2vec text, which is a file for each date; file for the others"
    add("-o", "--out", type=Path, required=True, metavar="PATH", help=what)
    what = "word2vec text, CSV with a line for each date and word, or NumPy arrays (%(default)s)"
    add("--format", choices=FORMATS, default=FORMATS[0], help=what)
    what = "some dates only, such as 1900"
    add("--when", "--at", dest="when", type=DATE, nargs="+", metavar="DATE", help=what)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the files and say where they are."""
    from driftline import words

    if arguments.format != "word2vec":
        check_out(arguments.out, [arguments.atlas], f"words.{arguments.format}")
    atlas = words.load(arguments.atlas)
    paths = atlas.export(arguments.out, arguments.format, when=arguments.when)
    what = str(paths[0]) if len(paths) == 1 else f"{paths[0]} to {paths[-1].name}, {len(paths):,} files"
    print(f"Vectors: {what} ({size_of(paths)})")
    return 0
