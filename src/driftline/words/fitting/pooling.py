"""All steps together, for paths that do not move: sums of the steps' counts, of both kinds."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from driftline.words.fitting.likelihood import Embeddings, Pooled, padded_size
from driftline.words.fitting.problem import FittingProblem

EXTRA, TURNS = 10, 4  # columns and rounds of the randomised decomposition, beyond what is asked for
NOISE = 0.02  # of a start, in standard deviations of the prior: what is exactly zero would never move


def pool(problem: FittingProblem) -> Pooled:
    r"""Sums over the steps of the positive and of the negative counts.

    The likelihood of constant paths is that of these sums. Negative counts have rank one at each step, so
    their sum has the rank of the number of steps; it is not what the pooled margins would give.
    """
    num_words = len(problem.counts.vocabulary)
    rows, columns = (np.zeros((num_words, len(problem.steps)), np.float32) for _ in range(2))
    positives = np.zeros((num_words, num_words), np.float32)
    for t, (step, negatives) in enumerate(zip(problem.steps, problem.negatives, strict=True)):
        rows[step.words, t], columns[step.words, t] = negatives
        positives[np.repeat(step.words, np.diff(step.indptr)), step.words[step.indices]] += step.values
    present = np.flatnonzero(rows.any(1))
    size = padded_size(len(present))
    place = np.full(size, num_words, np.int32)
    place[: len(present)] = present
    matrices = []
    for matrix in (positives, rows @ columns.T):
        out = np.zeros((size, size), problem.dtype)
        out[: len(present), : len(present)] = matrix[np.ix_(present, present)]
        matrices.append(out)
    return Pooled(*(jax.device_put(array[None]) for array in (place, *matrices)))


def start(pooled: Pooled, num_words: int, dim: int, scale: float, seed: int) -> Embeddings:
    r"""Vectors near the best ones: a weighted decomposition of what a first Newton step would make of logits.

    At logits of zero the slope is $(n^+ - n^-)/2$ and the curvature $(n^+ + n^-)/4$, which is taken as
    $r_i c_j / 4N$ with the margins. So the best logits are found by a singular value decomposition, as in
    correspondence analysis, and each side is then shrunk by its prior.
    """
    sides = _decomposed(pooled.positives[0], pooled.sums[0], dim, scale, jr.key(seed))
    out = []
    for side, key in zip(sides, jr.split(jr.key(seed)), strict=True):
        noise = scale * NOISE * jr.normal(key, (num_words, dim), side.dtype)
        out.append(noise.at[pooled.place[0]].add(side, mode="drop"))
    return Embeddings(*out)


def _decomposed(positives, negatives, dim, scale, key) -> tuple[Array, Array]:
    total = positives + negatives
    rows, columns, number = total.sum(1), total.sum(0), total.sum()
    # Words without counts are padding: any weight will do.
    left, right = (jnp.sqrt(jnp.maximum(side, 1e-6) / jnp.sqrt(number)) for side in (rows, columns))
    scaled = 2.0 * (positives - negatives) / (left[:, None] * right[None, :])
    width = min(dim + EXTRA, len(rows))
    basis = jr.normal(key, (len(rows), width), positives.dtype)
    for _ in range(TURNS):
        basis = jnp.linalg.qr(scaled @ basis)[0]
        basis = jnp.linalg.qr(scaled.T @ basis)[0]
    first, sizes, second = jnp.linalg.svd(scaled @ basis, full_matrices=False)
    kept = min(dim, width)
    root = jnp.sqrt(sizes[None, :kept])
    words = first[:, :kept] * root / left[:, None]
    contexts = (basis @ second.T)[:, :kept] * root / right[:, None]
    found = []
    for side, other, margin, theirs in (
        (words, contexts, rows, columns),
        (contexts, words, columns, rows),
    ):
        curvature = 0.25 * margin[:, None] * (theirs[None] @ other**2 / number)
        shrunk = side * curvature / (curvature + scale**-2.0)
        found.append(jnp.pad(shrunk, ((0, 0), (0, dim - kept))))
    return tuple(found)
