"""How long a user waits before anything happens: importing, asking for help, the first fit."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.harness.measure import Times, alternate, summarise
from benchmarks.harness.report import Report, Table, at_most

IMPORTS_JAX = "import sys, driftline; print('jax' in sys.modules)"
FITS = """
import json, time
marks = [time.perf_counter()]
import driftline as dl
model = dl.Model(dl.AR1(mean=-1, decay=0.95, scale=0.3), dl.LogVolatility())
_, x = model.simulate(1000, seed=1)
marks.append(time.perf_counter())
for _ in range(2):
    dl.fit(model, x, method="bbvi", max_iterations=50, progress=False)
    marks.append(time.perf_counter())
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""
NOTES = (
    "Processes are started in turns and timed from outside. The fits run one after the other in a fresh "
    'process, with `method="bbvi"`, `max_iterations=50`, T = 1,000; the first one compiles.',
)


def run(*, quick: bool) -> Report:
    """Time processes from outside, and fits from inside a fresh process."""
    commands = {"python -c ''": ["-c", ""], "python -c 'import driftline'": ["-c", "import driftline"]}
    starts = {name: _starter([sys.executable, *command]) for name, command in commands.items()}
    script = _console_script()
    if script is not None:
        starts["driftline --help"] = _starter([str(script), "--help"])
    times = alternate(starts, 5 if quick else 20)
    bare, imported = (times[name] for name in commands)
    rows = [[name, time.minimum, time.median] for name, time in times.items()]
    if script is None:
        rows.append(["driftline --help", None, "not available"])
    rows += [[name, time.minimum, time.median] for name, time in _fits(2 if quick else 5).items()]
    loads_jax = _output(IMPORTS_JAX) == "True"
    notes = [
        f"After `import driftline`, JAX is {'' if loads_jax else 'not '}among the loaded modules.",
        *NOTES,
    ]
    goals = [at_most("`import driftline` beyond bare Python, s", imported.median - bare.median, 0.1)]
    return Report("cold_start", [Table("Seconds", ["what", "min", "median"], rows)], goals, notes)


def _starter(command):
    return lambda: subprocess.run(command, check=True, capture_output=True)


def _console_script() -> Path | None:
    """The installed command; None where it is not installed or does not run."""
    script = Path(sys.executable).with_name("driftline")
    if not script.exists():
        return None
    works = subprocess.run([script, "--help"], check=False, capture_output=True).returncode == 0
    return script if works else None


def _output(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return result.stdout.strip()


def _fits(repeats: int) -> dict[str, Times]:
    runs = [json.loads(_output(FITS)) for _ in range(repeats)]
    names = ("import JAX and simulate, T = 1,000", "first fit, 50 steps", "second fit, 50 steps")
    return {name: summarise(seconds) for name, seconds in zip(names, zip(*runs, strict=True), strict=True)}
