r"""How much more counts vary from step to step than their model says, and paths that allow for it.

The likelihood takes pairs of words for independent. They are not: a text keeps to its subject, and so the
words of a step go together. What remains is noise that comes and goes with the steps. It is measured where
drift cannot be: against the straight line between the steps before and after. For data $y_t$ of precision
$h_t$ (`learning`) and the line's weights w,

$$e_t = \frac{y_t - w_- y_{t-1} - w_+ y_{t+1}}{\sqrt{1/h_t + w_-^2/h_{t-1} + w_+^2/h_{t+1}}}$$

has variance one if the model is right, and the dispersion of a word is the mean of $e_t^2$ over its steps and
components, those that are known best counting most. Words with few steps borrow from all words, as variances
of genes do in the analysis of microarrays (Smyth 2004); and as noise has directions, those of the subjects,
each component has a dispersion of its own, which borrows from its word. Precisions are then divided by it.

Paths that climb the plain likelihood follow that noise. With fewer dimensions than subjects it is worse:
subjects that find no room in one step push others out in the next, for good. So counts are divided by the
dispersion of their words, before paths move.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import optimize, special

from driftline.words.fitting.likelihood import Batch
from driftline.words.paths.knots import Knots

OVERLAP = 0.6  # neighbouring residuals share steps: independent ones in each
BORROWED = 4.0  # degrees of freedom that a component of a word has from the word as a whole
FEWEST = 3  # words with a dispersion of their own, for one that all have in common


def dispersions(
    knots: Knots, times: np.ndarray, mean: Array, slope: Array, precision: Array, width: float
) -> Array:
    """By what number the precisions of each component of each word are to be divided, (V, d); at least one.

    Args:
        knots: The rows.
        times: Time of each step.
        mean: Means of the rows, (R, d).
        slope: Of the expected log-likelihood, there.
        precision: Its curvature.
        width: Of the prior, in standard deviations.
    """
    inner = _inner(knots)
    if not len(inner):
        return jnp.ones((knots.num_words, mean.shape[1]), mean.dtype)
    when = times[knots.step]
    before = (when[inner + 1] - when[inner]) / (when[inner + 1] - when[inner - 1])
    sums = _residuals(
        mean,
        slope,
        precision,
        jnp.asarray(inner),
        jnp.asarray(before, mean.dtype),
        jnp.asarray(knots.word[inner]),
        width=width,
        num_words=knots.num_words,
    )
    of_words = (np.asarray(array, np.float64).sum(1) for array in sums)
    whole = jnp.asarray(moderated(*of_words), mean.dtype)[:, None]
    squares, weights, weights_squared = sums
    degrees = OVERLAP * weights**2 / jnp.maximum(weights_squared, 1e-30)
    own = squares / jnp.maximum(weights, 1e-30)
    return jnp.maximum(1.0, (BORROWED * whole + degrees * own) / (BORROWED + degrees))


def is_measurable(knots: Knots) -> bool:
    """Whether any word is present at three steps, so that there is a straight line to hold it against."""
    return len(_inner(knots)) > 0


def _inner(knots):
    """Rows with one of the same word before and one after."""
    return np.flatnonzero(knots.linked[:-1] & knots.linked[1:]) + 1


def moderated(squares: np.ndarray, weights: np.ndarray, weights_squared: np.ndarray) -> np.ndarray:
    """Dispersions of words, drawn towards what all have in common the more, the less is known of them.

    Args:
        squares: Weighted sum of each word's squared residuals.
        weights: Sum of the weights.
        weights_squared: Sum of their squares.
    """
    degrees = OVERLAP * weights**2 / np.maximum(weights_squared, 1e-30)
    known = (degrees >= 1.0) & (squares > 0.0)
    if known.sum() < FEWEST:
        return np.ones(len(squares))
    own = squares[known] / weights[known]
    half = degrees[known] / 2.0
    logs = np.log(own) - special.digamma(half) + np.log(half)
    common = np.exp(np.median(logs))
    excess = np.var(logs) - special.polygamma(1, half).mean()
    result = np.full(len(squares), common)
    if excess > 1e-4:  # else words do not differ
        log: Any = optimize.brentq(
            lambda log: float(special.polygamma(1, np.exp(log))) - min(excess, 1e4), np.log(1e-3), np.log(1e6)
        )
        prior = 2.0 * np.exp(log)
        result[known] = (prior * common + degrees[known] * own) / (prior + degrees[known])
    return result


def divided(counts: Sequence[Batch], knots: Knots, dispersion: np.ndarray) -> list[Batch]:
    """Counts as many as say as much, were they independent: each divided by the noise of its two words.

    Args:
        counts: Of all steps.
        knots: The rows.
        dispersion: Of each word, (V,); a pair of words has the geometric mean of theirs.
    """
    weights = jnp.asarray(dispersion[knots.word] ** -0.5, counts[0].values.dtype)
    made = []
    for batch in counts:
        there = weights.at[batch.place].get(mode="fill", fill_value=0)
        of_pairs = [jnp.take_along_axis(there, at.astype(jnp.int32), 1) for at in (batch.first, batch.second)]
        values = batch.values * of_pairs[0] * of_pairs[1]
        made.append(batch._replace(rows=batch.rows * there, columns=batch.columns * there, values=values))
    return made


@functools.partial(jax.jit, static_argnames=("width", "num_words"))
def _residuals(mean, slope, precision, inner, before, words, *, width, num_words):
    """Sums over a word's steps, (V, d): squared residuals by their weights, weights, and weights squared."""
    precision = jnp.maximum(precision, 1e-12)
    places = mean + slope / precision
    weight = before[:, None]
    residual = places[inner] - weight * places[inner - 1] - (1 - weight) * places[inner + 1]
    variance = (
        1 / precision[inner] + weight**2 / precision[inner - 1] + (1 - weight) ** 2 / precision[inner + 1]
    )
    known = 1 / (1 + variance / width**2)
    columns = known * residual**2 / variance, known, known**2
    return tuple(jax.ops.segment_sum(column, words, num_words) for column in columns)
