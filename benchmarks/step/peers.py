"""NumPyro's side of the comparison, written as fast as NumPyro allows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import lax
from numpyro.distributions import constraints
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal

from benchmarks.step.problem import RATE, Problem

GUIDES = {
    "NumPyro AutoDiagonalNormal": AutoDiagonalNormal,
    "NumPyro AutoMultivariateNormal": AutoMultivariateNormal,
}


def stochastic_steps(problem: Problem, guide: str, num_steps: int) -> tuple[Any, Any]:
    """A jitted function that takes steps of stochastic variational inference, and the state to begin from.

    The path is one vector-valued site and its density one factor, the very function that our own step
    differentiates, so that neither side pays for a loop over time or for a slower density.
    """
    shape = (problem.num_steps,)

    def model():
        path = numpyro.sample("path", dist.ImproperUniform(constraints.real_vector, (), shape))
        numpyro.factor("log_joint", problem.log_joint(jnp.asarray(path)))

    svi = SVI(model, GUIDES[guide](model), numpyro.optim.Adam(RATE), Trace_ELBO(num_particles=1))

    def take_steps(state):
        return lax.scan(lambda state, _: svi.update(state), state, length=num_steps)

    return jax.jit(take_steps), svi.init(jax.random.PRNGKey(0))
