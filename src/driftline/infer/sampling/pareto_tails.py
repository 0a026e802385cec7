"""Tails of importance weights."""

import numpy as np


def pareto_shape(log_weights: np.ndarray) -> float:
    """Shape of the generalised Pareto distribution that fits the largest importance weights.

    Fitted to the exceedances of the upper tail by the empirical Bayes rule of Zhang and Stephens (2009),
    with the weak pull towards 1/2 of Vehtari et al. (2024).
    """
    log_weights = log_weights[~np.isnan(log_weights)]
    if len(log_weights) < 25 or np.ptp(log_weights) < 1e-10:
        return 0.0 if len(log_weights) else np.inf
    count = len(log_weights)
    size = int(min(0.2 * count, 3.0 * np.sqrt(count)))
    ordered = np.sort(log_weights)
    tail = np.exp(ordered[-size:] - ordered[-1])
    excess = tail - np.exp(ordered[-size - 1] - ordered[-1])
    excess = excess[excess > 0]
    if len(excess) < 5:
        return 0.0
    return _fit_pareto(excess)


def _fit_pareto(excess):
    """The posterior mean of the shape over a grid of values for minus shape over scale."""
    count = len(excess)
    grid = np.arange(1, 31 + int(np.sqrt(count))) - 0.5
    quarter = excess[int(count / 4 + 0.5) - 1]
    candidates = 1.0 / excess[-1] + (1.0 - np.sqrt(len(grid) / grid)) / (3.0 * quarter)
    shapes = np.log1p(-candidates[:, None] * excess).mean(axis=1)
    log_likelihoods = count * (np.log(-candidates / shapes) - shapes - 1.0)
    shares = np.exp(log_likelihoods - log_likelihoods.max())
    chosen = np.sum(candidates * shares) / shares.sum()
    shape = np.log1p(-chosen * excess).mean()
    return float((count * shape + 0.5 * 10) / (count + 10))
