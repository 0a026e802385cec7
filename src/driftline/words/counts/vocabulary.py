"""Which words are counted."""

import warnings
from collections.abc import Iterable, Sequence

import numpy as np

RANKS = ("total", "per-step")


def check_vocabulary(vocabulary: int | Sequence[str]) -> int | tuple[str, ...]:
    """A size or a list of different words."""
    if isinstance(vocabulary, str):
        raise TypeError(f"vocabulary={vocabulary!r} is one string; pass a number of words or a list of words")
    if isinstance(vocabulary, int | np.integer):
        if vocabulary < 2:
            raise ValueError(f"vocabulary={vocabulary}; pairs need at least two words")
        return int(vocabulary)
    words = tuple(vocabulary)
    if len(words) < 2 or not all(isinstance(word, str) and word for word in words):
        raise ValueError("vocabulary must be a number of words or a list of at least two words")
    if len(set(words)) < len(words):
        twice = next(word for i, word in enumerate(words) if word in words[:i])
        raise ValueError(f"the word {twice!r} is in the vocabulary twice; remove one")
    return words


def choose(
    words: list[str],
    totals: np.ndarray,
    scores: np.ndarray,
    size: int,
    *,
    min_count: int,
    stop: Iterable[str],
) -> tuple[str, ...]:
    """The words with the highest scores, highest first; equal ones in the order of the alphabet.

    Args:
        words: All words of the corpus.
        totals: How often each occurs.
        scores: What they are ranked by.
        size: How many are wanted. If there are fewer, all are taken, and a warning says so.
        min_count: Words that occur less often are not taken.
        stop: Words that are not taken.
    """
    stopped = set(stop)
    allowed = np.flatnonzero(totals >= min_count)
    if stopped:
        allowed = np.array([i for i in allowed if words[i] not in stopped], np.int64)
    if len(allowed) < 2:
        raise ValueError(
            f"{len(allowed)} of {len(words)} words occur at least {min_count} times and are not on the stop "
            "list, but pairs need two; lower min_count, shorten the stop list, or add texts"
        )
    if len(allowed) < size:
        warnings.warn(
            f"a vocabulary of {size} words was asked for, but only {len(allowed)} words of the corpus can be "
            f"in it (min_count={min_count}, {len(stopped)} words on the stop list); all of them are taken",
            stacklevel=3,
        )
    if len(allowed) > size:
        # Only words at least as good as the last one need to be put in order by name.
        bar = np.partition(scores[allowed], len(allowed) - size)[len(allowed) - size]
        allowed = allowed[scores[allowed] >= bar]
    ranked = sorted(allowed.tolist(), key=lambda i: (-scores[i], words[i]))
    return tuple(words[i] for i in ranked[:size])
