"""`words.ngrams`: tables of n-grams by year, as Google Books publishes them."""

import codecs
import contextlib
import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence
from math import lcm
from pathlib import Path
from typing import Any, Literal

from driftline.words.texts import pipes, streams
from driftline.words.texts.duplicates import refuse_twice
from driftline.words.texts.ngram_lines import LineParser, Ngram, NgramLines
from driftline.words.texts.passages import pair_units
from driftline.words.texts.streams import Limits, Tally

PEEK = 1 << 20  # bytes that are looked at for the years that there are


@dataclasses.dataclass(frozen=True)
class NgramTable:
    """Tables of n-grams, described by where they are; made by `words.ngrams`, counted by `words.count`.

    Attributes:
        folder: What the names of the files are relative to.
        paths: The files.
        order: The n of the n-grams.
        parser: How a line is read.
        overlap: What is done about the pairs that several n-grams share.
        limits: When to refuse a file.
        skipped: Names of what is in the folder and not read.
    """

    folder: Path
    paths: tuple[Path, ...]
    order: int
    parser: LineParser
    overlap: str
    limits: Limits
    skipped: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Ngram]:
        for batch in self.batches(Tally(), 1 << 20):
            yield from self.parser.ngrams(batch)

    def batches(self, tally: Tally, size: int) -> Iterator[NgramLines]:
        """Lines in groups of about `size` bytes, for the counter."""
        tally.bytes_total = streams.total_size(list(self.paths))
        tally.skipped += self.skipped
        for path in self.paths:
            name = path.relative_to(self.folder).as_posix()
            group, first, room = [], 1, size
            for line in streams.lines(path, name, tally, self.limits):
                if first == 1 and not group:
                    line = line.removeprefix(codecs.BOM_UTF8)
                group.append(line)
                room -= len(line)
                if room <= 0:
                    yield NgramLines(name, first, group)
                    group, first, room = [], first + len(group), size
            yield NgramLines(name, first, group)

    def encoder(self, tokenise: Any) -> LineParser:
        """What turns such a group into numbers; n-grams are cut already, so no tokeniser has a say."""
        if tokenise is not None:
            raise ValueError("tables of n-grams are cut into words already; leave tokenise= out")
        return self.parser

    def pair_units(self, window: int) -> tuple[tuple[int, ...], int]:
        """Weights of the distances 1 to `window` as whole numbers, and the number that stands for 1."""
        units, one = pair_units(window)
        if self.overlap == "keep":
            return units, one
        shared = [max(self.order - distance, 1) for distance in range(1, window + 1)]
        scale = lcm(*shared)
        return tuple(unit * scale // count for unit, count in zip(units, shared, strict=True)), one * scale

    def remedy_if_empty(self) -> str:
        """What to do if no n-gram was found: which years there are, if others were asked for."""
        if self.parser.years is None:
            return "check that these are tables of n-grams with words in them, and the tags asked for"
        first, last = self.parser.years
        everything = dataclasses.replace(self.parser, years=None)
        years = [
            year
            for batch in itertools.islice(self.batches(Tally(), PEEK), 3)
            for gram in everything.ngrams(batch)
            for year in gram.years
        ]
        there = f", but begin with n-grams of {min(years)} to {max(years)}" if years else ""
        return f"the tables have none of the years {first} to {last}{there}: change years="

    def describe(self) -> dict[str, Any]:
        """What is read and how, for the record."""
        options = dataclasses.asdict(self.parser)
        return {"kind": f"{self.order}-grams", "overlap": self.overlap} | options


def ngrams(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    years: tuple[int, int] | None = None,
    case: Literal["lower", "keep"] = "lower",
    tags: Literal["drop", "keep", "strip"] = "drop",
    overlap: Literal["keep", "divide"] = "keep",
    limits: Limits | None = None,
) -> NgramTable:
    """Tables of n-grams by year, in the layout of 2012 or of 2020; no more than a first line is read yet.

    Every n-gram counts as a text of n words that was printed as often as the table says: pairs of its words
    weigh by their distance as in running text. Tokens without a letter or digit keep their place and count
    nothing.

    In running text, n-grams overlap: two words at distance d stand together in n - d of them. With
    `overlap="keep"`, each of these counts, so that close pairs weigh more than in running text. With
    `overlap="divide"`, weights are divided by n - d, and the counts of a complete table are those of the
    text it was made from, but for its ends; 5-grams then give all pairs in a window of 4 the weight 1/4.

    Args:
        path: A file, a folder whose files are all such tables, or several files; pipes are copied to
            temporary files. Folders in the folder, and files that begin with a dot, are not read.
        years: The first and last year that count.
        case: "lower" to put words in lower case, "keep" to leave them.
        tags: What to do with parts of speech, as in fish_NOUN: "drop" leaves tagged n-grams out, since the
            published tables hold every n-gram without tags too; "strip" takes tags off; "keep" makes them
            part of the word. The last two count words twice in a table that has both.
        overlap: Whether pairs count once per n-gram ("keep") or once per place in the text ("divide").
        limits: Longest line and largest expansion of packed files that are accepted.
    """
    for name, value, allowed in (
        ("case", case, ("lower", "keep")),
        ("tags", tags, ("drop", "keep", "strip")),
        ("overlap", overlap, ("keep", "divide")),
    ):
        if value not in allowed:
            raise ValueError(f"{name}={value!r}; choose one of {allowed}")
    if years is not None and not 1 <= years[0] <= years[1] <= 9999:
        raise ValueError(f"years={years!r}; pass the first and the last year, such as (1800, 2008)")
    limits = Limits() if limits is None else limits
    named, skipped = _named(path)
    copies = {each: pipes.copy_pipe(each) for each in named if pipes.is_pipe(each)}
    try:
        paths = tuple(copies.get(each, each) for each in named)
        _check_paths(path, paths)
        order = _order(paths, limits)
    except BaseException:
        for copy in copies.values():
            pipes.remove(copy)
        raise
    parser = LineParser(order, case, tags, None if years is None else (int(years[0]), int(years[1])))
    folder = Path(os.path.commonpath({each.parent for each in paths}))
    table = NgramTable(folder, paths, order, parser, overlap, limits, skipped)
    for copy in copies.values():
        pipes.remove_with(table, copy)
    return table


def _named(path: str | os.PathLike | Sequence[str | os.PathLike]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files that a path leads to, and the names of what is beside them and not read."""
    if not isinstance(path, str | os.PathLike):
        return tuple(Path(each) for each in path), ()
    if not Path(path).is_dir():
        return (Path(path),), ()
    inside = sorted(each for each in Path(path).iterdir() if not each.name.startswith("."))
    files = tuple(each for each in inside if each.is_file())
    return files, tuple(each.name for each in inside if not each.is_file())


def _check_paths(path: Any, paths: Sequence[Path]) -> None:
    if not paths:
        raise ValueError(f"{path}: no files in it")
    for each in paths:
        if not each.is_file():
            raise FileNotFoundError(f"there is no file {each}")
    refuse_twice(paths)


def _order(paths: Sequence[Path], limits: Limits) -> int:
    """The n of the first n-gram."""
    for path in paths:
        with contextlib.closing(streams.lines(path, path.name, Tally(), limits)) as lines:
            line = next(filter(None, lines), None)
        if line is None:
            continue
        order = line.partition(b"\t")[0].count(b" ") + 1
        if order == 1:
            raise ValueError(f"{path}: 1-grams, or no n-grams at all; pairs of words need 2-grams to 5-grams")
        return order
    raise ValueError(f"{paths[0]}: no line in it, nor in any other of {len(paths)} files")
