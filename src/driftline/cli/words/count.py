"""`driftline words count`: dated texts or n-gram tables in, one file of counts out."""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftline.cli.console.stopping import ending_on_sigterm
from driftline.cli.words.inputs import check_out, count_or_path, delimiter, step
from driftline.cli.words.locks import only_one

if TYPE_CHECKING:
    from driftline.words.counts.counts import Counts
    from driftline.words.texts.corpus import Corpus
    from driftline.words.texts.ngrams import NgramTable

ORDER = 10
EPILOG = """\
TEXTS is a table (.csv, .tsv, .jsonl, .parquet), a folder of tables, or a folder of texts (.txt, .md) with
dates in their names or in a --table; each but Parquet may be packed with gzip or zstd. Dates look like 1850,
1850-12 or 1850-12-31; 1850.5 is the middle of 1850. - reads a table from standard input.

examples:
  driftline words count speeches.csv --date day --text speech --step year -o speeches.counts
  driftline words count letters/ --table letters.csv --join-days 7 -o letters.counts
  driftline words count eng-5gram-* --ngrams --years 1800 2008 --rank per-step -o books.counts
  zcat speeches.csv.gz | driftline words count - -o speeches.counts
  driftline words count news.jsonl --tokenise jieba:lcut --processes 4 -o news.counts
  driftline words count --sotu --end 2016 --join-days 7 -o sotu.counts
"""
OF_FILES = (
    "date",
    "text",
    "table",
    "pattern",
    "date_pattern",
    "date_format",
    "encoding",
    "delimiter",
    "quoted",
)
OF_DATES = ("start", "end")
OF_NGRAMS = ("years", "tags", "overlap")
OF_LIMITS = ("document", "expansion")


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "count",
        help="count which words stand near which, at every time step",
        description="Count which words stand near which, at every time step.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("texts", metavar="TEXTS", nargs="*", type=Path, help="a file, a folder, or -")
    parser.add_argument("-o", "--out", type=Path, required=True, help="file for the counts")
    _add_counting(parser.add_argument_group("counting"))
    _add_files(parser.add_argument_group("tables and folders of texts"))
    _add_other(parser.add_argument_group("other sources"))
    parser.set_defaults(run=run)


def _add_counting(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    what = "document (all of one date), day, month, year, decade, or a number of days (%(default)s)"
    add("--step", type=step, default="document", help=f"what makes a time step: {what}")
    add("--join-days", type=int, default=0, metavar="N", help="join documents less than N days apart")
    what = "how many words, or a file with one on each line (%(default)s)"
    add("--vocabulary", type=count_or_path, default=10_000, metavar="N|FILE", help=what)
    add("--window", type=int, default=4, metavar="N", help="pairs count up to this distance (%(default)s)")
    add("--min-count", type=int, default=1, metavar="N", help="leave out words that occur less often")
    add("--stop", type=Path, metavar="FILE", help="leave out these words, one on each line")
    what = "choose words by how often they occur, or by their mean share of a step (%(default)s)"
    add("--rank", choices=("total", "per-step"), default="total", help=what)
    what = "deal the documents of a step into at most N parts, to shuffle their dates later (%(default)s)"
    add("--parts", type=int, default=1, metavar="N", help=what)
    add("--case", choices=("lower", "keep"), help="case of words (lower)")
    what = "cut texts with a function of your own, from a text to a list of words, such as jieba:lcut"
    add("--tokenise", metavar="MODULE:FUNCTION", help=what)
    add("--processes", type=int, default=1, metavar="N", help="how many share the work (%(default)s)")


def _add_files(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--date", metavar="COL", help="column of dates (date)")
    add("--text", metavar="COL", help="column of texts (text); with --table, of file names (file)")
    add("--table", type=Path, metavar="FILE", help="table of the files of the folder and their dates")
    add("--pattern", metavar="GLOB", help="which files of a folder to read, such as '*.txt'")
    add("--date-pattern", metavar="REGEX", help=r"where the date is in a name, such as '_(\d{4})\.txt'")
    add("--date-format", metavar="FORMAT", help="how dates are written, such as '%%d/%%m/%%Y'")
    add("--encoding", help="of the texts (utf-8)")
    add(
        "--delimiter",
        type=delimiter,
        metavar="CHAR",
        help=r"between the fields of a CSV file, such as ';' or '\t'",
    )
    add("--quoted", action=argparse.BooleanOptionalAction, help="whether fields may stand in quotes")
    add("--start", metavar="DATE", help="first day, month or year that counts")
    add("--end", metavar="DATE", help="last day, month or year that counts")
    add("--document", type=int, metavar="BYTES", help="longest document that is accepted (16 million)")
    add("--expansion", type=int, metavar="TIMES", help="how far a packed file may expand (200)")


def _add_other(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--sotu",
        action="store_true",
        default=None,
        help="State of the Union addresses, from the package sotu",
    )
    add("--ngrams", action="store_true", help="TEXTS are tables of n-grams by year, as of Google Books")
    add("--years", type=int, nargs=2, metavar=("FIRST", "LAST"), help="years of n-grams that count")
    add("--tags", choices=("drop", "keep", "strip"), help="parts of speech, as in fish_NOUN (drop)")
    add("--overlap", choices=("keep", "divide"), help="weight of pairs that several n-grams share (keep)")


def run(arguments: argparse.Namespace) -> int:
    """Count, write the counts, and say what was found."""
    listed = [arguments.vocabulary, arguments.stop, arguments.table]
    check_out(arguments.out, [*arguments.texts, *(path for path in listed if isinstance(path, Path))])
    with ending_on_sigterm(), only_one(arguments.out):
        return _count(arguments)


def _count(arguments: argparse.Namespace) -> int:
    from driftline import words
    from driftline.words.texts.word_lists import read_word_list

    vocabulary, stop = arguments.vocabulary, arguments.stop
    lower = arguments.case != "keep"
    tokenise = None if arguments.ngrams else _tokeniser(arguments)
    source = _source(arguments)
    if isinstance(vocabulary, Path):
        vocabulary = read_word_list(vocabulary, tokenise, lower, f"--vocabulary {vocabulary}")
    started = time.monotonic()
    counts = words.count(
        source,
        vocabulary,
        arguments.window,
        step=arguments.step,
        join_days=arguments.join_days,
        tokenise=tokenise,
        rank=arguments.rank,
        min_count=arguments.min_count,
        stop=() if stop is None else read_word_list(stop, tokenise, lower, f"--stop {stop}"),
        parts=arguments.parts,
        processes=arguments.processes,
    )
    seconds = time.monotonic() - started
    counts.save(arguments.out)
    print(_summary(counts, seconds, is_text=not arguments.ngrams))
    command = shlex.join(
        ["driftline", "words", "fit", str(arguments.out), "-o", f"{arguments.out.stem}.atlas"]
    )
    print(f"\nCounts: {arguments.out}\nNext:   {command}")
    return 0


def _tokeniser(arguments: argparse.Namespace) -> "Callable[[str], Iterable[str]]":
    """What cuts texts; modules are looked for in the folder where the user is, too."""
    from driftline.words.texts.named_tokeniser import ImportedTokeniser
    from driftline.words.texts.tokens import Tokeniser

    if arguments.tokenise is None:
        return Tokeniser(lower=arguments.case != "keep")
    _refuse(arguments, ("case",), "words of --tokenise, which stay as they are")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return ImportedTokeniser(arguments.tokenise)


def _source(arguments: argparse.Namespace) -> "Corpus | NgramTable":
    from driftline import words

    options = {"limits": words.Limits(**_given(arguments, OF_LIMITS))}
    if arguments.ngrams:
        if arguments.parts != 1:
            raise ValueError("--parts is not for tables of n-grams, which have no documents to deal")
        _refuse(arguments, ("sotu", "tokenise", *OF_FILES, *OF_DATES), "tables of n-grams")
        if not arguments.texts:
            raise ValueError("which tables of n-grams? name one or more, or their folder")
        paths = arguments.texts if len(arguments.texts) > 1 else arguments.texts[0]
        return words.ngrams(paths, case=arguments.case or "lower", **options, **_given(arguments, OF_NGRAMS))
    _refuse(arguments, OF_NGRAMS, "texts, but for tables of n-grams; add --ngrams")
    if arguments.sotu:
        _refuse(arguments, ("texts", *OF_FILES, *OF_LIMITS), "--sotu, which has its own texts")
        corpus = words.sotu()
    elif len(arguments.texts) == 1:
        corpus = words.read(arguments.texts[0], **options, **_given(arguments, OF_FILES))
    else:
        raise ValueError(
            f"{len(arguments.texts)} names of TEXTS; pass one file or one folder, perhaps with --pattern, "
            "or tables of --ngrams, or --sotu"
        )
    return corpus.between(**_given(arguments, OF_DATES))


def _given(arguments: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    values = {name: vars(arguments)[name] for name in names}
    return {name: value for name, value in values.items() if value is not None and value != []}


def _refuse(arguments: argparse.Namespace, names: Iterable[str], what: str) -> None:
    for name in _given(arguments, names):
        option = name.upper() if name == "texts" else f"--{name.replace('_', '-')}"
        raise ValueError(f"{option} is not for {what}")


def _summary(counts: "Counts", seconds: float, is_text: bool) -> str:
    tokens = int(counts.tokens.sum())
    covered = counts.occurrences.sum() / max(tokens, 1)
    documents = f"{counts.documents.sum():,} {'documents' if is_text else 'printed n-grams'}"
    rate = f", {tokens / seconds:,.0f} tokens a second" if is_text else ""
    rows = {
        "steps": f"{len(counts):,}, from {counts.dates[0]} to {counts.dates[-1]}",
        "words": f"{len(counts.vocabulary):,}, which make up {covered:.1%} of the tokens",
        "tokens": f"{tokens:,} in {documents}{counts.skipped and f'; {counts.skipped}'}",
        "pairs": f"{len(counts.values):,}",
        **({} if counts.parts is None else {"parts": f"{counts.num_parts:,}"}),
        "time": f"{seconds:.1f} s{rate}",
    }
    return "\n".join(f"{name:<8}{value}" for name, value in rows.items())
