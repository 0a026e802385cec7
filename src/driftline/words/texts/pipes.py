"""Standard input and pipes as tables: copied to a file, since they can be read only once and have no name."""

import contextlib
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from driftline.storage.explained_errors import explained
from driftline.words.texts import streams
from driftline.words.texts.file_formats import suffix_by_content
from driftline.words.texts.streams import Limits, Tally

STANDARD_INPUT = "-"
DEVICES = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
REMEDY = "free some space there, or name another folder in the environment variable TMPDIR"


def is_pipe(path: Path) -> bool:
    """Whether a path is "-", for standard input, or something that can be read only once."""
    return str(path) == STANDARD_INPUT or str(path).startswith(DEVICES) or path.is_fifo()


def copy_pipe(path: Path) -> Path:
    """A copy of what comes through a pipe, in a new folder of its own; see `remove_with`."""
    folder = Path(tempfile.mkdtemp(prefix="driftline-"))
    copy = folder / ("standard-input" if str(path) == STANDARD_INPUT else "pipe")
    try:
        _copy(path, copy)
    except BaseException as error:
        remove(copy)
        if isinstance(error, OSError):
            raise explained(error, f"could not copy {path} to {folder.parent}", REMEDY) from error
        raise
    return copy


def with_suffix(copy: Path, limits: Limits) -> Path:
    """The copy of a table, renamed by what it holds: the format that it begins like, or else CSV."""
    with contextlib.closing(streams.chunks(copy, copy.name, Tally(), limits)) as pieces:
        head = next(pieces, b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    return copy.rename(copy.with_name(copy.name + suffix_by_content(head)))


def remove(copy: Path) -> None:
    """Remove a copy and its folder."""
    shutil.rmtree(copy.parent, ignore_errors=True)


def remove_with(owner: Any, copy: Path) -> None:
    """Remove a copy when the one who reads it is gone, or the program ends."""
    weakref.finalize(owner, remove, copy)


def _copy(path: Path, copy: Path) -> None:
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(copy.open("wb"))
        if str(path) != STANDARD_INPUT:
            source = stack.enter_context(path.open("rb"))
        elif sys.stdin is None:
            raise ValueError("standard input is closed; name a file, or send texts through a pipe")
        else:
            source = sys.stdin.buffer
        shutil.copyfileobj(source, target)
