"""Vectors in a NumPy archive, as `export` writes it; no array is read before its header is believed."""

import itertools
import math
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib import format as npy

from driftline.words.texts.dates import day_of
from driftline.words.texts.streams import HARMLESS, Limits

REMEDY = "write it with np.savez, as `Atlas.export` does"
KINDS = {"vocabulary": "U", "dates": "M", "mean": "f", "sd": "f"}
AXES = {"vocabulary": 1, "dates": 1, "mean": 3, "sd": 3}
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
# OSError, since a damaged archive sends its reader anywhere, even to before the file's beginning.
DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, OSError)
FIRST_DAY, LAST_DAY = day_of("0001-01-01"), day_of("9999-12-31")


class Arrays(NamedTuple):
    """What such a file holds.

    Attributes:
        vocabulary: The words, V.
        dates: The days, increasing, (T,).
        mean: Vectors in single precision, (T, V, d); zero where a word has none.
        sd: Standard deviations, (T, V, d), positive where there is a vector; None if the file has none.
    """

    vocabulary: tuple[str, ...]
    dates: np.ndarray
    mean: np.ndarray
    sd: np.ndarray | None


def read(path: Path, limits: Limits) -> Arrays:
    """Read a file and check all that is in it.

    Args:
        path: Where it is.
        limits: When to refuse.
    """
    with path.open("rb") as file:
        try:
            return _checked(**_arrays(file, limits))
        except DAMAGE as error:
            raise ValueError(f"{path} is damaged or no .npz file ({error}); {REMEDY}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}; {REMEDY}") from error


def _arrays(file, limits) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(file) as archive:
        members = _members(archive, os.fstat(file.fileno()).st_size, limits)
        _check_shapes({name: _shape(archive, name, member) for name, member in members.items()})
        return {name: _array(archive, member) for name, member in members.items()}


def _members(archive, size, limits) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by name, none of which unpacks to more than it may."""
    found = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    _must(
        found.keys() in (KINDS.keys(), KINDS.keys() - {"sd"}),
        f"it holds {', '.join(found):.200} and not vocabulary, dates, mean and perhaps sd",
    )
    for name, member in found.items():
        packed = min(member.compress_size, size)  # both numbers of a member are only what the file says
        _must(
            member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
            f"{name} is packed, and not with deflate",
        )
        _must(
            member.file_size <= max(HARMLESS, limits.expansion * packed),
            f"{name} unpacks from {packed:,} bytes to {member.file_size:,}, over {limits.expansion} times "
            "their number: this looks like a decompression bomb",
        )
    return found


def _shape(archive, name, member) -> tuple[int, ...]:
    """The shape in the header of an array, if all that the header says can be."""
    with archive.open(member) as file:
        try:
            shape, _, dtype = HEADERS[npy.read_magic(file)](file)
        except DAMAGE:
            raise
        except Exception as error:  # NumPy leaves it to Python to say what is wrong, in a dozen ways
            raise ValueError(f"{name} has a header that cannot be read ({error!r:.80})") from None
        begin = file.tell()
    _must(dtype.kind == KINDS[name], f"{name} has dtype {dtype}, and not one of kind {KINDS[name]!r}")
    _must(dtype.itemsize > 0, f"{name} holds empty texts")
    _must(name != "dates" or dtype == "datetime64[D]", f"{name} has dtype {dtype} and not datetime64[D]")
    _must(len(shape) == AXES[name], f"{name} has {len(shape)} axes instead of {AXES[name]}")
    _must(min(shape) > 0, f"{name} has shape {shape}")
    needed, there = math.prod(shape) * dtype.itemsize, member.file_size - begin
    _must(needed == there, f"{name} of shape {shape} has {needed:,} bytes, but {there:,} are there")
    return shape


def _check_shapes(shapes):
    steps_and_words = shapes["dates"] + shapes["vocabulary"]
    for name in shapes.keys() & {"mean", "sd"}:
        _must(
            shapes[name][:2] == steps_and_words and shapes[name] == shapes["mean"],
            f"{name} has shape {shapes[name]}, with {shapes['dates'][0]:,} dates, "
            f"{shapes['vocabulary'][0]:,} words and mean of shape {shapes['mean']}",
        )


def _array(archive, member):
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)


def _checked(vocabulary, dates, mean, sd=None) -> Arrays:
    words = _words(vocabulary)
    _check_dates(dates)
    with np.errstate(over="ignore", under="ignore"):  # what does not fit is found below
        mean = mean.astype(np.float32, copy=False)
        _check_each("mean", mean, np.isfinite(mean), words, dates)
        if sd is not None:
            sd = sd.astype(np.float32, copy=False)
            is_good = (sd > 0) & (sd**2 > 0) & np.isfinite(sd**2)
            _check_each("sd", sd, is_good | ~mean.any(2, keepdims=True), words, dates)
    return Arrays(words, dates, mean, sd)


def _check_dates(dates):
    days = dates.astype(np.int64)
    for date, day in zip(dates, days, strict=True):
        _must(
            FIRST_DAY <= day <= LAST_DAY, f"there is a date {date}, which is not between the years 1 and 9999"
        )
    for earlier, later in itertools.pairwise(dates):
        _must(earlier < later, f"the date {later} comes after {earlier}; sort the dates, each of them once")


def _words(vocabulary) -> tuple[str, ...]:
    codec = "utf-32-be" if vocabulary.dtype.str.startswith(">") else "utf-32-le"
    # NumPy keeps any numbers in a text, and fails where one of them is not a character.
    vocabulary.tobytes().decode(codec)
    words = tuple(vocabulary.tolist())
    _must(all(words), "vocabulary has an empty word")
    seen: set[str] = set()
    twice = next((word for word in words if word in seen or seen.add(word)), None)
    _must(twice is None, f"vocabulary has the word {twice!r} twice")
    return words


def _check_each(name, numbers, is_good, words, dates):
    if not is_good.all():
        step, word, component = np.argwhere(~is_good)[0]
        found = numbers[step, word, component]
        raise ValueError(
            f"{name} of {words[word]!r} at {dates[step]} has a component of {found}, which cannot be; a word "
            "without a vector has a mean of zeros"
        )


def _must(holds, what):
    if not holds:
        raise ValueError(what)
