r"""How many of the words at the head of a list would be there by chance, by lists in which all is chance.

For a score s, let $R(s)$ of the M words compared score s or more, and in shuffle b of B, in which $m_b$ words
are compared, $N_b(s)$. The number expected by chance and the rate of false discoveries are

$$F(s) = \frac{1}{B} \Bigl(1 + \sum_b \frac{M}{m_b} N_b(s)\Bigr), \qquad q(s) = \min_{s' \le s} \min\Bigl(1,
\frac{F(s')}{R(s')}\Bigr).$$

The 1 stands for a word that the next shuffle might have shown: no rate is zero, and where no shuffled word
scores as much, what is said is "less than one in B R(s)". All M words are taken as unchanged, which errs on
the safe side. The minimum makes a longer list never the better one.
"""

from typing import NamedTuple

import numpy as np


class Rates(NamedTuple):
    """False discovery rates and their standard errors over shuffles, (n,).

    Where shuffles hardly differ, as where no shuffled word scores as much, the error is the size of the one
    word that is added to all of them.
    """

    rates: np.ndarray
    errors: np.ndarray


def false_rates(scores: np.ndarray, shuffled: list[np.ndarray]) -> Rates:
    """Rate of false discoveries among the words that score as much as each, or more.

    Args:
        scores: Of all words compared, (M,), in any order.
        shuffled: Of all words compared in each shuffle; shuffles without any say nothing and are left out.
    """
    order = np.argsort(scores, kind="stable")
    ascending = scores[order]
    at_least = _at_least(ascending, ascending)
    by_shuffle = np.array([_at_least(np.sort(each), ascending) / len(each) for each in shuffled if len(each)])
    by_shuffle *= len(scores)
    false, error = expected(by_shuffle)
    ratio = np.minimum(false / at_least, 1.0)
    best = _place_of_running_minimum(ratio)
    rates, errors = np.empty((2, len(scores)))
    rates[order], errors[order] = ratio[best], (error / at_least)[best]
    return Rates(rates, errors)


def expected(by_shuffle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers expected by chance, F, and their standard errors, from those of each shuffle, (B, ...)."""
    many = len(by_shuffle)
    error = by_shuffle.std(axis=0, ddof=1) / np.sqrt(many)
    return (1.0 + by_shuffle.sum(axis=0)) / many, np.maximum(error, 1.0 / many)


def _at_least(ascending, scores):
    """How many of some numbers are as high as each score, or higher."""
    return len(ascending) - np.searchsorted(ascending, scores, side="left")


def _place_of_running_minimum(numbers):
    lowest = np.minimum.accumulate(numbers)
    falls = np.append(True, lowest[1:] < lowest[:-1])
    return np.maximum.accumulate(np.where(falls, np.arange(len(numbers)), 0))
