"""Draws of the posterior itself: `post.refine()` beside NumPyro's NUTS, by effective draws a second."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import driftline as dl
from benchmarks.harness.report import Report, Table, more_than
from driftline.infer.sampling import mixing

RETURNS = Path(__file__).parents[3] / "shared" / "reference" / "stochastic_volatility_log_sp500.json"
NAMES = {"prior.mean": "mean", "prior.decay": "decay", "prior.scale": "scale"}
CHAINS, DRAWS, WARMUP = 4, 1000, 500
OUR_WARMUP = 300
CHAIN_METHODS = ("vectorized", "sequential")  # the faster first: a full run takes only that
COLUMNS = (
    "sampler", "chains", "draws of each", "warm-up", "first run, s", "second run, s", "its CPU seconds",
    "divergences", "largest r-hat", "fewest effective draws", "where", "effective draws a second",
    "a CPU second",
)  # fmt: skip
NOTES = (
    "float64, in one process, each sampler twice with seeds 0 and 1. Seconds of the second run, warm-up "
    "included, decide; ours include the fit. Effective draws are those of the bulk by "
    "`infer.sampling.mixing.effective_size` for both, the fewest over the three numbers and all steps.",
    "NumPyro's model has the same priors and is non-centred: the path is its mean plus an AR(1) of standard "
    "normal innovations. NUTS is as NumPyro has it by default. A quick run has chains one after the other, "
    "too, which is slower.",
)


class Run(NamedTuple):
    """Draws of path and numbers, (chains, draws, ...), and how many diverged."""

    draws: dict[str, np.ndarray]
    divergences: int


def run(*, quick: bool) -> Report:
    """Each sampler twice in this process, with another seed: the second run is compiled, and counts."""
    jax.config.update("jax_enable_x64", True)
    from benchmarks.series import refine_numpyro  # which must find double precision

    values = _returns()[: 200 if quick else None]
    chains, draws, warmup = (2, 100, 100) if quick else (CHAINS, DRAWS, WARMUP)
    rows = [
        ["driftline, fit and refine", chains, draws, OUR_WARMUP]
        + _measured(lambda seed: _ours(values, draws, chains, seed))
    ]
    for method in CHAIN_METHODS if quick else CHAIN_METHODS[:1]:
        peer = refine_numpyro.Sampler(values, warmup=warmup, draws=draws, chains=chains, chain_method=method)
        found = _measured(lambda seed, peer=peer: Run(*peer.run(seed)))
        rows.append([f"NumPyro NUTS, {method}", chains, draws, warmup, *found])
    goals = [
        more_than(
            f"{COLUMNS[column]}, ours / NumPyro's", rows[0][column] / max(row[column] for row in rows[1:]), 1
        )
        for column in (-2, -1)
    ]
    title = f"S&P 500, T = {len(values):,}, three unknown numbers"
    return Report("refine", [Table(title, COLUMNS, rows)], goals, NOTES)


def _returns() -> np.ndarray:
    if not RETURNS.exists():
        raise FileNotFoundError(f"the returns of the S&P 500 are not at {RETURNS}; put the file there")
    return np.array(json.loads(RETURNS.read_text())["x"])


def _ours(values: np.ndarray, draws: int, chains: int, seed: int) -> Run:
    post = dl.fit(dl.StochasticVolatility(), values, progress=False)
    found = post.refine(draws=draws, chains=chains, warmup=OUR_WARMUP, seed=seed, progress=False)
    numbers = {name: found.numbers[place] for place, name in NAMES.items()}
    return Run({**numbers, "path": found.draws}, found.divergences)


def _measured(sampler: Callable[[int], Run]) -> list[Any]:
    """What the table says of a sampler, from the seconds of its first run on."""
    first, _, _ = _timed(sampler, 0)
    seconds, cpu_seconds, found = _timed(sampler, 1)
    sizes = {name: float(mixing.effective_size(draws).min()) for name, draws in found.draws.items()}
    r_hat = max(float(mixing.r_hat(draws).max()) for draws in found.draws.values())
    least = min(sizes, key=lambda name: sizes[name])
    size = sizes[least]
    return [
        first, seconds, cpu_seconds, found.divergences, r_hat, size, least,
        size / seconds, size / cpu_seconds,
    ]  # fmt: skip


def _timed(sampler, seed):
    began, cpu_began = time.perf_counter(), time.process_time()
    found = sampler(seed)
    return time.perf_counter() - began, time.process_time() - cpu_began, found
