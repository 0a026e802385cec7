"""Words that an answer leaves out."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from driftline.words.texts.word_lists import read_word_list


def stopped(places: Mapping[str, int], stop: Iterable[str] | os.PathLike) -> list[int]:
    """Places in the vocabulary of the words to leave out; words that are not in it are passed over.

    Args:
        places: Place of each word of the vocabulary.
        stop: The words, or the path of a file with one on each line. If the vocabulary is in lower case,
            they may be in any.
    """
    if isinstance(stop, str):
        raise TypeError(f"stop={stop!r} is one string; pass a list of words, or a pathlib.Path to a file")
    lower = all(word == word.lower() for word in places)
    if isinstance(stop, os.PathLike):
        path = Path(stop)
        stop = read_word_list(path, None, lower, f"stop={str(path)!r}")
    chosen = {word.lower() if lower else word for word in stop}
    return sorted(places[word] for word in chosen if word in places)
