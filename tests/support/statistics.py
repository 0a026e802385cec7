"""Assertions about draws whose tolerance follows from a stated rate of false alarms.

A rate is split evenly over all comparisons of a call. Keys in tests are fixed, so a false alarm would have
to be drawn when a test is written; afterwards the outcome only changes with the code.
"""

import numpy as np
import scipy.stats


def assert_mean_matches(draws, mean, variance, *, false_alarm=1e-6):
    """Gaussian draws (n, ...) with known variances have the given means: an exact z test per entry."""
    z = (np.mean(draws, axis=0) - mean) / np.sqrt(variance / len(draws))
    assert np.abs(z).max() < scipy.stats.norm.isf(false_alarm / (2 * z.size))


def assert_covariance_matches(draws, mean, covariance, *, false_alarm=1e-6):
    r"""Gaussian draws (n, N) have the given covariance: exact chi-squared tests of variances.

    The variances of all $x_i$ and all $x_i + x_j$ determine the covariance, and the sum of squares of a
    centred direction, over its variance, follows a chi-squared distribution with n degrees of freedom.
    """
    size = len(covariance)
    rows, columns = np.triu_indices(size, 1)
    identity = np.eye(size)
    directions = np.concatenate([identity, identity[rows] + identity[columns]])
    variances = np.einsum("ki,ij,kj->k", directions, covariance, directions)
    sums = np.sum(((draws - mean) @ directions.T) ** 2, axis=0) / variances
    tail = false_alarm / (2 * len(directions))
    assert sums.min() > scipy.stats.chi2.ppf(tail, len(draws))
    assert sums.max() < scipy.stats.chi2.isf(tail, len(draws))


def assert_means_agree(first, second, *, false_alarm=1e-6):
    """Paired draws (n, ...) of two estimators have equal means: a t test of their difference per entry."""
    difference = np.asarray(first) - np.asarray(second)
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    limit = scipy.stats.t.isf(false_alarm / (2 * error.size), len(difference) - 1)
    np.testing.assert_array_less(np.abs(difference.mean(axis=0)), limit * error + np.finfo(np.float64).tiny)
