"""Over many made-up corpora: words that moved are found, others are called as rarely as stated."""

import numpy as np
import pytest

from driftline import words
from driftline.words.texts.planted import planted

CORPORA = 200
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


@pytest.mark.slow
def test_calls_of_change_are_as_rare_as_stated():
    first, moved, others = 0, [], []
    for seed in range(CORPORA):
        corpus = planted(
            num_steps=10, num_words=100, num_moved=2, num_topics=6, tokens=3000, gap=10, seed=seed
        )
        counts = words.count(corpus.texts, vocabulary=100, progress=False)
        atlas = words.fit(counts, dim=8, seed=seed, progress=False)
        answer = atlas.changed(counts.dates[0], counts.dates[-1], n=100)
        assert answer.probabilities is not None
        is_moved = np.isin(answer.words, corpus.moved)
        first += set(answer.words[:2]) == set(corpus.moved)
        moved.append(answer.probabilities[is_moved])
        others.append(answer.probabilities[~is_moved])
    print(f"\n{CORPORA} corpora: planted words are the first two in {first / CORPORA:.1%} of them\n")
    print(
        "| probability | stated, at most | of words that did not move | of planted words |\n|---|---|---|---|"
    )
    found = {}
    for level in LEVELS:
        # Words of one corpus depend on each other, so the error is that of the mean over corpora.
        called = np.array([np.mean(chances >= level) for chances in others])
        rate, error = called.mean(), called.std() / np.sqrt(CORPORA)
        stated = (1 - level) / level  # a Bayes factor reaches k at most once in k times
        found[level] = np.mean(np.concatenate(moved) >= level)
        print(f"| {level} | {min(1.0, stated):.1%} | {rate:.2%} ± {error:.2%} | {found[level]:.1%} |")
        assert rate <= stated + 3 * error
    assert first >= 0.95 * CORPORA
    assert found[0.95] > 0.95
