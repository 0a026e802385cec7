"""The table that the README opens with, made from `benchmarks/results`: run this file to write it there."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # for the package `benchmarks`, when this file is run

from stored_results import stored  # noqa: E402

README = ROOT / "README.md"
BETWEEN = re.compile(
    r"(<!-- headline: made by docs/_extensions/headline.py -->\n).*?(<!-- end -->)", re.DOTALL
)
SERIES = "S&P 500, T = 5,030"
CONTESTANTS = {  # as they are called in the results, and here
    "driftline newton": "**driftline**, `dl.fit`",
    "BayesNewton": "BayesNewton",
    "dynamax EKF smoother": "dynamax, extended Kalman smoother",
    "cuthbert Taylor smoother": "cuthbert, Taylor smoother",
    "AutoDiagonalNormal": "NumPyro, `AutoDiagonalNormal`",
}


def table() -> str:
    """Time and accuracy of what people use, on one series."""
    times, guides, _, accuracy, _ = stored("peers_series").tables
    clock = {row[1]: row for row in times.rows if row[0] == SERIES}
    climb = {row[1]: row for row in guides.rows if row[0] == SERIES}
    error = {row[1]: row for row in accuracy.rows if row[0] == SERIES}
    lines = [
        "| S&P 500, 5,030 daily returns | compile | then | error of the mean, in sd | width of the bands |",
        "|---|---|---|---|---|",
    ]
    for name, shown in CONTESTANTS.items():
        _, _, compiling, near, _, _, _, call, _ = clock[name]
        milliseconds = 1e3 * climb[name][5] if name in climb else call or near
        off, ratio = error[name][2], error[name][4]
        lines.append(f"| {shown} | {compiling:.1f} s | {_time(milliseconds)} | {off:.2f} | {ratio:.0%} |")
    seconds = clock["NumPyro NUTS"][7] / 1e3
    lines.append(f"| NumPyro, NUTS: the reference | in the time | {seconds:.0f} s | | 100% |")
    return "\n".join(lines)


def _time(milliseconds):
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.0f} s"


def written(text: str) -> str:
    """The README with the table of today."""
    return BETWEEN.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", text)


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
