"""Over many made-up corpora: words that moved are found, others are called as rarely as stated."""

import numpy as np
import pytest

from driftline import words
from driftline.words.synthetic import planted

CORPORA = 200
STATED = 0.05 / 0.95  # of words that did not change, at probability 0.95 and even odds


@pytest.mark.slow
def test_calls_of_change_are_as_rare_as_stated():
    first, called, compared, found = 0, [], [], 0
    for seed in range(CORPORA):
        corpus = planted(
            num_steps=10, num_words=100, num_moved=2, num_topics=6, tokens=3000, gap=10, seed=seed
        )
        counts = words.count(corpus.texts, vocabulary=100, progress=False)
        atlas = words.fit(counts, dim=8, seed=seed, progress=False)
        answer = atlas.changed(counts.dates[0], counts.dates[-1], n=100)
        assert answer.probabilities is not None
        sure = answer.probabilities >= 0.95
        planted_here = np.isin(answer.words, corpus.moved)
        first += set(answer.words[:2]) == set(corpus.moved)
        found += int((sure & planted_here).sum())
        called.append(int((sure & ~planted_here).sum()))
        compared.append(int((~planted_here).sum()))
    rate = sum(called) / sum(compared)
    # Words of one corpus depend on each other, so the error is that of the mean over corpora.
    error = np.std(np.array(called) / np.array(compared)) / np.sqrt(CORPORA)
    share = found / (2 * CORPORA)
    print(f"\n{CORPORA} corpora: planted words are the first two in {first / CORPORA:.1%} of them")
    print(f"called changed: {share:.1%} of planted words, {rate:.2%} ± {error:.2%} of others")
    assert rate <= STATED + 3 * error
    assert share > 0.95
