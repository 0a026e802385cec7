"""Files with one word on each line."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from driftline.words.texts import streams


def read_word_list(
    path: Path, tokenise: Callable[[str], Iterable[str]] | None, lower: bool, option: str
) -> list[str]:
    """The words of a file with one on each line, spelt as in the texts; what follows a # is left out.

    Args:
        path: The file.
        tokenise: What cuts the texts; None if they are cut already.
        lower: With None: whether the words of the texts are in lower case.
        option: How the file was passed, such as "--stop none", for errors.
    """
    if not path.is_file():
        number = re.fullmatch(r"\d[\d.,_' ]*[kKmM]?", str(path))
        digits = "; a number is written in digits only, such as 10000" if number else ""
        raise FileNotFoundError(f"{option}: there is no such file; name one with a word on each line{digits}")
    found = []
    for number, line in enumerate(streams.lines(path, path.name, streams.Tally(), streams.Limits()), 1):
        place = f"{path.name}, line {number}"
        word = streams.decode(line, "utf-8-sig", place, streams.TO_UTF8).partition("#")[0].strip()
        if len(word.split()) > 1:
            raise ValueError(f"{place}: {word!r:.80} is more than one word; put each on a line of its own")
        cut = [word.lower() if lower else word] if tokenise is None else list(tokenise(word))
        # What the tokeniser cuts into several words is never one of them in the texts.
        found += cut if len(cut) == 1 and cut[0] else []
    if not found:
        raise ValueError(f"{path}: no word in it; put one on each line")
    return list(dict.fromkeys(found))
