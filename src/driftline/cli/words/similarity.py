"""`driftline words similarity`: how close two words were over time, with a band."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.cli.words.answers import to_json, with_rows
from driftline.cli.words.inputs import check_out

if TYPE_CHECKING:
    from driftline.words.atlas.answers import Similarity

ORDER = 50
ROWS = 20


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "similarity",
        help="how close two words were over time",
        description="Show how close two words were over time: the cosine of their vectors, with a 90 % band.",
        epilog="example:\n  driftline words similarity sotu.atlas health care --plot health-care.png\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("atlas", metavar="ATLAS", type=Path, help="file from `driftline words fit`")
    add("a", metavar="A", help="a word")
    add("b", metavar="B", help="another")
    add("--plot", type=Path, metavar="FILE", help="draw it, into a .png, .svg or .pdf")
    add("--json", action="store_true", help="print JSON, with all dates")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print a table of at most some dates; draw all of them if asked to."""
    from driftline import words
    from driftline.words.atlas.pictures import draw_similarity

    if arguments.plot is not None:
        check_out(arguments.plot, [arguments.atlas], "similarity.png")
    found = words.load(arguments.atlas).similarity(arguments.a, arguments.b)
    print(to_json(found) if arguments.json else _table(found))
    if arguments.plot is not None:
        draw_similarity([found], arguments.plot)
        if not arguments.json:
            print(f"\nPicture: {arguments.plot}")
    return 0


def _table(found: "Similarity") -> str:
    text = str(with_rows(found, _spaced(len(found.dates), ROWS)))
    if len(found.dates) > ROWS:
        text += f"\n\n{ROWS} of {len(found.dates)} dates; --json has all"
    return text


def _spaced(total: int, most: int) -> list[int]:
    """At most so many whole numbers below `total`, evenly spaced, the first and the last among them."""
    many = min(total, most)
    return [round(k * (total - 1) / max(many - 1, 1)) for k in range(many)]
