"""NumPyro's side of the comparison of series: stochastic variational inference, and NUTS as the reference."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, init_to_value

from benchmarks.harness.measure import once
from benchmarks.series.guides import model_of, peer
from benchmarks.series.moments import exact_elbo
from benchmarks.series.problem import Problem

# What is tried: Adam's rate, and the share of it that is left at the end of a run.
TRIALS = ((0.01, 1.0), (0.01, 0.01), (0.03, 0.01), (0.1, 0.01))
SHARE_OF_TRIAL = 0.25  # of a run's budget
FEWEST_STEPS = 150  # within a run's budget, for a guide to be worth running
CHECKPOINTS = 40
MOST_DIAGNOSED = 500  # steps of the path whose effective sample size is worked out


def run_guide(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    """Tune the rate with a share of the budget for each trial, then run with several seeds."""
    contestant = _Contestant(problem, options["guide"])
    seconds, budget = contestant.seconds_per_step, options["budget"]
    if budget / seconds < FEWEST_STEPS:
        reason = f"one step takes {seconds:.2g} s, so that {FEWEST_STEPS} do not fit into {budget:g} s"
        return {"compile": contestant.compile, "iteration": seconds, "skipped": reason}
    steps = max(FEWEST_STEPS, int(budget / seconds))
    trials = [_best(contestant.run(int(SHARE_OF_TRIAL * steps), trial, seed=99)[0]) for trial in TRIALS]
    chosen = TRIALS[int(np.argmax(trials))]
    runs = [contestant.run(steps, chosen, seed) for seed in range(options["seeds"])]
    q = contestant.gaussian(runs[-1][1])
    return {
        "compile": contestant.compile, "iteration": seconds, "traces": [trace for trace, _ in runs],
        "elbos": [trace[-1][1] for trace, _ in runs], "mean": np.asarray(q.mean),
        "sd": np.sqrt(np.asarray(q.variance)), "detail": _described(*chosen), "steps": steps,
    }  # fmt: skip


def _described(rate, share):
    return f"{rate:g}" + (", constant" if share == 1 else f", falling to {share * rate:g}")


def _best(trace):
    elbos = np.array([elbo for _, elbo in trace])
    return np.max(np.where(np.isfinite(elbos), elbos, -np.inf))


class _Contestant:
    """A guide, compiled once for any rate and any number of steps."""

    def __init__(self, problem, guide):
        pair = peer(problem, guide)
        # The rate is read while a compiled call is traced, so that one program serves all rates.
        self._schedule: Any = None
        optimiser = numpyro.optim.Adam(lambda step: self._schedule(step))
        self._svi = SVI(pair.model, pair.guide, optimiser, Trace_ELBO(num_particles=1))
        self.gaussian = jax.jit(lambda state: pair.gaussian(self._svi.get_params(state)))
        elbo = exact_elbo(problem)
        self._elbo = jax.jit(lambda state: elbo(pair.gaussian(self._svi.get_params(state))))
        self._advance = jax.jit(self._steps, donate_argnums=0)
        self.compile = once(lambda: self._advance(self._begin(0), 1, 0.01, 1.0, 1.0))
        self.seconds_per_step = self._calibrated()

    def _steps(self, state, count, rate, share, horizon):
        self._schedule = lambda step: rate * share ** jnp.minimum(step / horizon, 1.0)
        return jax.lax.fori_loop(0, count, lambda _, state: self._svi.update(state)[0], state)

    def _begin(self, seed):
        return self._svi.init(jax.random.PRNGKey(seed))

    def _calibrated(self):
        count, seconds = 1, 0.0
        while seconds < 0.2:
            count *= 3
            seconds = self._seconds(count)
        return min(seconds, self._seconds(count)) / count

    def _seconds(self, count):
        state = jax.block_until_ready(self._begin(0))
        return once(lambda: self._advance(state, count, 0.01, 1.0, 1.0))

    def run(self, steps, trial, seed):
        """Pairs of seconds and ELBO at checkpoints, and the last state; ELBOs are off the clock."""
        marks = np.unique(np.geomspace(1, steps, CHECKPOINTS).astype(int))
        state, seconds, trace = jax.block_until_ready(self._begin(seed)), 0.0, []
        for count in np.diff(marks, prepend=0):
            began = time.perf_counter()
            state = jax.block_until_ready(self._advance(state, int(count), *trial, float(steps)))
            seconds += time.perf_counter() - began
            trace.append((seconds, float(self._elbo(state))))
        return trace, state


def run_nuts(problem: Problem, options: dict[str, Any]) -> dict[str, Any]:
    """Two chains, one after the other, and what they say of their own accuracy."""
    begin = init_to_value(values={"path": jnp.full(len(problem.values), problem.mean)})
    kernel = NUTS(model_of(problem), init_strategy=begin)
    chains = MCMC(
        kernel, num_warmup=options["warmup"], num_samples=options["draws"], num_chains=2,
        chain_method="sequential", progress_bar=False,
    )  # fmt: skip
    began = time.perf_counter()
    chains.run(jax.random.PRNGKey(0))
    draws = np.asarray(chains.get_samples(group_by_chain=True)["path"])
    seconds = time.perf_counter() - began
    some = draws[:, :, :: -(-draws.shape[2] // MOST_DIAGNOSED)]
    sizes, agreement = effective_sample_size(some), split_gelman_rubin(some)
    return {
        "fit": seconds, "mean": draws.mean((0, 1)), "sd": draws.std((0, 1), ddof=1),
        "ess": float(np.median(sizes)), "ess_least": float(np.min(sizes)), "r_hat": float(np.max(agreement)),
    }  # fmt: skip
