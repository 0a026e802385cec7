"""Dense counterparts of the kernels and families in NumPy, random bands, and bounds on rounding errors.

Nothing here imports driftline. Bands have time first, as in the package; dense matrices have the axes of
the batch first, as `numpy.linalg` wants them. The assembling functions take `xp=jax.numpy` where a test
differentiates through the dense matrix.
"""

import math

import numpy as np


def bidiagonal(diag, upper, xp=np):
    """The matrices (*shape, T, T) with `diag` on the diagonal and `upper` above it."""
    on, above = np.eye(len(diag), dtype=diag.dtype), np.eye(len(diag), k=1, dtype=diag.dtype)
    padded = xp.concatenate([upper, xp.zeros_like(diag[:1])])
    return xp.einsum("t...,ts->...ts", diag, on) + xp.einsum("t...,ts->...ts", padded, above)


def tridiagonal(diag, off):
    """The symmetric matrices (*shape, T, T)."""
    above = bidiagonal(np.zeros_like(diag), off)
    return bidiagonal(diag, np.zeros_like(off)) + above + above.mT


def block_bidiagonal(diag, upper, xp=np):
    """The matrices (*batch, T·D, T·D); what stands below the diagonals of the blocks `diag` is dropped."""
    return _assemble(xp.triu(diag), upper, xp)


def parallel_bidiagonal(diag, upper, xp=np):
    """One matrix over the flattened (T, *shape) for independent chains, one per element of `shape`."""
    dim = math.prod(diag.shape[1:])
    identity = np.eye(dim, dtype=diag.dtype)
    diag, upper = (band.reshape(len(band), dim) for band in (diag, upper))
    return _assemble(xp.einsum("ti,ij->tij", diag, identity), xp.einsum("ti,ij->tij", upper, identity), xp)


def block_tridiagonal(diag, off):
    """The symmetric matrices (*batch, T·D, T·D)."""
    above = _assemble(np.zeros_like(diag), off, np)
    return _assemble(diag, np.zeros_like(off), np) + above + above.mT


def _assemble(diag, upper, xp):
    num_steps, dim = len(diag), diag.shape[-1]
    on, above = np.eye(num_steps, dtype=diag.dtype), np.eye(num_steps, k=1, dtype=diag.dtype)
    padded = xp.concatenate([upper, xp.zeros_like(diag[:1])])
    blocks = xp.einsum("t...ij,ts->...tisj", diag, on) + xp.einsum("t...ij,ts->...tisj", padded, above)
    return blocks.reshape(*diag.shape[1:-2], num_steps * dim, num_steps * dim)


def band(matrix, offset):
    """The diagonal `offset` of (*shape, T, T) matrices as a band (T - offset, *shape)."""
    return np.moveaxis(np.diagonal(matrix, offset, axis1=-2, axis2=-1), -1, 0)


def block_band(matrix, offset, dim):
    """The D×D blocks on the block diagonal `offset` as a band (T - offset, *batch, D, D)."""
    num_steps = matrix.shape[-1] // dim
    blocks = matrix.reshape(*matrix.shape[:-2], num_steps, dim, num_steps, dim)
    blocks = np.moveaxis(blocks, -3, -2)  # (*batch, T, T, D, D)
    return np.moveaxis(np.diagonal(blocks, offset, axis1=-4, axis2=-3), -1, 0)


def apply(matrix, vector):
    """Products of (*shape, T, T) matrices with vectors (T, *shape)."""
    return np.moveaxis((matrix @ np.moveaxis(vector, 0, -1)[..., None])[..., 0], -1, 0)


def block_apply(matrix, vector):
    """Products of (*batch, T·D, T·D) matrices with vectors (T, *batch, D)."""
    columns = np.moveaxis(vector, 0, -2)
    product = matrix @ columns.reshape(*columns.shape[:-2], -1, 1)
    return np.moveaxis(product.reshape(columns.shape), -2, 0)


def gaussian_entropy(covariance):
    """Entropy of a multivariate Gaussian."""
    return 0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * covariance)[1]


def gaussian_divergence(mean, covariance, other_mean, other_covariance):
    """KL divergence between two multivariate Gaussians, textbook formula."""
    precision = np.linalg.inv(other_covariance)
    shift = other_mean - mean
    log_ratio = np.linalg.slogdet(other_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * (np.trace(precision @ covariance) + shift @ precision @ shift - len(mean) + log_ratio)


def path_sums(matrix):
    r"""$M(B)^{-1}$ for the comparison matrix $M(B)$ of an upper triangular $B$; at least $|B^{-1}|$.

    An entry of $B^{-1}$ is a sum, over paths from column to row, of products of ratios of entries of $B$;
    here is the same sum of absolute values. An algorithm that evaluates the products and sums in any order
    with at most k roundings along a path errs by at most k·eps times this (Higham 2002, section 8.3).
    """
    magnitude = np.abs(matrix)
    diagonal = magnitude * np.eye(matrix.shape[-1])
    return np.linalg.inv(2.0 * diagonal - magnitude)


def assert_within_rounding(actual, expected, magnitude, *, roundings):
    """Entry by entry, |actual - expected| ≤ roundings · (eps · magnitude + tiny), as `actual` rounds."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    precision = np.finfo(actual.dtype)
    error = np.abs(actual.astype(np.float64) - expected)
    limit = roundings * (precision.eps * np.asarray(magnitude) + precision.tiny)
    np.testing.assert_array_less(error, np.broadcast_to(limit, error.shape))


def assert_close(actual, expected, *, rtol, scale=None):
    """The largest error is at most `rtol` times `scale`, by default the largest expected number."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = np.abs(expected).max(initial=0.0) if scale is None else scale
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=rtol * scale)


def tolerance(factor, dtype=np.float64):
    r"""Four roundings per row times cond(Λ): relative forward error of solves with $B$ and $B^\top B$."""
    condition = np.linalg.cond(factor).max() ** 2
    return 4.0 * factor.shape[-1] * np.finfo(dtype).eps * condition


def random_factor(rng, num_steps, shape=(), dtype=np.float64):
    """The bands of a moderately conditioned bidiagonal matrix with a positive diagonal."""
    diag = rng.uniform(0.5, 1.5, (num_steps, *shape))
    upper = 0.5 * rng.standard_normal((num_steps - 1, *shape))
    return diag.astype(dtype), upper.astype(dtype)


def random_block_factor(rng, num_steps, dim, batch=(), dtype=np.float64):
    """The bands of a block bidiagonal matrix; below the diagonals of its diagonal blocks stand numbers."""
    diag = 0.3 * rng.standard_normal((num_steps, *batch, dim, dim))
    diag = diag * (1.0 - np.eye(dim)) + rng.uniform(0.5, 1.5, (num_steps, *batch, dim, 1)) * np.eye(dim)
    upper = 0.3 * rng.standard_normal((num_steps - 1, *batch, dim, dim))
    return diag.astype(dtype), upper.astype(dtype)
