"""`driftline words import`: vectors of other programs, or of `driftline words export`, as an atlas."""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.cli.words.answers import size_of
from driftline.cli.words.inputs import check_out

if TYPE_CHECKING:
    from driftline.words.atlas.atlas import Atlas

ORDER = 80
EPILOG = """\
There are no counts in vectors, so a word counts once wherever it has one. With the standard deviations of an
.npz file, neighbors and similarity have bands; the probability of a change needs more than those.

examples:
  driftline words import vectors -o words.atlas   # a folder with 1900.txt, 1901.txt and so on
  driftline words import vectors.csv -o words.atlas
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "import",
        help="make an atlas of vectors from other programs",
        description="Make an atlas of vectors from other programs, or from `driftline words export`.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = "folder of word2vec text with a date in the name of each file, or a .csv or .npz file"
    parser.add_argument("source", metavar="SOURCE", type=Path, help=what)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="ATLAS", help="file for the atlas")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the vectors, write the atlas, and say what was read."""
    from driftline import words

    check_out(arguments.out, [arguments.source], "words.atlas")
    atlas = words.import_vectors(arguments.source)
    atlas.save(arguments.out)
    print(_summary(atlas, arguments.out))
    return 0


def _summary(atlas: "Atlas", path: Path) -> str:
    files = len(atlas.provenance["files"])
    rows = {
        "source": f"{atlas.provenance['source']}, {files:,} {'file' if files == 1 else 'files'}",
        "vectors": f"{len(atlas.knots):,}",
        "steps": f"{len(atlas):,}, from {atlas.dates[0]} to {atlas.dates[-1]}",
        "words": f"{len(atlas.vocabulary):,}, in {atlas.dim} dimensions",
    }
    places = f"\nAtlas: {path} ({size_of([path])})\nNext:  driftline words {_next(atlas, path)}"
    return "\n".join([*(f"{name:<9}{value}" for name, value in rows.items()), places])


def _next(atlas: "Atlas", path: Path) -> str:
    """A question that this atlas has an answer to."""
    name, knots = shlex.quote(str(path)), atlas.knots
    first, last = (set(knots.word[knots.step == step].tolist()) for step in (0, len(atlas) - 1))
    if len(atlas) > 1 and first & last:
        return f"changed {name} --from {atlas.dates[0]} --to {atlas.dates[-1]}"
    return f"neighbors {name} {shlex.quote(atlas.vocabulary[knots.word[0]])}"
