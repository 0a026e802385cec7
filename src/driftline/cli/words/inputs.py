"""What commands on words take from the command line: numbers or files, dates, steps, places to write to."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.cli.console.parsing import Text

if TYPE_CHECKING:
    from driftline.words.counts.counts import Counts

SUFFIX = ".counts"
OF_COUNTS = (SUFFIX, ".driftline")  # and what earlier versions called them


def count_or_path(text: str) -> int | Path:
    """A whole number, or the name of a file."""
    return int(text) if text.isdecimal() else Path(text)


def is_date(text: str) -> bool:
    """Whether a text can be read as a date."""
    from driftline.words.texts.dates import period_of

    try:
        period_of(text)
    except ValueError:
        return False
    return True


DATE = Text(is_date)


def step(text: str) -> int | str:
    """A number of days, or the name of a period."""
    return int(text) if text.isdecimal() else text


def number(text: str) -> int:
    """How many: a whole number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def steps(text: str) -> slice:
    """A time step by its number, which starts at 0, or several as FIRST:END or FIRST:END:BY, as in Python."""
    try:
        parts = [int(part) if part else None for part in text.split(":")]
        if len(parts) == 1 and parts[0] is not None:
            return slice(parts[0], parts[0] + 1)
        if len(parts) in (2, 3) and parts[2:] != [0]:
            return slice(*parts)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is not a step, such as 4, nor several, such as 4:200:10")


def chosen_steps(chosen: Sequence[slice], num_steps: int) -> list[int]:
    """Numbers of the steps that were named; a single one that does not exist is left for others to refuse."""
    found = []
    for each in chosen:
        is_single = each.start is not None and each.step is None and each.stop == each.start + 1
        here = [each.start] if is_single else range(num_steps)[each]
        if not here:
            ends = (each.start, each.stop) if each.step is None else (each.start, each.stop, each.step)
            named = ":".join("" if end is None else str(end) for end in ends)
            raise ValueError(
                f"--hold-out {named} is none of the steps, which go from 0 to {num_steps - 1}; name others"
            )
        found += here
    return sorted(set(found))


def read_counts(path: Path) -> "Counts":
    """The counts in a file; texts that were not counted yet are refused with the command that does it."""
    from driftline import words
    from driftline.words.texts.file_formats import format_of

    if path.is_dir() or (path.is_file() and format_of(path)):
        name = path.name.partition(".")[0] or "texts"
        command = shlex.join(["driftline", "words", "count", str(path), "-o", f"{name}{SUFFIX}"])
        raise ValueError(f"{path} holds texts and not counts; count it first: {command}")
    return words.load_counts(path)


def delimiter(text: str) -> str:
    r"""A character; a tab is hard to type and may be written as \t."""
    return "\t" if text == r"\t" else text


def check_out(path: Path, inputs: Sequence[Path], example: str = f"counts{SUFFIX}") -> None:
    """Refuse a place that cannot be written to, or that is read, before the work and not after it.

    Args:
        path: Where the result will go.
        inputs: Files and folders that are read.
        example: A name that such a file may have.
    """
    folder = path.resolve().parent if path.is_symlink() else path.parent  # where the file itself will lie
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file, such as {path / example}")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file; name another")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; make it first, or name another")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the folder {folder} cannot be written to; name another")
    if path.exists() and any(_is_part(path, each) for each in inputs if each.exists()):
        raise ValueError(f"{path} is one of the files to read and would be overwritten; name another")


def _is_part(path: Path, source: Path) -> bool:
    inside = source.is_dir() and path.resolve().is_relative_to(source.resolve())
    return path.samefile(source) or (inside and path.suffix not in OF_COUNTS)
