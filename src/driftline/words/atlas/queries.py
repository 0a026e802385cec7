"""The two questions that compare all words: which are closest, and which have changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from driftline.words.atlas.answers import Changed, Neighbors
from driftline.words.atlas.change import (
    Displacements,
    common_map,
    displacements,
    log_bayes_factors,
    mixed,
    probability_of_change,
)
from driftline.words.atlas.cosines import Band, UncertainVectors, band, cosines
from driftline.words.atlas.distances import Moved, distance_band, moved
from driftline.words.paths.rotation import common_rotation

if TYPE_CHECKING:
    from driftline.words.atlas.atlas import Atlas


def closest(
    atlas: "Atlas", word: int, source: int, step: int, *, n: int, min_count: int, window: int
) -> Neighbors:
    """The words that at a step are closest to what a word is at another, or at the same.

    Args:
        atlas: Where to look.
        word: The word.
        source: Step of its vector.
        step: Step of the words that are looked for.
        n: How many.
        min_count: Words that occur less often around the step are left out.
        window: How many steps on either side are around it.
    """
    mean, variance = atlas.words.at_step(step)
    own_mean, own_variance = atlas.words.at_step(source, np.array([word]))
    if not own_mean.any():
        raise ValueError(_without_vector(atlas, word, source))
    supports = atlas.support(source, window), atlas.support(step, window)
    rotation = None if source == step else _rotation(atlas, source, step, supports)
    similarities = cosines(own_mean if rotation is None else own_mean @ rotation.T, mean)
    candidate = (supports[1] >= min_count) & mean.any(1)
    if source == step:
        candidate[word] = False
    rank = np.argsort(-similarities, kind="stable")
    top = rank[candidate[rank]][:n]
    found = None
    if variance is not None and own_variance is not None:
        sides = UncertainVectors(own_mean, own_variance), UncertainVectors(mean[top], variance[top])
        found = _closest_band(atlas, word, (source, step), sides, top, rotation)
    return Neighbors(
        word=atlas.vocabulary[word],
        vector_date=atlas.dates[source],
        date=atlas.dates[step],
        words=_spelled(atlas, top),
        similarities=similarities[top],
        expected=found.mean if found else None,
        lower=found.lower if found else None,
        upper=found.upper if found else None,
        support=supports[1][top],
        word_support=int(supports[0][word]),
        caveat=atlas.caveat,
    )


def changed(
    atlas: "Atlas",
    first: int,
    second: int,
    *,
    n: int,
    min_count: int,
    window: int,
    threshold: float,
    share: float,
    stop: Sequence[int] = (),
    with_probabilities: bool = True,
    bands: bool = True,
) -> Changed:
    """Words ranked by how much they changed between two steps.

    Args:
        atlas: Where to look.
        first: A step.
        second: Another.
        n: How many words.
        min_count: Words that occur less often around either step are not compared.
        window: How many steps on either side are around it.
        threshold: Words that changed with at least this probability come first.
        share: Share of all words that is expected to have changed, before the data.
        stop: Words that are neither listed nor counted.
        with_probabilities: Whether to give probabilities, if the method has them.
        bands: Whether to give bands of distances too, which take longer than all else.
    """
    supports = atlas.support(first, window), atlas.support(second, window)
    words = np.flatnonzero(np.minimum(*supports) >= min_count)
    (mean_first, var_first), (mean_second, var_second) = (
        atlas.words.at_step(step, words) for step in (first, second)
    )
    # Independent estimates know nothing of a word at steps at which it is not present.
    known = np.asarray(mean_first.any(1) & mean_second.any(1))
    if not known.any():
        raise ValueError(_without_words(atlas, (first, second), len(words), min_count, window))
    listed = known & ~np.isin(words, stop)
    both = Ends(mean_first, var_first, mean_second, var_second)
    if with_probabilities and atlas.words.is_joint:
        found = _judged(atlas, words, (first, second), both, share)
        called = found.probabilities >= threshold
        distances = found.distances
        rank = np.lexsort((-np.where(called, distances, found.log_factors), ~called))
    else:
        found = called = None
        weights = known * _weights(*(support[words] for support in supports))
        turned = mean_first @ common_rotation(mean_first, mean_second, weights).T
        distances = 1.0 - cosines(turned, mean_second)
        rank = np.argsort(-distances, kind="stable")
    top = rank[listed[rank]][:n]
    band = None if found is None or not bands else found.band(top)
    return Changed(
        start=atlas.dates[first],
        end=atlas.dates[second],
        words=_spelled(atlas, words[top]),
        distances=distances[top] if band is None else band.mean,
        lower=None if band is None else band.lower,
        upper=None if band is None else band.upper,
        probabilities=None if found is None else found.probabilities[top],
        log_factors=None if found is None else found.log_factors[top],
        start_support=supports[0][words[top]],
        end_support=supports[1][words[top]],
        threshold=threshold,
        num_changed=None if called is None else int((listed & called).sum()),
        num_compared=int(listed.sum()),
        inflation=None if found is None else found.displacements.inflation,
        num_words=len(atlas.vocabulary),
        caveat=atlas.caveat,
    )


class Ends(NamedTuple):
    """Moments of words at two steps, (n, d) each."""

    mean_first: np.ndarray
    var_first: np.ndarray | None
    mean_second: np.ndarray
    var_second: np.ndarray | None


class JudgedChanges(NamedTuple):
    """What is known of the changes of n words.

    Attributes:
        probabilities: That they are more than noise, (n,).
        log_factors: Evidence for that, in nats.
        distances: One less the cosine of the mean vectors, what all words share taken out.
        displacements: What the data say.
        centre: The middle between the two vectors.
        displaced: What lies between them, if the word has moved.
    """

    probabilities: np.ndarray
    log_factors: np.ndarray
    distances: np.ndarray
    displacements: Displacements
    centre: UncertainVectors
    displaced: Moved

    def band(self, rows: np.ndarray) -> Band:
        """Median and quantiles of the distances of some words."""
        some: Any = rows
        centre = UncertainVectors(*(array[rows] for array in self.centre))
        return distance_band(centre, self.displaced.rows(some), self.probabilities[rows])


def _judged(atlas, words, steps, ends, share):
    covariance = atlas.words.covariance(words, *steps)
    total = ends.var_first + ends.var_second
    # The numbers are stored in single precision: what is smaller cannot be told from zero.
    variance = np.maximum(total - 2.0 * covariance, 1e-6 * total)
    priors = atlas.drift.displacement_variance(*steps)
    shared = common_map(ends.mean_first, ends.mean_second, variance)
    own = priors[atlas.drift.pace[words]]
    found = displacements(ends.mean_first, ends.mean_second, variance, own, shared)
    each = log_bayes_factors(found, priors)
    factors = mixed(each)
    mapped = ends.mean_first @ shared.matrix.T
    displaced = moved(found, each, priors)
    centre = UncertainVectors(0.5 * (mapped + ends.mean_second), 0.25 * (total + 2.0 * covariance))
    step = np.einsum("wm,wmk->wk", displaced.weights, displaced.shrink) * found.value
    return JudgedChanges(
        probability_of_change(factors, share),
        factors,
        1.0 - cosines(centre.mean - 0.5 * step, centre.mean + 0.5 * step),
        found,
        centre,
        displaced,
    )


def steps_with_vector(atlas: "Atlas", word: int) -> np.ndarray:
    """Steps at which a word has a vector that is not zero."""
    return np.flatnonzero(atlas.words.of_word(word)[0].any(1))


def _closest_band(atlas, word, steps, sides, top, rotation):
    """Band of the cosines of a word at one step and the closest at another, perhaps itself among them."""
    own = top == word
    covariance = np.zeros((len(top), atlas.dim))
    if atlas.words.is_joint and own.any():
        covariance[own] = atlas.words.covariance(np.array([word]), *steps)
    found = band(sides[0], sides[1], covariance, rotation)
    if not atlas.words.is_joint:
        # How the errors of a word at two dates depend on each other is not known then.
        for numbers in found:
            numbers[own] = np.nan
    return found


def _without_vector(atlas: "Atlas", word: int, step: int) -> str:
    known = steps_with_vector(atlas, word)
    what = f"{atlas.vocabulary[word]!r} has no vector at {atlas.dates[step]}"
    if not len(known):
        return (
            f"{what}, nor at any other date: the fit has seen no pair of words with it; choose another word"
        )
    nearest = known[np.abs((atlas.dates[known] - atlas.dates[step]).astype(np.int64)).argmin()]
    return (
        f"{what}, where the fit knows nothing of it; it has one at {len(known)} of {len(atlas)} dates, from "
        f"{atlas.dates[known[0]]} to {atlas.dates[known[-1]]}, and {atlas.dates[nearest]} is the nearest: "
        "ask for one of these"
    )


def _without_words(
    atlas: "Atlas", steps: tuple[int, int], num_words: int, min_count: int, window: int
) -> str:
    """Why there is no word to compare at two steps."""
    first, second = (atlas.dates[step] for step in steps)
    often = f"at least {min_count} times within {window} steps of {first} and of {second}"
    if num_words:
        return f"none of the {num_words:,} words that occur {often} has a vector at both; choose other dates"
    return f"no word occurs {often}; lower min_count= or widen window="


def _rotation(atlas, source, step, supports):
    """What takes vectors of one step to another: of a joint fit the map that all words share."""
    some = np.flatnonzero(_weights(*supports))
    (first, var_first), (second, var_second) = (atlas.words.at_step(at, some) for at in (source, step))
    if atlas.words.is_joint:
        total = var_first + var_second
        variance = np.maximum(total - 2.0 * atlas.words.covariance(some, source, step), 1e-6 * total)
        return common_map(first, second, variance).matrix
    known = first.any(1) & second.any(1)
    return common_rotation(first, second, known * _weights(*supports)[some])


def _weights(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    # The most frequent words have most of all occurrences; by the root, no handful of them decides alone.
    return np.sqrt(np.minimum(first, second))


def _spelled(atlas: "Atlas", words: np.ndarray) -> tuple[str, ...]:
    return tuple(atlas.vocabulary[i] for i in words)
