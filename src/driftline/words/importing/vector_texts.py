"""Vectors as text: a file of word2vec's, or a CSV table of many dates, read line by line and not believed."""

import csv
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from driftline.words.texts.dates import day_of
from driftline.words.texts.streams import TO_UTF8, Limits, Tally, decode, decoded_lines, lines


def read_word2vec(
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
        raise ValueError(f"{path} has {len(words):,} words and its first line says {count:,}; get it again")
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


def read_csv(path: Path, index: dict[str, int], tally: Tally, limits: Limits) -> tuple[np.ndarray, ...]:
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
    texts = decoded_lines(path, os.fspath(path), "utf-8", tally, limits, TO_UTF8)
    reader = csv.reader((f"{line}\n" for line in texts), strict=True)
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
