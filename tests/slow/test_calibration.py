"""Intervals hold the truth as often as they say, for the path and for learnt numbers."""

import pytest

from support.calibration import CASES, calibrate, table


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    rows = calibrate(name, 300)
    print("\n" + table(rows))
    assert all(abs(row.off) <= 3 or row.flagged > 0.5 for row in rows), table(rows)
