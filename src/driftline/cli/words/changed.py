"""`driftline words changed`: words ranked by their change, with the probability that it is not noise."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftline.cli.words.answers import to_json
from driftline.cli.words.inputs import number, read_counts

if TYPE_CHECKING:
    from driftline.words.atlas.answers import Changed
    from driftline.words.atlas.atlas import Atlas
    from driftline.words.evaluation.shuffled_dates import Null, NullProgress

ORDER = 60
COARSE = (
    "Whole steps were shuffled, since the counts have no parts; with `driftline words count --parts 10` "
    "documents are."
)
EPILOG = """\
Words that changed with the probability asked for come first, by distance; then the rest, by probability.
The distance is one minus the cosine of the two vectors, with what all words share taken out: the posterior's
median and its 90 % band, both zero for words that have rather not moved. --null shuffles the dates of the
documents, fits again, and tells how many of the words called changed are called by chance.

In Python: words.load(ATLAS).changed(start, end, n=20, stop=..., probability=0.95); with --null N,
words.null(counts, atlas, start, end, times=N).

examples:
  driftline words changed sotu.atlas --from 1900 --to 2000 --stop function-words.txt
  driftline words changed sotu.atlas --from 1900 --to 2000 --null 20 --counts sotu.counts
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "changed",
        help="words that changed most between two dates",
        description="Rank words by change between two dates, with the probability that it is not noise.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("atlas", metavar="ATLAS", type=Path, help="file from `driftline words fit`")
    what = "such as 1900 or 1900-12-31"
    add("--start", "--from", dest="start", required=True, metavar="DATE", help=what)
    add("--end", "--to", dest="end", required=True, metavar="DATE", help="the same")
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
    what = "give probabilities although the fit has not converged, or has fewer than five steps"
    add("--anyway", action="store_true", help=what)
    what = "compare with N fits to shuffled dates, and report the rate of false discoveries"
    add("--null", type=number, default=0, metavar="N", help=what)
    add("--counts", type=Path, metavar="FILE", help="with --null: the counts that the atlas was fitted to")
    add("--json", action="store_true", help="print JSON, with all numbers")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the ranking."""
    from driftline import words

    if bool(arguments.null) != (arguments.counts is not None):
        raise ValueError("--null and --counts go together: dates are shuffled in the counts of the atlas")
    if arguments.null == 1:
        raise ValueError("--null 1: at least two shuffles are needed to measure chance; ask for more")
    atlas = words.load(arguments.atlas)
    options = {
        "min_count": arguments.min_count,
        "window": arguments.window,
        "probability": arguments.probability,
    }
    asked = arguments.start, arguments.end
    # Shuffled dates judge probabilities that noise has made too high, but not those of an unfinished fit.
    anyway = arguments.anyway or (arguments.null > 0 and atlas.converged is not False)
    found = atlas.changed(*asked, n=arguments.number, stop=arguments.stop or (), anyway=anyway, **options)
    if not arguments.null:
        print(to_json(found) if arguments.json else found)
        return 0
    null = _null(arguments, atlas, asked, options)
    if arguments.json:
        print(to_json([found, null]))
        return 0
    print(null.title().replace("Change", "Shuffled dates, change", 1))
    if null.is_coarse:
        print(COARSE)
    print(_with_rates(found, null))
    return 0


def _null(
    arguments: argparse.Namespace, atlas: "Atlas", asked: tuple[str, str], options: dict[str, Any]
) -> "Null":
    """Compare with fits to shuffled dates, with a line of progress."""
    from driftline import words
    from driftline.terminal import Line

    counts = read_counts(arguments.counts)
    line = Line()

    def tell(told: "NullProgress") -> None:
        line.write(f"shuffle {told.done}/{told.planned}: {told.called} of {told.compared} words called")

    try:
        show = tell if sys.stderr.isatty() else None
        return words.null(counts, atlas, *asked, times=arguments.null, progress=show, **options)
    finally:
        line.close()


def _with_rates(found: "Changed", null: "Null") -> str:
    """The table of changed words, with the rate of false discoveries down to each."""
    lines = str(found).splitlines()
    begin = len(lines) - len(found.words) - 1
    rates = [f"{100.0 * rate:.0f} %" for rate in null.rates_of(found.words)]
    lines[begin] += "  false discoveries"
    for row, rate in enumerate(rates, begin + 1):
        lines[row] += f"  {rate:>17}"
    return "\n".join(lines)
