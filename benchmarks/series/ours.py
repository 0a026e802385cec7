"""driftline's side of the comparison of series: natural-gradient steps, and the paper's stochastic ones."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import driftline as dl
from benchmarks.harness.measure import once
from benchmarks.series.moments import observations_of
from benchmarks.series.problem import Problem
from driftline.infer import newton, start
from driftline.infer.bbvi import optimise as bbvi
from driftline.models.padding import pad

MOST_ITERATIONS = 16
WARM, LONG = 10, 40  # iterations of the two runs whose difference is the time of one
NEVER = -1.0  # a tolerance that no rise of the ELBO is below


def run_newton(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    """Time whole fits, single iterations, and how near the optimum every iteration comes."""
    model, values, repeats = problem.model, problem.values, options["seeds"]
    first = once(lambda: _fit(model, values[::-1]))  # compiles; other data, equal length
    fits = [once(lambda: _fit(model, values)) for _ in range(repeats)]
    with jax.enable_x64(True):
        set_up = min(once(lambda: _start(problem)) for _ in range(repeats))
        started = _start(problem)
        runs = [_trace(started) for _ in range(repeats + 1)]
        seconds = _iteration(started, repeats)
    post = _fit(model, values, tolerance=1e-9)
    return {
        "compile": first - min(fits), "fit": float(np.median(fits)), "set_up": set_up, "iteration": seconds,
        "traces": runs[1:],  # the first run compiles
        "elbos": [post.elbo], "mean": post.mean, "sd": post.sd,
    }  # fmt: skip


def _fit(model, values, **options):
    return dl.fit(model, values, progress=False, **options)


def _start(problem):
    """What a fit does before its first compiled call of the method: data, checks, where to begin."""
    model = problem.model
    observations = pad(observations_of(problem), model.likelihood)
    q = start.starting_family(model, start.begin(model, observations), observations, "chains")
    return q, model, observations


def _trace(started):
    """Runs of more and more iterations; noise must not let a longer one seem faster than a shorter one."""
    runs = np.array([_until(started, limit) for limit in range(MOST_ITERATIONS)])
    return list(zip(np.maximum.accumulate(runs[:, 0]).tolist(), runs[:, 1].tolist(), strict=True))


def _until(started, limit):
    """Seconds until the end of some iterations, the first look at the model included, and the ELBO then."""
    began = time.perf_counter()
    q, model, observations = started
    state = newton.begin(q, model, observations)
    state = newton.iterate(state, model, observations, jnp.asarray(limit), jnp.asarray(1e-9))
    elbo = float(state.elbo)  # waits for the result
    return time.perf_counter() - began, elbo


def _iteration(started, repeats):
    q, model, observations = started
    state = newton.begin(q, model, observations)

    def run(limit):
        return newton.iterate(state, model, observations, jnp.asarray(limit), jnp.asarray(NEVER))

    iterations = [int(run(limit).iteration) for limit in (WARM, LONG)]
    short, long = (min(once(lambda n=n: run(n)) for _ in range(2 * repeats)) for n in (WARM, LONG))
    return (long - short) / (iterations[1] - iterations[0])


def run_bbvi(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    """Time fits with several seeds, and keep how near the optimum they were on their way."""
    model, values = problem.model, problem.values
    short = {"method": "bbvi", "max_iterations": 5 * bbvi.STEPS_PER_BLOCK}
    first, second = (once(lambda: _fit(model, values[::-1], **short)) for _ in range(2))
    traces, fits, post, steps = [], [], None, 1
    for seed in range(options["seeds"]):
        began = time.perf_counter()
        with _Recorder() as recorder:
            post = _fit(model, values, method="bbvi", seed=seed)
        fits.append(time.perf_counter() - began)
        steps = recorder.count * bbvi.STEPS_PER_BLOCK
        with jax.enable_x64(True):
            observations = observations_of(problem)
            places = [(at - began, held) for at, held in recorder.seen] + [(fits[-1], [post.q])]
            traces.append([(at, max(_elbo(q, model, observations) for q in held)) for at, held in places])
    assert post is not None
    return {
        "compile": first - second, "fit": float(np.median(fits)), "iteration": fits[-1] / steps,
        "traces": traces, "elbos": [trace[-1][1] for trace in traces], "mean": post.mean, "sd": post.sd,
    }  # fmt: skip


def _elbo(q, model, observations):
    return float(newton.begin(q, model, observations).elbo)


class _Recorder:
    """Notes, more and more rarely, when blocks of steps end and what the fit would return if interrupted.

    `dl.fit` tells its caller only a noisy ELBO; what the exact one was is worked out after the clock stops.
    """

    def __init__(self):
        self.count, self.seen, self._last, self._advance = 0, [], 0, bbvi._Run.advance

    def __enter__(self):
        advance = self._advance

        def recording(run, state, basis, rate):
            result = advance(run, state, basis, rate)
            self.count += 1
            if self.count >= 1.1 * self._last:
                self._last = self.count
                self.seen.append(
                    (time.perf_counter(), [q for q in (result[1], run.average) if q is not None])
                )
            return result

        bbvi._Run.advance = recording  # pyright: ignore[reportAttributeAccessIssue]
        return self

    def __exit__(self, *_):
        bbvi._Run.advance = self._advance
