"""Independent Gaussians at every step: the baseline that ignores correlations in time."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false
# Two members of one family meet: each takes its own class where the base class takes any.
# pyright: reportIncompatibleMethodOverride=false

import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.families.base import AbstractFamily, mirror_step
from driftline.families.gauss_markov import GaussMarkov


class MeanField(AbstractFamily):
    r"""Gaussian with mean $\mu$ and a diagonal precision $\nu^2$: `GaussMarkov` with $\omega = 0$.

    Args:
        mean: Marginal means $\mu$.
        diag: Diagonal $\nu > 0$ of the factor, that is one over the standard deviations.
    """

    mean: Float[Array, " T *shape"]
    diag: Float[Array, " T *shape"]

    @classmethod
    def from_natural(
        cls, linear: Float[Array, " T *shape"], precision_diag: Float[Array, " T *shape"]
    ) -> "MeanField":
        r"""The member with natural parameters $\nu^2\mu$ and $\nu^2$."""
        return cls(linear / precision_diag, jnp.sqrt(precision_diag))

    def natural(self) -> tuple[Float[Array, " T *shape"], Float[Array, " T *shape"]]:
        r"""The natural parameters $\nu^2\mu$ and $\nu^2$."""
        precision = self.diag * self.diag
        return precision * self.mean, precision

    def banded(self) -> GaussMarkov:
        """See `AbstractFamily`: chains whose steps do not depend on each other."""
        return GaussMarkov(self.mean, self.diag, jnp.zeros_like(self.diag[1:]))

    def unwhiten(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return noise / self.diag

    def whiten(self, deviation: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return deviation * self.diag

    def whiten_transposed(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return noise * self.diag

    def log_det(self) -> Float[Array, ""]:
        """See `AbstractFamily`."""
        return jnp.sum(jnp.log(self.diag))

    def variances(self) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return 1.0 / (self.diag * self.diag)

    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """See `AbstractFamily`; all zero."""
        return jnp.zeros_like(self.diag[1:])

    def trace_with_precision_of(self, other: "MeanField") -> Float[Array, ""]:
        """See `AbstractFamily`."""
        return jnp.sum((other.diag / self.diag) ** 2)

    def pull_back(
        self, deviation: Float[Array, " T *shape"], score: Float[Array, " T *shape"]
    ) -> "MeanField":
        """See `AbstractFamily`."""
        return type(self)(score, -score / self.diag * deviation)

    def entropy_gradient(self) -> "MeanField":
        """See `AbstractFamily`."""
        return type(self)(jnp.zeros_like(self.mean), -1.0 / self.diag)

    def moved(self, step: "MeanField") -> "MeanField":
        """See `AbstractFamily`."""
        return type(self)(self.mean + step.mean, mirror_step(self.diag, step.diag))
