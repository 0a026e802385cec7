"""Corpora of many shapes: words that did not move are called as rarely as stated, those that moved are found.

`DRAWS` corpora of every corner; `pytest -m slow tests/slow/test_nothing_moves.py -s` prints the table of
`docs/words.md`.
"""

import os
import warnings

import numpy as np
import pytest

from driftline import words

DRAWS = int(os.environ.get("DRIFTLINE_DRAWS", "20"))
LEVEL, STATED = 0.95, 0.05 / 0.95
NOTES = {"num_steps": 700, "num_words": 60, "num_topics": 4, "tokens": 60, "documents": 1}
MANY_NOTES = NOTES | {"num_steps": 3000}
CORNERS = {
    # name: (corpus, dim, share of planted words that must be found or None)
    "4,000 tokens": ({"tokens": 4000}, 8, 0.95),
    "20,000 tokens": ({"tokens": 20_000}, 8, 0.9),
    "100,000 tokens": ({"tokens": 100_000}, 8, 0.9),
    "400,000 tokens, half the dimensions": ({"tokens": 400_000}, 4, 0.9),
    "400,000 tokens, d = 6": ({"tokens": 400_000}, 6, 0.9),
    "20,000 tokens, d = 30": ({"tokens": 20_000}, 30, 0.9),
    "20,000 tokens, 30 words, d = 100": ({"tokens": 20_000, "num_words": 30, "num_topics": 3}, 100, 0.9),
    "20,000 tokens, 500 words, d = 100": ({"tokens": 20_000, "num_words": 500}, 100, 0.9),
    "20,000 tokens, d chosen": ({"tokens": 20_000}, None, 0.9),
    "50 documents of 400 words": ({"tokens": 20_000, "documents": 50}, 8, 0.9),
    "50 documents of 400 words, half the dimensions": ({"tokens": 20_000, "documents": 50}, 4, 0.9),
    "50 documents of 400 words, d chosen": ({"tokens": 20_000, "documents": 50}, None, 0.9),
    "400 documents of 400 words, half the dimensions": ({"tokens": 160_000, "documents": 400}, 4, 0.9),
    "100 steps": ({"tokens": 4000, "num_steps": 100, "gap": 1}, 8, None),
    "700 notes on one of four topics, daily": (NOTES, 5, None),
    "3,000 notes on one of four topics, daily": (MANY_NOTES, 5, None),
    "3,000 notes on one of four topics, daily, d = 100": (MANY_NOTES, 100, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CORNERS)
def test_unchanged_words_are_called_as_rarely_as_stated(name):
    corpus, dim, found = CORNERS[name]
    still = np.array([_called(corpus, dim, seed, 0)[0] for seed in range(DRAWS)])
    rate, error = still.mean(), still.std() / np.sqrt(DRAWS)
    line = f"| {name} | {rate:.1%} ± {error:.1%}"
    planted = None
    if found is not None:
        rows = [_called(corpus, dim, seed, 2) for seed in range(DRAWS)]
        beside = np.mean([row[0] for row in rows])
        planted = np.mean([row[1] for row in rows])
        line += f" | {beside:.1%} | {planted:.0%}"
    print(f"\n{line} |")
    assert rate <= STATED + 3 * error
    assert planted is None or planted >= found


def _called(corpus, dim, seed, num_moved):
    """Share of unchanged and of planted words that are called changed between the first and the last step."""
    options = {"num_steps": 10, "num_words": 100} | corpus
    made = words.planted(num_moved=num_moved, seed=seed, **options)
    daily = corpus in (NOTES, MANY_NOTES)
    if daily:
        start = np.datetime64("1900-01-01")
        made.texts[:] = [(str(start + k), text) for k, (_, text) in enumerate(made.texts)]
    counts = words.count(made.texts, vocabulary=options["num_words"], progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more dimensions than the texts support are told of
        atlas = words.fit(counts, dim=dim, seed=seed, progress=False)
    assert atlas.converged, atlas.message
    window = 60 if daily else 2
    answer = atlas.changed(
        atlas.dates[0], atlas.dates[-1], n=options["num_words"], window=window, bands=False
    )
    assert answer.probabilities is not None
    called, moved = answer.probabilities >= LEVEL, np.isin(answer.words, made.moved)
    return called[~moved].mean(), called[moved].mean() if num_moved else 0.0
