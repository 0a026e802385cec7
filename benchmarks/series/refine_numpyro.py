"""NumPyro's side of the comparison of samplers: NUTS on stochastic volatility, non-centred."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

UNROLLED = 16  # steps of the recursion to a turn of its loop: several times faster than one


def model(values: Any) -> None:
    """Stochastic volatility with three unknown numbers, and the priors of `dl.StochasticVolatility`.

    The path is its mean plus an AR(1) of standard normal innovations. Given the numbers these hardly depend
    on them, so that NUTS is spared the funnel of scale and path.
    """
    mean = numpyro.sample("mean", dist.Cauchy(0.0, 5.0))
    decay = 2.0 * jnp.asarray(numpyro.sample("share", dist.Beta(20.0, 1.5))) - 1.0
    scale = jnp.asarray(numpyro.sample("scale", dist.HalfCauchy(2.0)))
    noise = jnp.asarray(numpyro.sample("noise", dist.Normal().expand([len(values)]).to_event(1)))
    first = noise[0] / jnp.sqrt(1.0 - decay**2)

    def step(before, noise):
        now = decay * before + noise
        return now, now

    _, rest = jax.lax.scan(step, first, noise[1:], unroll=UNROLLED)
    path = mean + scale * jnp.concatenate([first[None], rest])
    numpyro.deterministic("decay", decay)
    numpyro.deterministic("path", path)
    numpyro.sample("values", dist.Normal(0.0, jnp.exp(0.5 * path)), obs=values)


class Sampler:
    """Chains that are compiled by their first run.

    Args:
        values: The returns.
        warmup: Draws of every chain that are thrown away.
        draws: Draws of every chain that are kept.
        chains: How many.
        chain_method: "vectorized" or "sequential".
    """

    def __init__(self, values: np.ndarray, *, warmup: int, draws: int, chains: int, chain_method: str):
        self._values = jnp.asarray(values)
        self._chains = MCMC(
            NUTS(model), num_warmup=warmup, num_samples=draws, num_chains=chains,
            chain_method=chain_method, progress_bar=False,
        )  # fmt: skip

    def run(self, seed: int) -> tuple[dict[str, np.ndarray], int]:
        """The draws of path and numbers, (chains, draws, ...), and how many diverged."""
        self._chains.run(jax.random.PRNGKey(seed), self._values)
        drawn = self._chains.get_samples(group_by_chain=True)
        draws = {name: np.asarray(drawn[name]) for name in ("mean", "decay", "scale", "path")}
        return draws, int(np.sum(self._chains.get_extra_fields()["diverging"]))
