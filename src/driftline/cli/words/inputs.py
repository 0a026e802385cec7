"""What commands on words take from the command line: numbers or files, lists of words, places to write to."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

SUFFIX = ".driftline"


def count_or_path(text: str) -> int | Path:
    """A whole number, or the name of a file."""
    return int(text) if text.isdecimal() else Path(text)


def step(text: str) -> int | str:
    """A number of days, or the name of a period."""
    return int(text) if text.isdecimal() else text


def delimiter(text: str) -> str:
    r"""A character; a tab is hard to type and may be written as \t."""
    return "\t" if text == r"\t" else text


def word_list(path: Path, tokenise: Callable[[str], list[str]] | None, lower: bool) -> list[str]:
    """The words of a file with one on each line, spelt as in the texts; what follows a # is left out.

    Args:
        path: The file.
        tokenise: What cuts the texts; None if they are cut already.
        lower: With None: whether the words of the texts are in lower case.
    """
    from driftline.words import streams

    found = []
    for number, line in enumerate(streams.lines(path, path.name, streams.Tally(), streams.Limits()), 1):
        place = f"{path.name}, line {number}"
        word = streams.decode(line, "utf-8-sig", place).partition("#")[0].strip()
        if len(word.split()) > 1:
            raise ValueError(f"{place}: {word!r:.80} is more than one word; put each on a line of its own")
        cut = [word.lower() if lower else word] if tokenise is None else tokenise(word)
        # What the tokeniser cuts into several words is never one of them in the texts.
        found += cut if len(cut) == 1 and cut[0] else []
    if not found:
        raise ValueError(f"{path}: no word in it; put one on each line")
    return list(dict.fromkeys(found))


def check_out(path: Path, inputs: Sequence[Path]) -> None:
    """Refuse a place that cannot be written to, or that is read, before the work and not after it.

    Args:
        path: Where the result will go.
        inputs: Files and folders that are read.
    """
    folder = path.parent
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file, such as {path / f'counts{SUFFIX}'}")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a file; name another")
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}; make it first, or name another")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the folder {folder} cannot be written to; name another")
    if path.exists() and any(_is_part(path, each) for each in inputs if each.exists()):
        raise ValueError(f"{path} is one of the files to read and would be overwritten; name another")


def _is_part(path, source):
    inside = source.is_dir() and path.resolve().is_relative_to(source.resolve())
    return path.samefile(source) or (inside and path.suffix != SUFFIX)
