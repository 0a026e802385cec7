"""`driftline words neighbors`: the words closest to a word, at one date or several."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.cli.words.answers import beside, to_json
from driftline.cli.words.inputs import DATE, number

if TYPE_CHECKING:
    import numpy as np

    from driftline.words.atlas.answers import Neighbors
    from driftline.words.atlas.atlas import Atlas

ORDER = 40
EPILOG = """\
Words are ranked by the cosine of their mean vectors, the similarity. The less is known of a
vector, the smaller is the cosine that the posterior expects; it is shown with the band that holds it
with a probability of 90 %.

In Python: words.load(ATLAS).neighbors(word, when, n=10, like=..., min_count=1, window=2).

examples:
  driftline words neighbors sotu.atlas security --at 1900 2000
  driftline words neighbors news.atlas computer --at 1900 --like 2000   # what was "computer" in 1900?
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "neighbors",
        help="words closest to a word at a date",
        description="Show the words closest to a word, at one date or several.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("atlas", metavar="ATLAS", type=Path, help="file from `driftline words fit`")
    add("word", metavar="WORD", help="the word to look around")
    what = "when, such as 1900 or 1900-12-31 (the first, the middle and the last step that knows the word)"
    add("--when", "--at", dest="when", type=DATE, nargs="+", metavar="DATE", help=what)
    what = "take the word as it was then, and show what was closest to that --at other dates"
    add("--like", metavar="DATE", help=what)
    add("-n", dest="number", type=number, default=10, metavar="N", help="how many words (%(default)s)")
    what = "leave out words that occur less often around the date (%(default)s)"
    add("--min-count", type=int, default=1, metavar="N", help=what)
    what = "how many steps on either side are around it (%(default)s)"
    add("--window", type=int, default=2, metavar="N", help=what)
    add("--json", action="store_true", help="print JSON, with all numbers")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the neighbours."""
    from driftline import words

    atlas = words.load(arguments.atlas)
    word = atlas.index(arguments.word)
    dates = arguments.when or _default_dates(atlas, word if arguments.like is None else None)
    options = {"min_count": arguments.min_count, "window": arguments.window}
    found = [
        atlas.neighbors(arguments.word, date, arguments.number, like=arguments.like, **options)
        for date in dates
    ]
    if arguments.json:
        print(to_json(found))
    elif len(found) == 1:
        print(found[0])
    else:
        print(_title(found), beside([_table(each) for each in found]), sep="\n\n")
        if found[0].lower is not None:
            print("\nRanked by the similarity of mean vectors; shown: expected cosine, 90 % band")
    return 0


def _default_dates(atlas: "Atlas", word: int | None) -> "np.ndarray":
    """The first, the middle and the last date; if a word is given, of those at which it has a vector."""
    from driftline.words.atlas.queries import steps_with_vector

    steps = [] if word is None else steps_with_vector(atlas, word)
    steps = steps if len(steps) else range(len(atlas))
    last = len(steps) - 1
    return atlas.dates[[steps[k] for k in sorted({0, last // 2, last})]]


def _title(found: "list[Neighbors]") -> str:
    then = found[0].vector_date
    is_same = all(each.date == each.vector_date for each in found)
    caveat = f"{found[0].caveat}\n" if found[0].caveat else ""
    return f"{caveat}Closest to {found[0].word}" + ("" if is_same else f" as it was at {then}")


def _table(found: "Neighbors") -> str:
    """A narrow table: the date, then a line for each word."""
    times = f"{found.word} {found.word_support:,} times" if found.date == found.vector_date else ""
    width = max([len(word) for word in found.words] + [len(f"{found.date}")])
    rows = [f"{str(found.date):<{width}}  {times}".rstrip()]
    for k, word in enumerate(found.words):
        number = f"{found.similarities[k]:.2f}"
        if found.expected is not None and found.lower is not None and found.upper is not None:
            number = f"{found.expected[k]:5.2f}  [{found.lower[k]:5.2f}, {found.upper[k]:5.2f}]"
        rows.append(f"{word:<{width}}  {number}")
    return "\n".join(rows)
