"""Vectors of other programs, or of `export`, as an atlas: each date on its own."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftline.words.atlas.atlas import Atlas
from driftline.words.importing import npz
from driftline.words.importing.vector_texts import read_csv, read_word2vec
from driftline.words.paths.knots import Knots
from driftline.words.paths.paths import Paths
from driftline.words.paths.priors import Drift
from driftline.words.texts.dates import day_in_name, day_of
from driftline.words.texts.streams import FileRecord, Limits, Tally
from driftline.words.texts.suffixes import suffix_of

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
    found = [read_word2vec(path, index, tally, limits) for path in days.values()]
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
    days, words, vectors = read_csv(path, index, tally, Limits())
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
    drift = Drift(np.ones((1, num_steps)), np.zeros((1, num_steps)), np.zeros(len(vocabulary), np.int64))
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
                f"{folder} is not a folder; pass one with files such as 1900.txt, or a mapping of dates to "
                "files"
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
