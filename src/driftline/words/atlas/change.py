r"""Whether a word has moved between two steps by more than noise.

*What all words share is not a change.* The likelihood of a step does not change when words are turned, or
sheared, and contexts the other way; and the mixture of subjects, which differs from step to step, stretches
the space as a whole. So a linear map A that is common to all words is taken out: $\Delta = u_e - A u_s$. It
is found by regression with a ridge towards no map, whose strength is learnt from its evidence, and with less
weight for words that do not follow it. What is not known of A is added to what is not known of $\Delta$.

*The evidence.* The posterior of $\Delta$ and its prior, of variance C, tell what the data alone say of it:
a value y with variance $\ell$, where $1/\ell$ is the posterior's precision less the prior's. A word that has
not moved has $\Delta = 0$. One that has is somewhere within what words may gather between the two steps, at
any of the model's paces: a mixture of normal distributions. The ratio of the two densities of y is the Bayes
factor.

*Words in general.* If the bulk of all words lies further out than $\ell$ says, then $\ell$ is too small, for
reasons that the model does not know; it is made larger by that factor (Devlin & Roeder 1999, "genomic
control"). A word is called if it moved by more than words in general seem to.
"""

from typing import NamedTuple

import numpy as np

RIDGES = np.geomspace(1e-8, 1.0, 33)  # variances of the entries of a map, about no map
ROUNDS, STEADY = 50, 1e-3  # for the weights of words in a map, which change less and less
FOLLOWS = 4.0  # squared residual of a word, by what is expected, from which on it counts less
MEDIAN = 0.4549  # of a squared standard normal
KNOWN = 0.02  # of a component: by how much the data must have narrowed its prior, to tell of noise
ENOUGH = 10  # components of words that tell of noise, at least


class CommonMap(NamedTuple):
    """A linear map that all words share.

    Attributes:
        matrix: A, (d, d).
        covariance: Of what is not known of each row of A, (d, d), the same for all rows.
    """

    matrix: np.ndarray
    covariance: np.ndarray


class Displacements(NamedTuple):
    """What the data say of the displacements of n words.

    Attributes:
        value: y, (n, d).
        variance: Of it, (n, d); infinite where they say nothing.
        inflation: Factor that is in it, by which the bulk of words lies further out than it should.
    """

    value: np.ndarray
    variance: np.ndarray
    inflation: float


def common_map(first: np.ndarray, second: np.ndarray, variance: np.ndarray) -> CommonMap:
    """The linear map that all words share, near to none.

    Args:
        first: Vectors of all words at one step, (n, d).
        second: The same at the other step.
        variance: Of the difference of the two, (n, d).
    """
    num_words, dim = first.shape
    noise, moved = variance.mean(1), second - first
    follows, excess = np.ones(num_words), 0.0
    fitted = _ridge(first, moved, 1.0 / noise)
    for _ in range(ROUNDS):
        fitted = _ridge(first, moved, follows / (noise + excess))
        squares = ((moved - first @ fitted.matrix.T) ** 2).mean(1)
        last = follows
        excess = max(0.0, float(np.median(squares - noise)))
        follows = np.minimum(1.0, FOLLOWS / np.maximum(squares / (noise + excess), 1e-12))
        if np.abs(follows - last).max() < STEADY:
            break
    return CommonMap(np.eye(dim) + fitted.matrix, fitted.covariance)


def _ridge(first, moved, weights):
    """The map from vectors to how far they moved, with the ridge of the highest evidence."""
    weighted = first * weights[:, None]
    sizes, axes = np.linalg.eigh(weighted.T @ first)
    sizes = np.maximum(sizes, 0.0)
    slopes = axes.T @ (weighted.T @ moved)
    powers = (slopes**2).sum(1)
    shrinks = RIDGES[:, None] / (1.0 + RIDGES[:, None] * sizes)
    evidence = 0.5 * shrinks @ powers - 0.5 * len(sizes) * np.log1p(RIDGES[:, None] * sizes).sum(1)
    shrink = shrinks[evidence.argmax()]
    return CommonMap((axes @ (shrink[:, None] * slopes)).T, (axes * shrink) @ axes.T)


def displacements(
    first: np.ndarray, second: np.ndarray, variance: np.ndarray, prior: np.ndarray, shared: CommonMap
) -> Displacements:
    """What the data say of how far words moved, beyond what all share.

    Args:
        first: Posterior means at one step, (n, d).
        second: The same at the other.
        variance: Posterior variance of their difference, (n, d).
        prior: Prior variance of the difference, (n,).
        shared: What all words share.
    """
    apart = second - first @ shared.matrix.T
    # How much of the prior's variance is gone; numbers are of single precision.
    known = np.clip(1.0 - variance / prior[:, None], 1e-6, 1.0)
    spread, value = variance / known, apart / known
    squares = (apart**2 / (variance * known))[known > KNOWN]
    inflation = max(1.0, float(np.median(squares)) / MEDIAN) if len(squares) >= ENOUGH else 1.0
    of_map = np.einsum("wk,kl,wl->w", first, shared.covariance, first)
    return Displacements(value, inflation * spread + of_map[:, None], inflation)


def log_bayes_factors(found: Displacements, priors: np.ndarray) -> np.ndarray:
    r"""Evidence for a change against none, in nats, at each of some variances of a change, (n, M).

    $\sum_k \log N(y_k; 0, \ell_k + C) - \log N(y_k; 0, \ell_k)$.

    Args:
        found: What the data say.
        priors: The variances, (M,).
    """
    ratio = priors / found.variance[:, :, None]
    gained = (found.value**2 / found.variance)[:, :, None] * ratio / (1.0 + ratio)
    return 0.5 * (gained - np.log1p(ratio)).sum(1)


def mixed(log_factors: np.ndarray) -> np.ndarray:
    """Evidence for a change of any of some sizes, all as likely beforehand, (n,)."""
    return np.logaddexp.reduce(log_factors, axis=1) - np.log(log_factors.shape[1])


def probability_of_change(log_factor: np.ndarray, share: float) -> np.ndarray:
    """Posterior probability of a change.

    Args:
        log_factor: Evidence for it, in nats.
        share: Probability before the data.
    """
    odds = log_factor + np.log(share) - np.log1p(-share)
    return np.exp(-np.logaddexp(0.0, -odds))
