"""Linear-Gaussian models by dense conditioning, in NumPy: the oracle for exact smoothing."""

import numpy as np


def chain_moments(initial_mean, initial_sd, slopes, shifts, sds):
    """Mean and dense covariance of a scalar chain, step by step."""
    num_steps = len(slopes) + 1
    mean = np.empty(num_steps)
    covariance = np.empty((num_steps, num_steps))
    mean[0], covariance[0, 0] = initial_mean, initial_sd**2
    for t in range(1, num_steps):
        mean[t] = slopes[t - 1] * mean[t - 1] + shifts[t - 1]
        covariance[t, :t] = covariance[:t, t] = slopes[t - 1] * covariance[t - 1, :t]
        covariance[t, t] = slopes[t - 1] ** 2 * covariance[t - 1, t - 1] + sds[t - 1] ** 2
    return mean, covariance


def condition(mean, covariance, x, noise_sd):
    """Posterior mean, posterior covariance and log evidence, given x with NaN where not observed."""
    seen = ~np.isnan(x)
    gram = covariance[np.ix_(seen, seen)] + np.diag(np.full(seen.sum(), noise_sd**2))
    gain = covariance[:, seen] @ np.linalg.inv(gram)
    residual = x[seen] - mean[seen]
    log_evidence = -0.5 * (
        residual @ np.linalg.solve(gram, residual)
        + np.linalg.slogdet(gram)[1]
        + seen.sum() * np.log(2 * np.pi)
    )
    return mean + gain @ residual, covariance - gain @ covariance[seen], log_evidence
