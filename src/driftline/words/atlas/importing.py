"""Vectors of other programs as an atlas: point estimates, each date on its own."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftline.words.atlas.drift import Drift
from driftline.words.atlas.knots import Knots
from driftline.words.atlas.model import Atlas
from driftline.words.atlas.paths import Paths
from driftline.words.dates import day_in_name, day_of
from driftline.words.streams import TO_UTF8, Limits, Tally, decode, lines

REMEDY = "put one into it, as in 1850-12-31.txt, or pass a mapping of dates to files"
SUFFIXES = (".txt", ".vec", ".txt.gz", ".vec.gz", ".txt.zst", ".vec.zst")


def import_word2vec(source: Mapping[Any, str | os.PathLike] | str | os.PathLike) -> Atlas:
    """An atlas from vectors in word2vec's text format, with a file for each date.

    A file begins with a line of two numbers, how many words and how many components; then each line has a
    word and its vector. The queries that compare dates take out what all words have turned between them;
    `trajectory` does not, and shows the vectors as they are. There are no counts in such files, so every word
    counts as occurring once wherever it has a vector: pass `min_count=1` to `changed`.

    Args:
        source: A mapping of dates to files, or a folder of files with dates in their names.
    """
    days = _files(source)
    limits, tally = Limits(), Tally()
    index: dict[str, int] = {}
    found = [_read(path, index, tally, limits) for path in days.values()]
    dims = {vectors.shape[1] for _, vectors in found}
    if len(dims) > 1:
        raise ValueError(f"the files have vectors of different lengths, {sorted(dims)}; import one kind only")
    word = np.concatenate([words for words, _ in found])
    step = np.repeat(np.arange(len(found), dtype=np.int32), [len(words) for words, _ in found])
    order = np.lexsort((step, word))
    knots = Knots(len(index), len(found), word[order], step[order])
    mean = np.concatenate([vectors for _, vectors in found])[order]
    # There is no prior that such paths would follow between their knots; a flat one stands in its place.
    drift = Drift(np.ones(len(found)), np.zeros(len(found)))
    return Atlas(
        vocabulary=tuple(index),
        dates=np.array(list(days), "datetime64[D]"),
        knots=knots,
        words=Paths(knots, drift, mean, between="independent"),
        contexts=None,
        drift=drift,
        occurrences=np.ones(len(knots), np.int64),
        tokens=np.array([len(words) for words, _ in found], np.int64),
        settings={"method": "imported", "dim": mean.shape[1]},
        provenance={
            "source": "word2vec text",
            "files": [
                {"name": Path(file.name).name, "bytes": file.bytes, "sha256": file.sha256}
                for file in tally.files
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


def _read(path: Path, index: dict[str, int], tally: Tally, limits: Limits) -> tuple[np.ndarray, np.ndarray]:
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


def _vector(numbers, place):
    try:
        vector = np.array(numbers, np.float32)
    except ValueError as error:
        raise ValueError(f"{place}: {error}; is this word2vec text?") from None
    if not np.isfinite(vector).all():
        raise ValueError(f"{place}: a number is not finite; take the line out")
    return vector
