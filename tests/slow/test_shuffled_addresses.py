"""Real texts: dozens of words changed, and next to none once the dates are shuffled."""

import pytest

from driftline import words

START, END = 1900, 2000


@pytest.mark.slow
def test_shuffled_dates_leave_next_to_nothing():
    counts = words.count(words.sotu(), 1200, join_days=7, progress=False)
    atlas = words.fit(counts, dim=20, progress=False)
    assert atlas.converged, atlas.message
    found = words.null(counts, atlas, START, END, times=3)
    print(f"\n{found.num_called} of {found.num_compared} words called; shuffled: {found.null_called}")
    assert found.num_called is not None
    assert found.num_called >= 24
    assert found.null_called is not None
    assert found.null_called.sum() < 0.01 * found.null_compared.sum()
