"""driftline beside its peers on latent time series: how soon, how near the optimum, how accurate."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.peer_env import ROOT, UnavailableError, interpreter
from benchmarks.harness.report import Report
from benchmarks.series.cases import cases
from benchmarks.series.plot import draw
from benchmarks.series.problem import VOLATILITY
from benchmarks.series.results import Match, Outcome
from benchmarks.series.tables import goals, tables

RESULTS = Path(__file__).parents[1] / "results"
TIMEOUT = 900  # seconds for one contestant on one series
OURS = ("newton", "bbvi")
NOTES: tuple[str, ...] = (
    "Float64; one process per contestant and series, one after the other; all ELBOs of Gaussians over the "
    "path by one and the same function, off the clock. Times are medians over seeds or repeats. Memory is "
    "the peak of the process beyond its imports; what the compiler takes is part of it.",
    "Clocks start when data and start are in place and everything is compiled. “Whole call” is what a user "
    "of `dl.fit` waits for the second time, checks and wrapping included; for smoothers and NUTS the whole "
    "run, NUTS with compilation.",
    "Guides: Adam, one draw per step, started at the prior's mean as we are; the best of 4 rates and "
    "schedules by the ELBO after a quarter of the budget, then the whole budget with each seed. "
    "“Non-centred” moves the noise that drives the prior instead of the path: what an expert would try.",
    "A rate that falls reaches its best when the budget ends, so that the ratio at a guide's own best grows "
    "with the budget that we chose; the time to 90 % of the climb from its first step does less so. The "
    "dense guide is far from done within the budget.",
    "Where newton's error of the mean is about the noise of NUTS, it cannot be told from zero.",
    "Volatility in dynamax: the mean of a return does not depend on the path, so that a filter of moments "
    "learns nothing from it; it is given log x² with its mean and variance (quasi-likelihood), where EKF and "
    "Gauss-Hermite are the same. cuthbert takes the log likelihood itself to second order.",
    "BayesNewton: Matérn-1/2 kernel, time in units of the length-scale, prior's mean inside the likelihood; "
    "one jitted `inference(lr=1)` per iteration, its ELBO not on the clock (ours is part of an iteration). "
    "As shipped it takes expectations of these likelihoods by 20 points of quadrature, where driftline has "
    "them in closed form; the column beside it gives BayesNewton the closed form too.",
    "driftline newton and BayesNewton are deterministic: five repeats stand for five seeds.",
    "numpyro 0.22.0, dynamax 1.0.3, cuthbert 0.1.1 and arch 8.0.0 with driftline's own JAX; bayesnewton "
    "1.3.4 with jax 0.4.13.",
)


def run(*, quick: bool) -> Report:
    """Run everyone on everything; who cannot be installed or fails is named in a note."""
    notes = [*NOTES]
    pythons = {name: _python(name, notes) for name in ("series", "bayesnewton")}
    with tempfile.TemporaryDirectory(prefix="driftline-peers-") as directory:
        file = Path(directory) / "problem.npz"
        matches = [_match(case, pythons, file, notes) for case in cases(quick=quick)]
    matches = [match for match in matches if match is not None]
    notes += _plot(matches, quick)
    return Report("peers_series", tables(matches), goals(matches), notes)


def _match(case, pythons, file, notes) -> Match | None:
    """All contestants on one series; None where there are no data or nobody could run."""
    reason = _make(case, pythons["series"], file)
    if reason:
        notes.append(f"{case.name}: not measured because {reason}.")
        return None
    outcomes = {name: _outcome(pythons, kind, file, options) for name, kind, options in case.tasks()}
    failed = {name: outcome.reason for name, outcome in outcomes.items() if outcome.reason}
    notes += case.left_out()
    notes += [f"{case.name}: {name} not measured because {reason}." for name, reason in failed.items()]
    return Match(case, outcomes) if len(failed) < len(outcomes) else None


def _python(name, notes) -> Path | None:
    try:
        return interpreter(name)
    except UnavailableError as error:
        notes.append(f"The environment {name!r} could not be built: {error}.")
        return None


def _make(case, python, file) -> str:
    """Write a problem; returns why that was not possible.

    A process of its own does it: one that has loaded JAX would hand its peak of memory on to all that it
    starts.
    """
    python = python if case.kind == VOLATILITY else sys.executable  # returns come with a peer's package
    if python is None:
        return "its data come with a package that could not be installed"
    arguments = [case.kind, str(case.num_steps), str(file)]
    done = _process([str(python), "-m", "benchmarks.series.problem", *arguments])
    return _last(done.stderr) if done.returncode else ""


def _outcome(pythons, kind: str, problem: Path, options: dict[str, Any]) -> Outcome:
    """Run one contestant in a process of its own."""
    name = "bayesnewton" if kind == "bayesnewton" else "series"
    python = sys.executable if kind in OURS else pythons[name]
    if python is None:
        return Outcome({}, reason="its environment could not be built")
    out = problem.with_name("result.npz")
    out.unlink(missing_ok=True)
    if kind == "bayesnewton":
        script = Path(__file__).with_name("bayesnewton_smoother.py")
        command = [str(python), "-P", str(script), str(problem), str(out), str(options["seeds"])]
    else:
        command = [str(python), "-m", "benchmarks.series.worker", kind, str(problem), str(out)]
        command.append(json.dumps(options))
    print(kind, options, file=sys.stderr, flush=True)
    try:
        done = _process(command)
    except subprocess.TimeoutExpired:
        return Outcome({}, reason=f"it took more than {TIMEOUT} s")
    if done.returncode != 0:
        return Outcome({}, reason=f"it failed: {_last(done.stderr)}")
    measured = json.loads(done.stdout.splitlines()[-1])
    if "skipped" in measured:
        return Outcome(measured, reason=measured["skipped"])
    with np.load(out) as arrays:
        return Outcome(measured, arrays["mean"], arrays["sd"])


def _process(command):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=TIMEOUT, env=environment
    )


def _last(text):
    lines = text.strip().splitlines()
    return lines[-1].rstrip(".") if lines else "it ended without a word"


def _plot(matches, quick) -> list[str]:
    """Two panels: real returns and the counts that are long enough to tell contestants apart."""
    chosen = [match for match in matches if match.case.name.startswith("S&P")][:1]
    rest = [match for match in matches if match not in chosen]
    chosen += [match for match in rest if "1,000" in match.case.name][:1] or rest[:1]
    if not chosen:
        return []
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / ("peers_series-quick.png" if quick else "peers_series.png")
    try:
        draw(chosen, file)
    except ImportError as error:
        return [f"No plot: {error}."]
    return [f"Plot: `results/{file.name}`."]
