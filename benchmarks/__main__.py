"""`python -m benchmarks [names] [--quick]`: run benchmarks one after the other, each in its own process."""

import argparse
import importlib
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.report import Report

HOMES = {
    "step": ("scaling", "price", "limit"),
    "series": ("cold_start", "newton", "refine", "peers_series"),
    "words": ("words", "books"),
}
NAMES = tuple(name for names in HOMES.values() for name in names)
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Run what was asked for; returns the number of benchmarks that failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(NAMES)}; all if none is given")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything works")
    parser.add_argument("--stored", action="store_true", help="print the last full results, measure nothing")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(NAMES))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; choose from {', '.join(NAMES)}")
    names = arguments.names or NAMES
    if arguments.stored:
        for name in names:
            file = RESULTS / f"{name}.json"
            if not file.exists():
                print(f"## {name}\n\nNo full run is stored.\n", flush=True)
                continue
            stored = json.loads(file.read_text(encoding="utf-8"))
            print(Report.from_json(stored).markdown(), flush=True)
        return 0
    if arguments.in_process:
        for name in names:
            _run_here(name, arguments.quick)
        return 0
    # A process each, so that neither memory nor compiled code of one benchmark helps or hurts the next.
    return sum(_run_apart(name, arguments.quick) != 0 for name in names)


def _run_apart(name: str, quick: bool) -> int:
    command = [sys.executable, "-m", "benchmarks", name, "--in-process", *(["--quick"] if quick else [])]
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        print(f"benchmark {name} failed with exit code {code}", file=sys.stderr, flush=True)
    return code


def _run_here(name: str, quick: bool) -> None:
    home = next(home for home, names in HOMES.items() if name in names)
    report = importlib.import_module(f"benchmarks.{home}.{name}").run(quick=quick)
    RESULTS.mkdir(exist_ok=True)
    # A quick run must not replace the numbers of a full one.
    file = RESULTS / (f"{name}-quick.json" if quick else f"{name}.json")
    text = json.dumps(report.as_json(quick=quick), indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
    print(report.markdown(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
