"""Where published posteriors and corpora lie, on machines that have them."""

from pathlib import Path

SHARED = Path(__file__).parents[3] / "shared"
REFERENCE = SHARED / "reference"
