"""`driftline words changed`: words ranked by their change, with the probability that it is not noise."""

import argparse
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.cli.words.answers import to_json, with_rows
from driftline.cli.words.inputs import number, word_list

if TYPE_CHECKING:
    from driftline.words.atlas.results import Changed

EPILOG = """\
Words that changed with the probability asked for come first, by distance; then the rest, by probability. The
distance is one less the cosine of the mean vectors; expected, lower and upper are the posterior's.

example:
  driftline words changed sotu.atlas --from 1900 --to 2000 --stop function-words.txt
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "changed",
        help="words that changed most between two dates",
        description="Rank words by their change between two dates; with the probability that it is no noise.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("atlas", metavar="ATLAS", type=Path, help="file from `driftline words fit`")
    add("--from", dest="start", required=True, metavar="DATE", help="such as 1900 or 1900-12-31")
    add("--to", dest="end", required=True, metavar="DATE")
    add("-n", dest="number", type=number, default=20, metavar="N", help="how many words (%(default)s)")
    what = "leave out words that occur less often around either date (10; 1 after an import)"
    add("--min-count", type=int, metavar="N", help=what)
    what = "how many steps on either side are around a date (%(default)s)"
    add("--window", type=int, default=2, metavar="N", help=what)
    what = "that a change is more than noise, for words that come first (%(default)s)"
    add("--probability", type=float, default=0.95, metavar="P", help=what)
    add(
        "--stop",
        type=Path,
        metavar="FILE",
        help="leave out these words, one on each line (in any case, if the atlas has lower case only)",
    )
    add("--json", action="store_true", help="print JSON, with all numbers")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the ranking."""
    from driftline import words

    atlas = words.load(arguments.atlas)
    lower = all(word == word.lower() for word in atlas.vocabulary)
    stop = () if arguments.stop is None else word_list(arguments.stop, None, lower)
    found = atlas.changed(
        arguments.start,
        arguments.end,
        n=arguments.number,
        min_count=arguments.min_count,
        window=arguments.window,
        probability=arguments.probability,
        stop=stop,
    )
    print(to_json(found) if arguments.json else found)
    return 0


def without(found: "Changed", stop: Collection[str], number: int) -> "Changed":
    """The first words of a ranking that are not in a list."""
    kept = [row for row, word in enumerate(found.words) if word not in stop]
    return with_rows(found, kept[:number])
