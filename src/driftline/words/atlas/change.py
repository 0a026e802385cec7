r"""Whether a word has moved between two steps by more than noise.

The displacement $\Delta = u_e - R u_s$ has the prior $N(0, C)$ with $C = P_s + P_e - 2 P_{se}$ for each
component, and the posterior $N(\delta, c)$. A word that has not moved has $\Delta = 0$, and the Bayes factor
against that is the ratio of the prior density there to the posterior one (Savage and Dickey). R is close to
one, so the components of $\Delta$ are taken as independent, as those of the vectors are.
"""

import numpy as np

UNKNOWN = 1e-10  # of the largest singular value: below it, no word says anything of a direction


def common_rotation(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The rotation R, (d, d), with R first_i closest to second_i, over all words (orthogonal Procrustes).

    The likelihood of a step does not change when all its words and contexts are turned together, so a common
    rotation between two steps says nothing about any word. Directions of which no word says anything, as if
    there are fewer words than dimensions, are turned as little as can be.

    Args:
        first: Vectors of all words at one step, (n, d).
        second: The same at the other step.
        weights: How much each word counts, (n,).
    """
    # In double precision, which tells a weak direction from one that is not there.
    first, second, weights = (np.asarray(array, np.float64) for array in (first, second, weights))
    left, sizes, right = np.linalg.svd((second * weights[:, None]).T @ first)
    free = sizes <= UNKNOWN * sizes[0]
    turn, _, back = np.linalg.svd(left[:, free].T @ right[free].T)
    left[:, free] = left[:, free] @ turn @ back
    return left @ right


def displacement_variance(
    variance_first: np.ndarray, variance_second: np.ndarray, covariance: np.ndarray, rotation: np.ndarray
) -> np.ndarray:
    """Posterior variance of each component of second - R first, (n, d).

    Args:
        variance_first: Variances of the vectors that are turned, (n, d).
        variance_second: Variances of the others.
        covariance: Of the same component of the two.
        rotation: R.
    """
    turned = variance_first @ (rotation**2).T
    total = variance_second + turned
    # The numbers are stored in single precision: what is smaller cannot be told from zero.
    return np.maximum(total - 2.0 * np.diagonal(rotation) * covariance, 1e-6 * total)


def log_bayes_factor(displacement: np.ndarray, variance: np.ndarray, prior_variance: float) -> np.ndarray:
    r"""Evidence for a change against none, in nats, (n,): $\log N(0; 0, C) - \log N(0; \delta, c)$.

    Args:
        displacement: Posterior means, (n, d).
        variance: Posterior variances, (n, d).
        prior_variance: The prior's variance, the same for all components.
    """
    return 0.5 * (np.log(variance / prior_variance) + displacement**2 / variance).sum(-1)


def probability_of_change(log_factor: np.ndarray, share: float) -> np.ndarray:
    """Posterior probability of a change.

    Args:
        log_factor: Evidence for it, in nats.
        share: Probability before the data.
    """
    odds = log_factor + np.log(share) - np.log1p(-share)
    return np.exp(-np.logaddexp(0.0, -odds))
