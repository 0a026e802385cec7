"""Mean vectors for other programs: word2vec text, CSV and NumPy."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftline.storage.checked_files import replacing
from driftline.storage.explained_errors import explained

if TYPE_CHECKING:
    from driftline.words.atlas.atlas import Atlas


NEVER = re.compile("[\0\ud800-\udfff]")  # the end of a text in many programs, and halves of characters
# What ends a word or a line in each format, and the remedy; a carriage return is lost before a line end.
ENDS = {
    "word2vec": (re.compile(r"\s"), "use format='csv' or 'npz'"),
    "csv": (re.compile("\r"), "use format='npz'"),
    "npz": (re.compile("(?!)"), "count without it"),
}


def export(atlas: "Atlas", place: str | os.PathLike, format: str, when: Any = None) -> list[Path]:
    """Write the vectors of the words, and return the paths of the files.

    Args:
        atlas: What to write.
        place: A folder for "word2vec", a file for the others.
        format: "word2vec", "csv" or "npz".
        when: A date or several, or None for all steps.
    """
    if format not in FORMATS:
        raise ValueError(f"format={format!r}; choose one of {', '.join(FORMATS)}")
    _check_words(atlas.vocabulary, format)
    try:
        return FORMATS[format](atlas, Path(place), _steps(atlas, when))
    except OSError as error:
        raise explained(error, f"could not write {os.fspath(place)}", "choose another place") from error


def _check_words(vocabulary, format):
    """Refuse words that could not be read back from the files."""
    ends, remedy = ENDS[format]
    for word in vocabulary:
        if found := NEVER.search(word):
            raise ValueError(
                f"the word {word!r} has {found[0]!r} in it, which no format holds; count without it"
            )
        if not word or (found := ends.search(word)):
            what = f"has {found[0]!r} in it" if found else "is empty"
            raise ValueError(f"the word {word!r} {what}, which would end it in {format}; {remedy}")


def _steps(atlas, when) -> list[int]:
    if when is None:
        return list(range(len(atlas)))
    several = isinstance(when, Iterable) and not isinstance(when, str)
    return sorted({atlas.step(date) for date in (when if several else [when])})


def _known(atlas, step) -> tuple[np.ndarray, np.ndarray]:
    """The words that have a vector at a step, and their vectors; independent estimates lack some."""
    mean = atlas.words.at_step(step)[0]
    words = np.flatnonzero(mean.any(1))
    return words, mean[words].astype(np.float32)


def _word2vec(atlas, folder: Path, steps) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder / f"{atlas.dates[step]}.txt", _word2vec_lines(atlas, step)) for step in steps]


def _word2vec_lines(atlas, step) -> Iterator[str]:
    words, mean = _known(atlas, step)
    yield f"{len(words)} {atlas.dim}\n"
    for word, vector in zip(words, mean, strict=True):
        yield f"{atlas.vocabulary[word]} {' '.join(map(str, vector))}\n"


def _csv(atlas, path: Path, steps) -> list[Path]:
    return [_write(path, _csv_lines(atlas, steps))]


def _csv_lines(atlas, steps) -> Iterator[str]:
    yield ",".join(["date", "word", *(f"x{k}" for k in range(atlas.dim))]) + "\n"
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for step in steps:
        words, mean = _known(atlas, step)
        for word, vector in zip(words, mean, strict=True):
            writer.writerow([atlas.dates[step], atlas.vocabulary[word], *vector])
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()


def _npz(atlas, path: Path, steps) -> list[Path]:
    """Arrays `vocabulary`, `dates`, `mean` (T, V, d), and `sd` if there are variances; none holds objects."""
    arrays = {
        "vocabulary": np.array(atlas.vocabulary, np.str_),
        "dates": atlas.dates[steps].astype("datetime64[D]"),
        "mean": np.empty((len(steps), len(atlas.vocabulary), atlas.dim), np.float32),
    }
    if atlas.words.variance is not None:
        arrays["sd"] = np.empty_like(arrays["mean"])
    for i, step in enumerate(steps):
        arrays["mean"][i], variance = atlas.words.at_step(step)
        if variance is not None:
            arrays["sd"][i] = np.sqrt(variance)
    with replacing(path) as file:
        np.savez(file, **arrays)
    return [path]


def _write(path: Path, lines: Iterable[str]) -> Path:
    with replacing(path) as file:
        for line in lines:
            file.write(line.encode())
    return path


FORMATS: dict[str, Callable[["Atlas", Path, list[int]], list[Path]]] = {
    "word2vec": _word2vec,
    "csv": _csv,
    "npz": _npz,
}
