"""Planted drift is found, and only that."""

import numpy as np

from driftline import words
from driftline.words.texts.planted import planted


def test_planted_words_are_ranked_first():
    corpus = planted(seed=1)
    counts = words.count(corpus.texts, vocabulary=200, progress=False)
    atlas = words.fit(counts, dim=10, progress=False)
    found = atlas.changed(counts.dates[0], counts.dates[-1], n=200)
    assert set(found.words[: len(corpus.moved)]) == set(corpus.moved)
    assert found.probabilities is not None
    called = np.array(found.words)[found.probabilities >= 0.95]
    unplanted = [word for word in called if word not in corpus.moved]
    # At most 5.3 % of some 180 words that did not change, by the bound that `changed` states.
    assert len(unplanted) <= 0.053 * len(found.words)


def test_the_same_seed_gives_the_same_texts():
    assert planted(num_steps=3, seed=5) == planted(num_steps=3, seed=5)
    assert planted(num_steps=3, seed=5) != planted(num_steps=3, seed=6)
