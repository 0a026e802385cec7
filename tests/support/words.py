"""A small corpus, and the likelihood of its counts by definition: every pair of words at every step."""

import jax
import jax.numpy as jnp
import numpy as np

from driftline import words


def small_counts(num_steps=5, num_words=12, length=60, seed=0):
    """Counts of random texts; words of high numbers are rare, and one is there at one step only."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, num_words)
    texts = []
    for t in range(num_steps):
        drawn = rng.choice(num_words - 1, size=length, p=share / share.sum())
        text = [f"w{i}" for i in drawn]
        if t == num_steps // 2:
            text[3] = text[10] = "once"
        texts.append((f"{1900 + t * (t + 1)}-01-01", " ".join(text)))
    return words.count(texts, vocabulary=num_words, progress=False)


def planted_counts(num_steps=4, num_words=20, num_topics=3, tokens=1500, **options):
    """Counts of texts with topics, so that there is something to learn; one word moves."""
    made = words.planted(num_steps, num_words, 1, num_topics=num_topics, tokens=tokens, **options)
    return words.count(made.texts, vocabulary=num_words, progress=False)


def dense_counts(counts, t, settings):
    """Positive and negative counts over the whole vocabulary, from their definition."""
    size = len(counts.vocabulary)
    step = counts.step(t)
    positives = np.zeros((size, size))
    for row, word in enumerate(step.words):
        for k in range(step.indptr[row], step.indptr[row + 1]):
            positives[word, step.words[step.indices[k]]] = step.values[k]
    share = positives.sum(1) / positives.sum()
    powers = np.where(share > 0, share**settings.exponent, 0.0)
    return positives, positives.sum() * settings.ratio * np.outer(share, powers / powers.sum())


def dense_log_likelihood(paths, counts, settings):
    """The log-likelihood of whole paths (2, T, V, d), with every pair of words at every step."""
    total = 0.0
    for t in range(len(counts)):
        positives, negatives = dense_counts(counts, t, settings)
        logits = paths[0, t] @ paths[1, t].T
        total += jnp.sum(positives * jax.nn.log_sigmoid(logits) + negatives * jax.nn.log_sigmoid(-logits))
    return total


def stop_before(patch, name):
    """Let a comparison stop, as by Ctrl-C, when it comes to the method of that name."""
    from driftline.words.evaluation import comparison

    predict = comparison.predict

    def stopped(counts, method, *rest):
        if method == name:
            raise KeyboardInterrupt
        return predict(counts, method, *rest)

    patch.setattr(comparison, "predict", stopped)
