"""How far fits of the same counts from different seeds agree.

The ELBO has many maxima. What fits from other seeds do not find again is a matter of luck, not of the texts.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from driftline.words.atlas.atlas import Atlas

N = 20  # closest words that are compared
MIN_COUNT = 10  # around a date, for words that are compared
CHUNK = 1 << 24  # similarities that are held at a time


class _Close(NamedTuple):
    """Closest words at a step: the words that have support, increasing, (m,), and theirs, sorted, (m, n)."""

    date: str
    words: np.ndarray
    closest: np.ndarray


class Sketch(NamedTuple):
    """What is compared of a fit, so that fits themselves need not be held."""

    vocabulary: tuple[str, ...]
    dates: np.ndarray
    close: list[_Close]
    distances: dict[str, float]
    elbo: float | None


def agreement(atlases: Iterable[Atlas], *, n: int = N, min_count: int = MIN_COUNT) -> dict[str, Any]:
    """How far fits of the same counts agree: numbers and texts that JSON can hold.

    Neither measure feels a rotation of the whole space. Numbers that cannot be known, as with a single word,
    are None.

    Args:
        atlases: Two or more, of the same words and dates.
        n: How many closest words are compared.
        min_count: Words that occur less often around a date are left out.

    Returns:
        - `fits`, `n`, `min_count`: how many fits, and the options.
        - `neighbors`: for the first, the middle and the last step, the `date`, how many `words` have support,
          and the `share` of the n closest words that two fits have in common, as a mean over words and pairs
          of fits. By chance it would be about n / words.
        - `share`: the mean of these.
        - `change`: from `start` to `end`, the first and the last step, how many `words` are compared, and
          Spearman's `rank_correlation` of their distances, as a mean over pairs of fits; `lowest` is the
          lowest of these.
        - `elbo_difference`: between the highest and the lowest, in nats; None of point estimates.
    """
    for name, number in (("n", n), ("min_count", min_count)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise ValueError(f"{name}={number!r}; a whole number of at least 1 is needed")
    return compared([sketch(atlas, n, min_count) for atlas in atlases], n, min_count)


def sketch(atlas: Atlas, n: int = N, min_count: int = MIN_COUNT) -> Sketch:
    """What is compared of a fit; see `agreement`."""
    steps = dict.fromkeys((0, len(atlas) // 2, len(atlas) - 1))
    return Sketch(
        atlas.vocabulary,
        atlas.dates,
        [_close(atlas, step, n, min_count) for step in steps],
        _distances(atlas, min_count),
        atlas.elbo,
    )


def _close(atlas, step, n, min_count):
    words = np.flatnonzero(atlas.support(step) >= min_count)
    vectors = atlas.words.at_step(step, words)[0]
    known = np.asarray(vectors.any(1))
    words, vectors = words[known], vectors[known]
    units = vectors / np.sqrt((vectors**2).sum(1, keepdims=True))
    return _Close(str(atlas.dates[step]), words, words[closest(units, n)])


def closest(units: np.ndarray, n: int) -> np.ndarray:
    """Places of the n rows closest to each row, or of all others if there are not as many, increasing.

    Args:
        units: Vectors of length 1, (m, d).
        n: How many.
    """
    units = units.astype(np.float32)
    size, n = len(units), max(min(n, len(units) - 1), 0)
    result = np.empty((size, n), np.int64)
    rows = max(1, CHUNK // max(size, 1))
    for begin in range(0, size if n else 0, rows):
        similar = units[begin : begin + rows] @ units.T
        similar[np.arange(len(similar)), np.arange(begin, begin + len(similar))] = -np.inf
        result[begin : begin + rows] = np.argpartition(similar, size - n, axis=1)[:, size - n :]
    return np.sort(result, axis=1)


def _distances(atlas, min_count):
    """How far each word moved from the first to the last step; none if no word can be compared."""
    points = atlas
    if atlas.words.is_joint:
        # Without variances there are no bands, which take draws for each word and are not wanted here.
        paths = dataclasses.replace(atlas.words, variance=None, lag_covariance=None)
        points = dataclasses.replace(atlas, words=paths)
    try:
        found = points.changed(atlas.dates[0], atlas.dates[-1], n=len(atlas.vocabulary), min_count=min_count)
    except ValueError:  # there is one step only, or no word that both ends have in common
        return {}
    return dict(zip(found.words, found.distances.tolist(), strict=True))


def compared(sketches: list[Sketch], n: int = N, min_count: int = MIN_COUNT) -> dict[str, Any]:
    """How far fits agree of which these are sketches, made with the same options; see `agreement`."""
    if len(sketches) < 2:
        raise ValueError(f"{len(sketches)} fits; two or more are needed, to compare them")
    first = sketches[0]
    for other in sketches[1:]:
        if other.vocabulary != first.vocabulary or not np.array_equal(other.dates, first.dates):
            raise ValueError("the fits are of different words or dates; pass fits of the same counts")
    near = [_neighbors(at_step) for at_step in zip(*(sketch.close for sketch in sketches), strict=True)]
    elbos = [sketch.elbo for sketch in sketches if sketch.elbo is not None]
    return {
        "fits": len(sketches),
        "n": int(n),
        "min_count": int(min_count),
        "neighbors": near,
        "share": _mean([one["share"] for one in near if one["share"] is not None]),
        "change": _change(sketches),
        "elbo_difference": float(max(elbos) - min(elbos)) if len(elbos) == len(sketches) else None,
    }


def _neighbors(fits):
    words = fits[0].words
    for other in fits[1:]:
        words = np.intersect1d(words, other.words, assume_unique=True)
    rows = [each.closest[np.searchsorted(each.words, words)] for each in fits]
    shares = [_common_share(one, other) for one, other in itertools.combinations(rows, 2)]
    shares = [share for share in shares if share is not None]
    return {"date": fits[0].date, "words": len(words), "share": _mean(shares)}


def _common_share(one, other):
    """Mean share of the numbers of a row that are in the same row of another table, too."""
    width = min(one.shape[1], other.shape[1])
    if not one.shape[0] or not width:
        return None
    both = np.sort(np.concatenate([one, other], axis=1), axis=1)
    return float((both[:, 1:] == both[:, :-1]).sum(1).mean() / width)


def _change(sketches):
    first = sketches[0]
    words = [word for word in first.distances if all(word in each.distances for each in sketches)]
    columns = [np.array([each.distances[word] for word in words]) for each in sketches]
    found = [rank_correlation(*pair) for pair in itertools.combinations(columns, 2)]
    found = [number for number in found if number is not None]
    return {
        "start": str(first.dates[0]),
        "end": str(first.dates[-1]),
        "words": len(words),
        "rank_correlation": _mean(found),
        "lowest": min(found, default=None),
    }


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """Spearman's rank correlation; equal numbers share their ranks. None if a side is all the same."""
    ranks = [_ranks(numbers) for numbers in (one, other)]
    ranks = [rank - rank.mean() if len(rank) else rank for rank in ranks]
    sizes = [np.sqrt((rank**2).sum()) for rank in ranks]
    if not all(sizes):
        return None
    return float(np.clip((ranks[0] @ ranks[1]) / (sizes[0] * sizes[1]), -1.0, 1.0))


def _ranks(numbers):
    _, which, many = np.unique(numbers, return_inverse=True, return_counts=True)
    return (np.cumsum(many) - (many - 1) / 2)[which]


def _mean(numbers):
    return float(np.mean(numbers)) if numbers else None
