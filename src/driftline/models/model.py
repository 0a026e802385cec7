"""A model: a Markov prior over paths and a likelihood at each step."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.abstract_prior import AbstractPrior
from driftline.models.function_likelihood import Likelihood
from driftline.models.observations import Observations, as_times
from driftline.models.parameters import at_start, ties_of


class Model(eqx.Module):
    r"""The joint density $\log p(x, z) = \log p(z) + \sum_t \log p(x_t \mid z_t)$ (eq. 1).

    Args:
        prior: `RandomWalk`, `AR1`, `OrnsteinUhlenbeck`, `Diffusion` or `MarkovPrior`.
        likelihood: One of the likelihoods of this package, or any function `log_density(x_t, z_t)`.

    Example:
        >>> import driftline as dl
        >>> model = dl.Model(dl.RandomWalk(scale=0.1), dl.Poisson())
        >>> path, counts = model.simulate(100, seed=1)
    """

    prior: AbstractPrior
    likelihood: AbstractLikelihood
    ties: tuple[tuple[str, ...], ...] = eqx.field(
        static=True, repr=False
    )  # places that share a learnt number

    def __init__(self, prior, likelihood):
        for name, part in {"prior": prior, "likelihood": likelihood}.items():
            if isinstance(part, type) and issubclass(part, AbstractPrior | AbstractLikelihood):
                raise TypeError(
                    f"Model({name}=...) got the class {part.__name__}; call it, as in {part.__name__}()"
                )
        if not isinstance(prior, AbstractPrior):
            raise TypeError(
                f"Model(prior=...) takes one of driftline's priors, got {prior!r}; "
                "use MarkovPrior(initial=..., transition=...) for one of your own"
            )
        if not isinstance(likelihood, AbstractLikelihood):
            likelihood = Likelihood(likelihood)
        self.prior = prior
        self.likelihood = likelihood
        self.ties = ties_of(prior, likelihood)

    def log_prior(self, path: Float[Array, " T *shape"], observations: Observations) -> Float[Array, ""]:
        """Log density of a path before anything is seen."""
        return self.prior.log_prob(path, observations.gaps)

    def log_likelihoods(
        self, path: Float[Array, " T *shape"], observations: Observations
    ) -> Float[Array, " T *data"]:
        """Log density of every datum given the path; zero where nothing was observed."""
        path = _held_where_unseen(path, observations)
        terms = self.likelihood.terms(observations.values.astype(path.dtype), path)
        return jnp.where(observations.observed, terms, jnp.zeros_like(terms))

    def expected_log_likelihoods(
        self,
        mean: Float[Array, " T *shape"],
        variance: Float[Array, " T *shape"],
        observations: Observations,
    ) -> Float[Array, " T *shape"] | None:
        """Expectations of `log_likelihoods` for a Gaussian path; None where there is no closed form."""
        mean, variance = (_held_where_unseen(part, observations) for part in (mean, variance))
        terms = self.likelihood.expected_terms(observations.values.astype(mean.dtype), mean, variance)
        return None if terms is None else jnp.where(observations.observed, terms, jnp.zeros_like(terms))

    def log_joint(self, path: Float[Array, " T *shape"], observations: Observations) -> Float[Array, ""]:
        """Log density of path and observations together, with all constants."""
        likelihood = jnp.sum(self.log_likelihoods(path, observations))
        return self.log_prior(path, observations) + likelihood

    def simulate(
        self, num_steps: int | None = None, *, times: Any = None, seed: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw a path and observations of it; numbers to be learnt are taken at their start.

        Args:
            num_steps: Number of steps at equal distances; or
            times: the times of the steps, numbers or dates.
            seed: The same seed gives the same numbers.

        Returns:
            The path and the observations, each with time first.
        """
        if (num_steps is None) == (times is None):
            raise ValueError("simulate takes either a number of steps or times=...")
        num_steps = len(times) if num_steps is None else num_steps
        if num_steps < 1:
            raise ValueError(f"simulate needs at least one step, got {num_steps}")
        _, gaps, _ = as_times(times, None, num_steps)
        key_path, key_data = jr.split(jr.key(seed))
        model = at_start(self)
        with jax.enable_x64(True):
            path = model.prior.simulate(key_path, jnp.asarray(gaps))
            return np.array(path), np.array(model.likelihood.simulate(key_data, path))


def _held_where_unseen(path, observations):
    """A likelihood whose derivative is not finite where nothing was seen must not spoil the gradient."""
    observed = observations.observed
    steps = observed.reshape(observed.shape + (1,) * (path.ndim - observed.ndim))
    return jnp.where(steps, path, jax.lax.stop_gradient(path))
