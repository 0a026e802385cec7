"""Scores of `driftline words evaluate` beside the curves of Bamler & Mandt (2017b), Figure 6.

python -m benchmarks.words.figure scores.json more.json --published fig6.csv --corpus sou -o scores.png
"""

import argparse
import csv
import dataclasses
from pathlib import Path

import numpy as np

from driftline.words.evaluation.scores import Evaluation

DAYS_PER_YEAR = 365.25


def published(path: Path, corpus: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Dates and scores of each method, from a table with corpus, method, date and score."""
    rows = [row for row in csv.reader(path.open()) if row[0] == corpus]
    found = {}
    for method in {row[1] for row in rows}:
        years = np.array([float(row[2]) for row in rows if row[1] == method])
        days = ((years - 1970.0) * DAYS_PER_YEAR).round().astype("timedelta64[D]")
        scores = np.array([float(row[3]) for row in rows if row[1] == method])
        found[method.lower()] = np.datetime64("1970-01-01") + days, scores
    return found


def main() -> None:
    """Draw them, and print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("scores", type=Path, nargs="+")
    parser.add_argument("--published", type=Path, required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    first, *others = (Evaluation.load(path) for path in arguments.scores)
    for other in others:
        if not np.array_equal(other.dates, first.dates):
            parser.error("the files are not of the same corpus")
        first = dataclasses.replace(first, methods=first.methods | other.methods)
    curves = published(arguments.published, arguments.corpus)
    print(first)
    for name, (_, scores) in sorted(curves.items()):
        print(f"published {name}: {scores.mean():.4f} ({len(scores)} points)")
    first.plot(arguments.out, {name: curve for name, curve in curves.items() if name in first.methods})


if __name__ == "__main__":
    main()
