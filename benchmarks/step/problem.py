"""The problem that is measured: one block of the package's own steps on a stochastic volatility model."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

import driftline as dl
from benchmarks.harness.measure import Compiled, compile_for
from driftline.infer.bbvi import adam
from driftline.infer.bbvi import optimise as bbvi
from driftline.infer.start import begin, starting_family, without_correlations
from driftline.models.observations import Observations, observe

jax.config.update("jax_enable_x64", True)  # the precision that `dl.fit` runs in

# With one draw a step, a rate of 0.05 throws a path of 10⁶ steps to where single precision overflows.
RATE = 0.01


class Problem(NamedTuple):
    """A model with data, and the state from which a fit would begin."""

    model: dl.Model
    observations: Observations
    state: bbvi.State
    basis: Any

    @property
    def num_steps(self) -> int:
        """Number of time steps."""
        return len(self.state.q.mean)

    def log_joint(self, path: jax.Array) -> jax.Array:
        """Log density of a path and the data."""
        return self.model.log_joint(path, self.observations)

    def block(self, samples: int = 1) -> tuple[Any, ...]:
        """Arguments of `bbvi._take_steps` for `bbvi.STEPS_PER_BLOCK` steps in one call."""
        rate = jnp.asarray(RATE, self.state.q.mean.dtype)
        return (
            self.state, self.basis, self.model, self.observations, jr.key(0), jnp.asarray(0), rate,
            samples, "analytic", bbvi.STEPS_PER_BLOCK,
        )  # fmt: skip


def compile_block(problem: Problem) -> Compiled:
    """A block of the package's own steps, which are seen to stay finite: NaN may not pass for work."""
    compiled = compile_for(bbvi._take_steps, *problem.block())
    _, report = compiled.run()
    if not np.isfinite(report.elbo).all():
        raise FloatingPointError(f"the steps to be timed diverge at T = {problem.num_steps:,}")
    return compiled


def volatility(num_steps: int, *, mean_field: bool = False, dtype: Any = jnp.float64) -> Problem:
    """Stochastic volatility: an AR(1) path, and observations whose log variance it is."""
    model = dl.Model(dl.AR1(mean=-1, decay=0.95, scale=0.3), dl.LogVolatility())
    _, values = model.simulate(num_steps, seed=1)
    observations = observe(values, np.ones(num_steps - 1), model.likelihood, model.prior.shape)
    q = starting_family(model, begin(model, observations), observations, "chains")
    q = without_correlations(q) if mean_field else q
    basis = bbvi._basis(model, observations, q, "standard")
    state = bbvi.State(q, adam.begin(q))
    return Problem(model, *_cast((observations, state, basis), dtype))


def _cast(tree, dtype):
    def one(leaf):
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(one, tree)
