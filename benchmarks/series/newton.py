"""The default method at work: long series, many series, and the very first call."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.harness.measure import slope
from benchmarks.harness.report import Report, Table, at_most, between, more_than

SIZES = (10_000, 100_000, 1_000_000)
SERIES, STEPS = 10_000, 200
LENGTH = 5_030  # of the series whose first fit is timed
LONG = """
import json, resource, sys, time
import driftline as dl
size, repeats = int(sys.argv[1]), int(sys.argv[2])
model = dl.Model(dl.AR1(mean=-1, decay=0.95, scale=0.3), dl.LogVolatility())
_, x = model.simulate(size, seed=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
seconds = []
for _ in range(1 + repeats):
    start = time.perf_counter()
    post = dl.fit(model, x, progress=False)
    seconds.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([post.iterations, post.converged, seconds[0], min(seconds[1:]), peak * 1024, before * 1024]))
"""
MANY = """
import json, sys, time
import numpy as np
import driftline as dl
count, steps, repeats = (int(word) for word in sys.argv[1:4])
model = dl.Model(dl.AR1(mean=1.0, decay=0.95, scale=0.2), dl.Poisson())
_, some = dl.Model(dl.AR1(1.0, 0.95, 0.2, shape=(count,)), dl.Poisson()).simulate(steps, seed=1)

def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start

def loop(first, last):
    for i in range(first, last):
        dl.fit(model, some[:, i], progress=False)

loop(0, 3)
panel, alone = [], []
timed(lambda: dl.fit(model, some, progress=False))
for turn in range(repeats):
    panel.append(timed(lambda: dl.fit(model, some, progress=False)))
    first = turn * 100 % (count - 100)
    alone.append(timed(lambda: loop(first, first + 100)) / 100)
print(json.dumps([min(panel), min(alone)]))
"""
FIRST = """
import json, sys, time
import driftline as dl
model = dl.Model(dl.AR1(mean=-1, decay=0.95, scale=0.3), dl.LogVolatility())
_, x = model.simulate(int(sys.argv[1]), seed=1)
start = time.perf_counter()
dl.fit(model, x, progress=False)
print(json.dumps(time.perf_counter() - start))
"""
FIRST_NUMPYRO = """
import json, sys, time
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
import numpyro, numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoDiagonalNormal
import driftline as dl
_, x = dl.Model(dl.AR1(mean=-1, decay=0.95, scale=0.3), dl.LogVolatility()).simulate(int(sys.argv[1]), seed=1)
x = jnp.asarray(x)

def model():
    first = numpyro.sample("first", dist.Normal(-1.0, 0.3 / jnp.sqrt(1 - 0.95**2)))
    noise = numpyro.sample("noise", dist.Normal().expand([len(x) - 1]).to_event(1))
    def step(z, noise):
        z = -1.0 + 0.95 * (z + 1.0) + 0.3 * noise
        return z, z
    _, rest = jax.lax.scan(step, first, noise)
    path = jnp.concatenate([first[None], rest])
    numpyro.sample("x", dist.Normal(0.0, jnp.exp(0.5 * path)), obs=x)

start = time.perf_counter()
svi = SVI(model, AutoDiagonalNormal(model), numpyro.optim.Adam(0.01), Trace_ELBO())
state = svi.init(jax.random.PRNGKey(0))
jax.block_until_ready(jax.jit(svi.update)(state))
print(json.dumps(time.perf_counter() - start))
"""
NOTES = (
    "Stochastic volatility with fixed numbers, float64; every row in a process of its own. Seconds of a fit "
    "are those of the whole call to `dl.fit`, checks and copies included; the best of several after the "
    "first. The exponent is by the length that is fitted, which is T filled up to a power of two: 1.64 times "
    "10⁴ and 1.05 times 10⁶.",
    f"Panel: {SERIES:,} series of {STEPS} counts in one call; the loop calls `dl.fit` for 100 of them, in "
    "turns with the panel. Both are compiled before.",
    f"First call, T = {LENGTH:,}, compilation included: `dl.fit` to convergence, beside an SVI object with "
    "NumPyro's AutoDiagonalNormal, its `init` and one compiled `update`. Fresh processes in turns, the best.",
)


def run(*, quick: bool) -> Report:
    """Measure all three, each in fresh processes."""
    sizes, repeats = (SIZES[:2], 2) if quick else (SIZES, 4)
    rows, times = [], []
    for size in sizes:
        iterations, converged, first, later, peak, before = _child(LONG, size, repeats)
        rows.append(
            [size, iterations, converged, first, later, 1e3 * later / iterations, peak / 1e9, before / 1e9]
        )
        times.append(later / iterations)
    count = 500 if quick else SERIES
    together, alone = _child(MANY, count, STEPS, 2 if quick else 5)
    ours, theirs = [], []
    for _ in range(1 if quick else 3):
        ours.append(_child(FIRST, LENGTH))
        theirs.append(_child(FIRST_NUMPYRO, LENGTH))
    columns = (
        "T", "iterations", "converged", "first call, s", "later call, s", "ms per iteration", "peak, GB",
        "before the fit, GB",
    )  # fmt: skip
    panel = [["one call", 1e3 * together / count], ["loop of single fits", 1e3 * alone]]
    first = [["driftline, a whole fit", min(ours)], ["NumPyro, one step", min(theirs)]]
    exponent = slope([_filled(size) for size in sizes], times)
    goals = [
        at_most("most iterations", max(row[1] for row in rows), 30),
        at_most("peak memory, GB", max(row[6] for row in rows), 4),
        between("exponent of the time of an iteration", exponent, 0.85, 1.15),
        more_than(f"loop / panel, {count:,} series", alone * count / together, 50),
        at_most("first fit / NumPyro's first step", min(ours) / min(theirs), 3),
    ]
    tables = [
        Table("Long series", columns, rows),
        Table(f"Many series: {count:,} of {STEPS} steps", ["how", "ms per series"], panel),
        Table("The first call", ["what", "seconds"], first),
    ]
    return Report("newton", tables, goals, NOTES)


def _filled(num_steps):
    return 1 << (num_steps - 1).bit_length()


def _child(code: str, *words: Any) -> Any:
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, words)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
