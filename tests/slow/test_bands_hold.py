"""Bands of similarities hold what other draws of a corpus and other seeds find, as often as they say."""

import numpy as np
import pytest

from driftline import words

DRAWS, STEPS = 8, 10


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [4000, 20_000, 100_000])
def test_bands_of_similarities_hold_the_mean_of_other_draws(tokens):
    """One long corpus in which nothing changes, cut into draws of ten steps; every draw has another seed."""
    made = words.planted(STEPS * DRAWS, 100, 0, tokens=tokens, first_year=1000, gap=1, seed=3)
    found = []
    for draw in range(DRAWS):
        texts = made.texts[draw * STEPS : (draw + 1) * STEPS]
        counts = words.count(texts, vocabulary=100, progress=False)
        atlas = words.fit(counts, dim=8, seed=draw, progress=False)
        assert atlas.converged, atlas.message
        found.append(_bands(atlas))
    cosines, lower, upper = (np.array(part) for part in zip(*found, strict=True))
    others = (cosines.sum(0) - cosines) / (DRAWS - 1)
    held = (lower <= others) & (others <= upper)
    print(f"\n| {tokens:,} | {held.mean():.1%} |")
    assert 0.85 <= held.mean() <= 0.97


def _bands(atlas):
    """Cosine, lower and upper end in the middle of the time, for pairs of words of all frequencies."""
    names = [f"w{k}" for k in range(0, 90, 6)]
    rows = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            one = atlas.similarity(a, b)
            assert one.lower is not None
            assert one.upper is not None
            rows.append([column[STEPS // 2] for column in (one.cosine, one.lower, one.upper)])
    return np.array(rows).T
