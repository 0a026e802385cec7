r"""The skip-gram likelihood over the words present at a step, its gradients and its curvature.

At one step, with logits $x_{ij} = u_i \cdot v_j$,

$$\ell = \sum_{ij} n^+_{ij} \log\sigma(x_{ij}) + n^-_{ij} \log\sigma(-x_{ij}).$$

A word that is absent has no counts of either kind, so only the n words present take part, exactly. Steps
with about as many words are padded to one size and gone through in one compiled loop. Within a step, rows are
taken a few hundred at a time, so that what belongs to a pair of words stays in the cache.

If embeddings are uncertain, the logit is taken as normal with its own mean and variance,

$$m = u \cdot v, \qquad s^2 = \sum_k a_k (v_k^2 + b_k) + u_k^2 b_k,$$

for independent components with variances a and b: exact moments, and a distribution that is nearly normal,
being that of a sum of many terms. Expectations over it take one sigmoid (see `docs/words.md`).
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.words.counts.step_counts import Negatives, StepCounts

TILE = 384  # rows at a time: with 1,500 columns of float32, 2 MB
RANK = 8  # of the variances of logits, while means climb: slopes to 1e-5 standard deviations
GROWTH = 1.12  # of the ladder of sizes to which steps are padded
NODES = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6.0


class Batch(NamedTuple):
    """Counts of steps that are padded to the same size, one step for each leading index.

    Attributes:
        place: Rows of the embeddings that belong to the words present, (S, n); past the end where padded.
        rows: Factor of the negative counts, (S, n).
        columns: The other factor, (S, n).
        first: Upper triangle of the positive counts: row, (S, m).
        second: Column.
        values: Count; zero where padded.
    """

    place: Any
    rows: Any
    columns: Any
    first: Any
    second: Any
    values: Any

    def matrices(self) -> tuple[Array, Array]:
        """Positive counts, and what tiles of the negative counts are made from, of one step."""
        return dense(self), self.rows

    def negatives(self, rows: Array) -> Array:
        """Negative counts of some rows of one step."""
        return jnp.outer(rows, self.columns)


class Pooled(NamedTuple):
    """Counts of all steps together, as of one at which every word is present; with a leading axis of one.

    Attributes:
        place: Rows of the embeddings, (1, n); past the end where padded.
        positives: Positive counts, (1, n, n).
        sums: Negative counts, (1, n, n), of any rank.
    """

    place: Any
    positives: Any
    sums: Any

    def matrices(self) -> tuple[Array, Array]:
        """As for `Batch`."""
        return self.positives, self.sums

    def negatives(self, rows: Array) -> Array:
        """As for `Batch`."""
        return rows


class Embeddings(NamedTuple):
    """Means of words and contexts, and their variances if they are uncertain."""

    words: Float[Array, " R d"]
    contexts: Float[Array, " R d"]
    word_variances: Any = None
    context_variances: Any = None


def batches(
    steps: list[StepCounts], negatives: list[Negatives], places: list[np.ndarray], num_rows: int, dtype: Any
) -> list[Batch]:
    """Sort steps by size into batches.

    Args:
        steps: Positive counts.
        negatives: Negative counts.
        places: For each step, the rows of the embeddings that belong to its words.
        num_rows: Number of rows of the embeddings.
        dtype: Of the numbers.
    """
    by_size: dict[int, list[int]] = {}
    for t, step in enumerate(steps):
        if len(step.words):
            by_size.setdefault(padded_size(len(step.words)), []).append(t)
    made = []
    for size, members in sorted(by_size.items()):
        uppers = [_upper(steps[t]) for t in members]
        num_pairs = padded_size(max(len(values) for *_, values in uppers))
        narrow = np.uint16 if size < 1 << 16 else np.int32
        batch = Batch(
            np.full((len(members), size), num_rows, np.int32),
            np.zeros((len(members), size), dtype),
            np.zeros((len(members), size), dtype),
            np.zeros((len(members), num_pairs), narrow),
            np.zeros((len(members), num_pairs), narrow),
            np.zeros((len(members), num_pairs), dtype),
        )
        for k, (t, upper) in enumerate(zip(members, uppers, strict=True)):
            filled = places[t], *negatives[t], *upper
            for target, source in zip(batch, filled, strict=True):
                target[k, : len(source)] = source
        made.append(Batch(*(jax.device_put(array) for array in batch)))
    return made


def padded_size(size: int) -> int:
    """The next size on the ladder to which steps are padded; each is a whole number of tiles."""
    rung = 64.0
    while True:
        tiles = _num_tiles(int(rung))
        whole = -(-int(rung) // (tiles * 16)) * tiles * 16
        if whole >= size:
            return whole
        rung *= GROWTH


def _num_tiles(size):
    return -(-size // TILE)


def _upper(step):
    first = np.repeat(np.arange(len(step.words)), np.diff(step.indptr))
    upper = first <= step.indices
    return first[upper], step.indices[upper], step.values[upper]


def log_likelihood(counts: Sequence[Batch | Pooled], moments: Embeddings) -> float:
    """The (expected) log-likelihood of all steps, in nats; of thousands, so that they add up in double."""
    return sum(float(np.asarray(_values(batch, moments), np.float64).sum()) for batch in counts)


def gradients(counts: Sequence[Batch | Pooled], moments: Embeddings) -> tuple[Array, Array]:
    """Derivatives of the (expected) log-likelihood by the means of words and contexts."""
    return _collected(counts, moments, tile_gradients)


class Held(NamedTuple):
    """What of the expected log-likelihood is held while means climb, for gradients at half the price.

    The variance of a logit changes little meanwhile, and as a matrix over pairs it is nearly of low rank.

    Attributes:
        left: Factor of the variances of logits, (R, r).
        right: The other, (R, r).
        of_words: Expected curvature times the variances of contexts: the pull of these on words, (R, d).
        of_contexts: The same of contexts.
    """

    left: Array
    right: Array
    of_words: Array
    of_contexts: Array


def hold(counts: Sequence[Batch | Pooled], moments: Embeddings) -> Held:
    """What is held, at means and variances."""
    return Held(*_factors(moments), *_collected(counts, moments, _tile_stiffness))


def held_gradients(
    counts: Sequence[Batch | Pooled], words: Array, contexts: Array, held: Held
) -> tuple[Array, Array]:
    """Derivatives of the expected log-likelihood by the means, with what is held."""
    moments = Embeddings(words, contexts, held.left, held.right)
    of_words, of_contexts = _collected(counts, moments, _tile_pulls)
    return of_words - words * held.of_words, of_contexts - contexts * held.of_contexts


def curvatures(counts: Sequence[Batch | Pooled], moments: Embeddings) -> tuple[Array, Array]:
    """Expected second derivatives by each component of words and contexts, with the sign changed."""
    return _collected(counts, moments, tile_curvatures)


def _collected(counts, moments, tile):
    results = (jnp.zeros_like(moments.words), jnp.zeros_like(moments.contexts))
    for batch in counts:
        results = _collect(results, batch, moments, tile)
    return results


@jax.jit
def _factors(moments):
    """Factors of low rank of the variances of logits, over all rows, by their Gram matrices."""
    left = jnp.concatenate([moments.word_variances, moments.words**2], 1)
    right = jnp.concatenate([moments.contexts**2 + moments.context_variances, moments.context_variances], 1)
    roots = []
    for side in (left, right):
        gram = side.T @ side
        sizes, axes = jnp.linalg.eigh(gram)
        # Below rounding, axes are noise.
        least = 1e-6 * sizes[-1]
        sizes = jnp.where(sizes > least, sizes, 0)
        root, inverse = jnp.sqrt(sizes), jnp.where(sizes > 0, jax.lax.rsqrt(jnp.maximum(sizes, least)), 0)
        roots.append((axes * root[None], axes * inverse[None]))
    (root_left, back_left), (root_right, back_right) = roots
    first, sizes, second = jnp.linalg.svd(root_left.T @ root_right)
    rank = min(RANK, len(sizes))
    size = jnp.sqrt(sizes[None, :rank])
    first, second = first[:, :rank] * size, second[:rank].T * size
    return left @ (back_left @ first), right @ (back_right @ second)


@functools.partial(jax.jit, donate_argnums=0, static_argnames="tile")
def _collect(results, batch, moments, tile):
    """Write what `tile` makes of each step into the rows of that step."""

    def step(results, counts):
        of_words, of_contexts = over_tiles(counts, _take(moments, counts.place), tile)
        return (
            results[0].at[counts.place].set(of_words, mode="drop"),
            results[1].at[counts.place].set(of_contexts, mode="drop"),
        ), None

    return jax.lax.scan(step, results, batch)[0]


def over_tiles(counts: Batch | Pooled, moments: Embeddings, tile: Any) -> tuple[Array, Array]:
    """Results for the words and the contexts of one step: rows tile by tile, columns summed over tiles."""
    of_contexts, of_words = _scan_tiles(counts, moments, tile, jnp.zeros_like(moments.contexts))
    return of_words.reshape(moments.words.shape), of_contexts


def _scan_tiles(counts, moments, tile, nothing):
    """What `tile` makes of a few hundred rows at a time: its second result summed, its first one stacked."""
    size = len(counts.place)
    num_tiles = _num_tiles(size)
    cut = functools.partial(jax.tree.map, lambda x: x.reshape(num_tiles, size // num_tiles, *x.shape[1:]))
    words = Embeddings(moments.words, moments.words, moments.word_variances, moments.word_variances)

    def one(total, part):
        positives, rows, mine = part
        negatives = counts.negatives(rows)
        theirs = Embeddings(mine.words, moments.contexts, mine.word_variances, moments.context_variances)
        stacked, summed = tile(positives, negatives, theirs)
        return total + summed, stacked

    return jax.lax.scan(one, nothing, cut((*counts.matrices(), words)))


@jax.jit
def _values(batch, moments):
    return jax.lax.map(lambda counts: value(counts, _take(moments, counts.place)), batch)


def value(counts: Batch | Pooled, moments: Embeddings) -> Array:
    """The (expected) log-likelihood of one step, in nats."""
    return _scan_tiles(counts, moments, _tile_value, jnp.zeros((), moments.words.dtype))[0]


def _tile_value(positives, negatives, moments):
    """Log-likelihood of some rows; over uncertain logits its expectation, by three points."""
    mean, variance = _logits(moments)
    expected = jax.nn.softplus(-mean) if variance is None else _expected_softplus(-mean, variance)
    # log σ(-x) = log σ(x) - x. By a product with ones: XLA fuses a sum with all that comes before it, and
    # then takes one pair at a time, at three times the price.
    terms = (positives + negatives) * expected + negatives * mean
    return None, -jnp.sum(jnp.ones(len(terms), terms.dtype) @ terms)


def _expected_softplus(mean, variance):
    r"""Expected $\log(1 + e^x)$ by three points; the outer two have one weight, and so take one logarithm."""
    sd = jnp.sqrt(variance)
    points = [mean + node * sd for node in np.asarray(NODES, mean.dtype)]
    weights = np.asarray(WEIGHTS, mean.dtype)
    # softplus(x) = max(x, 0) + log(1 + exp(-|x|)), whose last term is at most log 2.
    above = sum(w * jnp.maximum(x, 0.0) for w, x in zip(weights, points, strict=True))
    low, middle, high = (1.0 + jnp.exp(-jnp.abs(x)) for x in points)
    return above + weights[0] * jnp.log(low * high) + weights[1] * jnp.log(middle)


def tile_gradients(positives: Array, negatives: Array, moments: Embeddings) -> tuple[Array, Array]:
    """Derivatives of the (expected) log-likelihood by the means of some rows, and by all columns."""
    mean, variance = _logits(moments)
    first, second = _sigmoid(mean, variance)
    pull = positives - (positives + negatives) * first
    of_words, of_contexts = pull @ moments.contexts, pull.T @ moments.words
    if variance is None:
        return of_words, of_contexts
    stiffness = (positives + negatives) * second
    return (
        of_words - moments.words * (stiffness @ moments.context_variances),
        of_contexts - moments.contexts * (stiffness.T @ moments.word_variances),
    )


def _tile_stiffness(positives, negatives, moments):
    """Expected curvature times the variances of the other side."""
    stiffness = (positives + negatives) * _sigmoid(*_logits(moments))[1]
    return stiffness @ moments.context_variances, stiffness.T @ moments.word_variances


def _tile_pulls(positives, negatives, moments):
    """Derivatives by the means, but for the pull of variances; these are factors of the logits' variances."""
    mean = moments.words @ moments.contexts.T
    variance = jnp.maximum(moments.word_variances @ moments.context_variances.T, 0.0)
    pull = positives - (positives + negatives) * _sigmoid(mean, variance)[0]
    return pull @ moments.contexts, pull.T @ moments.words


def tile_curvatures(positives: Array, negatives: Array, moments: Embeddings) -> tuple[Array, Array]:
    """Expected second derivatives, with the sign changed, of some rows, and of all columns."""
    mean, variance = _logits(moments)
    stiffness = (positives + negatives) * _sigmoid(mean, variance)[1]
    words, contexts = moments.words**2, moments.contexts**2
    if variance is not None:
        words, contexts = words + moments.word_variances, contexts + moments.context_variances
    return stiffness @ contexts, stiffness.T @ words


def _logits(moments):
    mean = moments.words @ moments.contexts.T
    if moments.word_variances is None:
        return mean, None
    variance = moments.word_variances @ (moments.contexts**2 + moments.context_variances).T
    return mean, variance + moments.words**2 @ moments.context_variances.T


def _sigmoid(mean, variance):
    r"""Expected $\sigma(x)$, as $\sigma(\kappa m)$ with $\kappa^{-2} = 1 + \pi s^2/8$, and its derivative."""
    shrink = 1.0 if variance is None else jax.lax.rsqrt(1.0 + np.asarray(np.pi / 8, mean.dtype) * variance)
    half = jnp.tanh(0.5 * shrink * mean)
    return 0.5 + 0.5 * half, shrink * (0.25 - 0.25 * half * half)


def _take(moments, place):
    return jax.tree.map(lambda array: array.at[place].get(mode="fill", fill_value=0), moments)


def dense(counts: Batch) -> Float[Array, " n n"]:
    """Positive counts of one step as a matrix."""
    size = len(counts.rows)
    first, second = counts.first.astype(jnp.int32), counts.second.astype(jnp.int32)
    # Padding adds nothing to the pair (0, 0); the diagonal must not be added twice.
    upper = jnp.zeros((size, size), counts.values.dtype).at[first, second].add(counts.values)
    mirrored = jnp.where(first == second, 0, counts.values)
    return upper.at[second, first].add(mirrored)
