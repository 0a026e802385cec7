"""Intervals hold the truth as often as they say, for the path and for learnt numbers."""

import pytest

from support.calibration import CASES, calibrate, table

# Strict: when it is mended, the test says so.
TOO_WIDE = pytest.mark.xfail(
    strict=True, reason="50 % intervals of the path hold 52 %; see docs/calibration.md"
)
KNOWN = {"level": TOO_WIDE, "volatility": TOO_WIDE}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=KNOWN.get(name, ())) for name in CASES])
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    rows = calibrate(name, 300)
    print("\n" + table(rows))
    assert all(abs(row.off) <= 3 or row.flagged > 0.5 for row in rows), table(rows)
