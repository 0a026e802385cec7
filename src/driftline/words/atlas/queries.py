"""The two questions that compare all words: which are closest, and which have changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from driftline.words.atlas.change import (
    common_rotation,
    displacement_variance,
    log_bayes_factor,
    probability_of_change,
)
from driftline.words.atlas.cosines import Gaussian, band, cosines
from driftline.words.atlas.results import Changed, Neighbors

if TYPE_CHECKING:
    from driftline.words.atlas.model import Atlas


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
    rotation = None if source == step else _rotation(atlas, source, mean, supports)
    similarities = cosines(own_mean if rotation is None else own_mean @ rotation.T, mean)
    candidate = (supports[1] >= min_count) & mean.any(1)
    if source == step:
        candidate[word] = False
    rank = np.argsort(-similarities, kind="stable")
    top = rank[candidate[rank]][:n]
    found = None
    if variance is not None and own_variance is not None:
        sides = Gaussian(own_mean, own_variance), Gaussian(mean[top], variance[top])
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
    rotation = common_rotation(mean_first, mean_second, known * _weights(*(s[words] for s in supports)))
    turned = mean_first @ rotation.T
    distances = 1.0 - cosines(turned, mean_second)
    rank = np.argsort(-distances, kind="stable")
    log_factors = probabilities = covariance = None
    if atlas.words.is_joint and var_first is not None and var_second is not None:
        covariance = atlas.words.covariance(words, first, second)
        variance = displacement_variance(var_first, var_second, covariance, rotation)
        log_factors = log_bayes_factor(mean_second - turned, variance, _prior_variance(atlas, first, second))
        probabilities = probability_of_change(log_factors, share)
        called = probabilities >= threshold
        rank = np.lexsort((-np.where(called, distances, log_factors), ~called))
    listed = known & ~np.isin(words, stop)
    top = rank[listed[rank]][:n]
    found = None
    if covariance is not None and var_first is not None and var_second is not None:
        sides = Gaussian(mean_first[top], var_first[top]), Gaussian(mean_second[top], var_second[top])
        found = band(*sides, covariance[top], rotation)
    return Changed(
        start=atlas.dates[first],
        end=atlas.dates[second],
        words=_spelled(atlas, words[top]),
        distances=distances[top],
        expected=1.0 - found.mean if found else None,
        lower=1.0 - found.upper if found else None,
        upper=1.0 - found.lower if found else None,
        probabilities=None if probabilities is None else probabilities[top],
        log_factors=None if log_factors is None else log_factors[top],
        start_support=supports[0][words[top]],
        end_support=supports[1][words[top]],
        threshold=threshold,
        num_changed=None if probabilities is None else int((listed & (probabilities >= threshold)).sum()),
        num_compared=int(listed.sum()),
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


def _without_vector(atlas, word, step):
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


def _without_words(atlas, steps, num_words, min_count, window):
    """Why there is no word to compare at two steps."""
    first, second = (atlas.dates[step] for step in steps)
    often = f"at least {min_count} times within {window} steps of {first} and of {second}"
    if num_words:
        return f"none of the {num_words:,} words that occur {often} has a vector at both; choose other dates"
    return f"no word occurs {often}; lower min_count= or widen window="


def _rotation(atlas, source, mean, supports):
    weights = _weights(*supports)
    some = np.flatnonzero(weights)
    first = atlas.words.at_step(source, some)[0]
    known = first.any(1) & mean[some].any(1)
    return common_rotation(first, mean[some], known * weights[some])


def _weights(first, second):
    # The most frequent words have most of all occurrences; by the root, no handful of them decides alone.
    return np.sqrt(np.minimum(first, second))


def _prior_variance(atlas, first, second) -> float:
    """Of a component's displacement between two steps."""
    earlier, later = np.array(min(first, second)), np.array(max(first, second))
    spread = atlas.drift.variance[earlier] + atlas.drift.variance[later]
    return float(spread - 2.0 * atlas.drift.covariance(earlier, later))


def _spelled(atlas, words):
    return tuple(atlas.vocabulary[i] for i in words)
