r"""How well chains of draws have mixed: $\hat R$ and effective sizes (Vehtari et al. 2021).

Draws are arrays (chains, draws, ...), and every trailing element is judged on its own.
"""

import numpy as np
from scipy import special


def r_hat(draws: np.ndarray) -> np.ndarray:
    r"""$\hat R$ of the ranks of halves of chains, or of those of distances from the median if larger."""
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_plain_r_hat(_ranks(halves)), _plain_r_hat(_ranks(folded)))


def effective_size(draws: np.ndarray) -> np.ndarray:
    """Effective number of draws for the bulk: of the ranks of halves of chains."""
    return _plain_size(_ranks(_halves(draws)))


def tail_size(draws: np.ndarray, share: float = 0.05) -> np.ndarray:
    """Effective number of draws for the two quantiles that leave a share outside, the smaller one."""
    halves = _halves(draws)
    ends = np.quantile(draws, (share, 1.0 - share), axis=(0, 1))
    return np.minimum(*(_plain_size((halves <= end).astype(float)) for end in ends))


def error_of_mean(draws: np.ndarray) -> np.ndarray:
    """Standard error of the mean of all draws."""
    return draws.std(axis=(0, 1), ddof=1) / np.sqrt(_plain_size(_halves(draws)))


def _halves(draws):
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _ranks(draws):
    """Normal scores of the ranks among all draws; ties share theirs."""
    flat = draws.reshape(draws.shape[0] * draws.shape[1], -1)
    order = np.argsort(flat, axis=0, kind="stable")
    ranks = np.empty(flat.shape)
    np.put_along_axis(ranks, order, np.arange(1.0, len(flat) + 1)[:, None], axis=0)
    ordered = np.take_along_axis(flat, order, axis=0)
    for column in np.flatnonzero((ordered[1:] == ordered[:-1]).any(axis=0)):
        _, inverse, many = np.unique(flat[:, column], return_inverse=True, return_counts=True)
        last = np.cumsum(many)
        ranks[:, column] = (last - 0.5 * (many - 1))[inverse]
    return special.ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(draws.shape)


def _plain_r_hat(draws):
    many = draws.shape[1]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    between = draws.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.sqrt((many - 1) / many + between / within)
    return np.where(within > 0, found, np.where(between > 0, np.inf, 1.0))


def _plain_size(draws):
    """By Geyer's initial monotone sequence, over all chains together."""
    chains, many = draws.shape[:2]
    total = chains * many
    covariances = _autocovariances(draws)  # (many, ...), mean over chains
    within = covariances[0] * many / (many - 1)
    between = draws.mean(axis=1).var(axis=0, ddof=1) if chains > 1 else 0.0
    variance = covariances[0] + between
    safe = np.where(variance > 0, variance, 1.0)
    correlations = 1.0 - (within - covariances) / safe
    correlations[0] = 1.0
    time = np.maximum(_summed(correlations), 1.0 / np.log10(total))
    return np.where(variance > 0, total / time, 1.0)


def _summed(correlations):
    """Their sum over lags of both signs, cut off where two neighbours are negative together."""
    half = len(correlations) // 2
    twos = correlations[: 2 * half].reshape(half, 2, *correlations.shape[1:])
    pairs = twos.sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    # Half of what is cut off is kept, if positive: less bias where draws alternate (Stan and ArviZ do so).
    cut = np.minimum(positive.sum(axis=0), half - 1)[None]
    rest = np.take_along_axis(twos[:, 0], cut, axis=0)[0]
    return -1.0 + 2.0 * monotone.sum(axis=0) + np.where(positive[-1], 0.0, np.maximum(rest, 0.0))


def _autocovariances(draws):
    many = draws.shape[1]
    centred = draws - draws.mean(axis=1, keepdims=True)
    length = 1 << (2 * many - 1).bit_length()
    spectrum = np.fft.rfft(centred, length, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, length, axis=1)[:, :many].mean(axis=0) / many
