"""Vectors of other programs, or of `export`, as an atlas: each date on its own."""

import codecs
import csv
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftline.words.atlas import npz
from driftline.words.atlas.drift import Drift
from driftline.words.atlas.knots import Knots
from driftline.words.atlas.model import Atlas
from driftline.words.atlas.paths import Paths
from driftline.words.dates import day_in_name, day_of
from driftline.words.streams import TO_UTF8, FileRecord, Limits, Tally, decode, lines
from driftline.words.tables import suffix_of

REMEDY = "put one into it, as in 1850-12-31.txt, or pass a mapping of dates to files"
SUFFIXES = (".txt", ".vec", ".txt.gz", ".vec.gz", ".txt.zst", ".vec.zst")


def import_vectors(source: Mapping[Any, str | os.PathLike] | str | os.PathLike) -> Atlas:
    """An atlas from vectors in any of the formats that `Atlas.export` writes.

    A vector of zeros says that a word has none at a date. The queries that compare dates take out what all
    words have turned between them; `trajectory` does not, and shows the vectors as they are. There are no
    counts in such files, so every word counts as occurring once wherever it has a vector.

    Args:
        source: One of

            - a folder of word2vec text with a date in the name of each file, or a mapping of dates to such
              files; see `import_word2vec`;
            - a .csv file, packed with gzip or zstd or not, with a header of date, word, x0, x1 and so on;
            - an .npz file with arrays `vocabulary`, `dates` and `mean`; with standard deviations, `sd`,
              answers have bands, but not those that need the joint posterior of two dates.
    """
    if isinstance(source, Mapping) or Path(source).is_dir():
        return import_word2vec(source)
    path = Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file or folder {path}")
    if suffix_of(path) not in FORMATS:
        raise ValueError(
            f"{path} ends in none of {', '.join(FORMATS)}; if it is word2vec text, pass its folder, or a "
            "mapping of its date to it"
        )
    return FORMATS[suffix_of(path)](path)


def import_word2vec(source: Mapping[Any, str | os.PathLike] | str | os.PathLike) -> Atlas:
    """An atlas from vectors in word2vec's text format, with a file for each date; see `import_vectors`.

    A file begins with a line of two numbers, how many words and how many components; then each line has a
    word and its vector.

    Args:
        source: A mapping of dates to files, or a folder of files with dates in their names.
    """
    days = _files(source)
    limits, tally = Limits(), Tally()
    index: dict[str, int] = {}
    found = [_read_word2vec(path, index, tally, limits) for path in days.values()]
    dims = {vectors.shape[1] for _, vectors in found}
    if len(dims) > 1:
        raise ValueError(f"the files have vectors of different lengths, {sorted(dims)}; import one kind only")
    word = np.concatenate([words for words, _ in found])
    step = np.repeat(np.arange(len(found), dtype=np.int32), [len(words) for words, _ in found])
    rows = _in_order(word, step, np.concatenate([vectors for _, vectors in found]))
    return _atlas(index, list(days), *rows, source="word2vec text", files=tally.files)


def _import_csv(path: Path) -> Atlas:
    tally = Tally()
    index: dict[str, int] = {}
    days, words, vectors = _read_csv(path, index, tally, Limits())
    dates, step = np.unique(days, return_inverse=True)
    rows = _in_order(words, step.astype(np.int32), vectors)
    return _atlas(index, dates, *rows, source="CSV", files=tally.files)


def _import_npz(path: Path) -> Atlas:
    found = npz.read(path, Limits())
    word, step = (numbers.astype(np.int32) for numbers in np.nonzero(found.mean.any(2).T))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    record = FileRecord(os.fspath(path), path.stat().st_size, digest)
    rows = word, step, found.mean[step, word], None if found.sd is None else found.sd[step, word] ** 2
    return _atlas(found.vocabulary, found.dates, *rows, source="NumPy", files=[record])


FORMATS = {".csv": _import_csv, ".npz": _import_npz}


def _in_order(word, step, mean):
    """The rows that have a vector, word after word."""
    known = np.flatnonzero(mean.any(1))
    order = known[np.lexsort((step[known], word[known]))]
    return word[order], step[order], mean[order]


def _atlas(
    vocabulary, dates, word, step, mean, variance=None, *, source: str, files: list[FileRecord]
) -> Atlas:
    if not len(word):
        names = ", ".join(file.name for file in files[:3])
        raise ValueError(f"no word has a vector that is not zero in {names}; import files with vectors")
    num_steps = len(dates)
    knots = Knots(len(vocabulary), num_steps, word, step)
    # There is no prior that such paths would follow between their knots; a flat one stands in its place.
    drift = Drift(np.ones(num_steps), np.zeros(num_steps))
    return Atlas(
        vocabulary=tuple(vocabulary),
        dates=np.array(dates, "datetime64[D]"),
        knots=knots,
        words=Paths(knots, drift, mean, variance, between="independent"),
        contexts=None,
        drift=drift,
        occurrences=np.ones(len(knots), np.int64),
        tokens=np.bincount(step, minlength=num_steps).astype(np.int64),
        settings={"method": "imported", "dim": mean.shape[1]},
        provenance={
            "source": source,
            "files": [
                {"name": Path(file.name).name, "bytes": file.bytes, "sha256": file.sha256} for file in files
            ],
        },
        history={},
    )


def _files(source) -> dict[int, Path]:
    """Files by the day, counted from 1970-01-01, in the order of time."""
    if isinstance(source, Mapping):
        dated = [(day_of(date), Path(path)) for date, path in source.items()]
    else:
        folder = Path(source)
        if not folder.is_dir():
            raise NotADirectoryError(
                f"{folder} is no folder; pass one with files such as 1900.txt, or a mapping of dates to files"
            )
        names = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES))
        dated = [(_day(path), path) for path in names]
    if not dated:
        raise ValueError(f"there are no vectors in {source}; their files end in {', '.join(SUFFIXES)}")
    days: dict[int, Path] = {}
    for day, path in sorted(dated, key=lambda pair: pair[0]):
        if day in days:
            raise ValueError(f"{days[day]} and {path} are of the same date; keep one")
        days[day] = path
    return days


def _day(path):
    try:
        return day_in_name(path.name, remedy=REMEDY)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_word2vec(
    path: Path, index: dict[str, int], tally: Tally, limits: Limits
) -> tuple[np.ndarray, np.ndarray]:
    """Words and vectors of a file; words that are new are added to the index."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    rows = enumerate(lines(path, os.fspath(path), tally, limits), 1)
    count, dim = _sizes(rows, path)
    words, vectors = [], []
    for number, line in rows:
        place = f"{path}, line {number}"
        # Some programs end lines with a space. A word may hold any character but the space that ends it.
        word, *numbers = decode(line, "utf-8", place, TO_UTF8).rstrip(" ").split(" ")
        if len(numbers) != dim or not word:
            raise ValueError(f"{place}: {len(numbers)} numbers after the word {word!r} instead of {dim}")
        words.append(index.setdefault(word, len(index)))
        vectors.append(_vector(numbers, place))
    if len(words) != count:
        raise ValueError(f"{path} has {len(words):,} words and its first line says {count:,}; get it anew")
    if len(set(words)) != len(words):
        raise ValueError(f"{path} has a word twice; keep one of its lines")
    return np.array(words, np.int32), np.array(vectors, np.float32).reshape(-1, dim)


def _sizes(rows: Iterator[tuple[int, bytes]], path) -> tuple[int, int]:
    first = next(rows, (1, b""))[1].split()
    if len(first) != 2 or not all(number.isdigit() for number in first) or int(first[1]) < 1:
        raise ValueError(
            f"{path}: the first line is not the number of words and of components, as in '10000 100'; "
            "is this word2vec text?"
        )
    return int(first[0]), int(first[1])


def _read_csv(path: Path, index: dict[str, int], tally: Tally, limits: Limits) -> tuple[np.ndarray, ...]:
    """Days, words and vectors of a file; the index is filled with its words."""
    rows = _csv_rows(path, tally, limits)
    header = next(rows, ("", []))[1]
    dim = len(header) - 2
    if dim < 1 or header != ["date", "word", *(f"x{k}" for k in range(dim))]:
        raise ValueError(
            f"{path}: the first line is {','.join(header)!r:.80}; name the columns date, word, x0, x1 and "
            "so on"
        )
    found: dict[tuple[int, int], np.ndarray] = {}
    for place, row in rows:
        if len(row) != len(header) or not row[1]:
            raise ValueError(
                f"{place}: {len(row)} fields, {row!r:.80}, instead of a date, a word and {dim} numbers; mend "
                "the line, or take it out"
            )
        key = _csv_day(row[0], place), index.setdefault(row[1], len(index))
        if key in found:
            raise ValueError(
                f"{place}: the word {row[1]!r} is there twice at {row[0]}; keep one of its lines"
            )
        found[key] = _vector(row[2:], place)
    days, words = np.array(list(found), np.int32).reshape(-1, 2).T
    return days, words, np.array(list(found.values()), np.float32).reshape(-1, dim)


def _csv_rows(path: Path, tally: Tally, limits: Limits) -> Iterator[tuple[str, list[str]]]:
    """Rows that are not empty, and where each of them begins."""
    # With its end, since a word in quotes may hold one.
    reader = csv.reader((f"{line}\n" for line in _decoded(path, tally, limits)), strict=True)
    begin = 1
    try:
        for row in reader:
            if row:
                yield f"{path}, line {begin}", row
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {begin}: not CSV ({error}); look for a quote that is not closed"
        ) from None


def _decoded(path: Path, tally: Tally, limits: Limits) -> Iterator[str]:
    for number, line in enumerate(lines(path, os.fspath(path), tally, limits), 1):
        # Spreadsheets begin UTF-8 with a mark.
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        yield decode(text, "utf-8", f"{path}, line {number}", TO_UTF8)


def _csv_day(text, place):
    try:
        return day_of(text)
    except ValueError:
        raise ValueError(f"{place}: {text!r} is not a date; write dates like 1850-12-31") from None


def _vector(numbers, place):
    try:
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
            vector = np.array(numbers, np.float32)
    except ValueError as error:
        raise ValueError(f"{place}: {error}; write numbers such as 0.25") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: a number is not finite; take the line out")
    return vector
