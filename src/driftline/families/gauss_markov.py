"""The paper's family: a Gaussian with a tridiagonal precision, one chain per element of `shape`."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false
# Two members of one family meet: each takes its own class where the base class takes any.
# pyright: reportIncompatibleMethodOverride=false

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from driftline.families.banded import AbstractBanded
from driftline.families.base import mirror_step
from driftline.families.moments import ChainMoments
from driftline.linalg import bidiagonal, tridiagonal


class GaussMarkov(AbstractBanded):
    r"""Gaussian with mean $\mu$ and precision $\Lambda = B^\top B$, $B$ upper bidiagonal.

    Args:
        mean: Marginal means $\mu$.
        diag: Diagonal $\nu > 0$ of the factor.
        upper: Superdiagonal $\omega$ of the factor.
    """

    mean: Float[Array, " T *shape"]
    diag: Float[Array, " T *shape"]
    upper: Float[Array, " T-1 *shape"]

    @classmethod
    def from_precision(
        cls,
        mean: Float[Array, " T *shape"],
        precision_diag: Float[Array, " T *shape"],
        precision_off: Float[Array, " T-1 *shape"],
    ) -> "GaussMarkov":
        """The member with a given tridiagonal precision; NaN where that is not positive definite."""
        return cls(mean, *tridiagonal.cholesky(precision_diag, precision_off))

    @classmethod
    def from_natural(
        cls,
        linear: Float[Array, " T *shape"],
        precision_diag: Float[Array, " T *shape"],
        precision_off: Float[Array, " T-1 *shape"],
    ) -> "GaussMarkov":
        r"""The member with natural parameters $\Lambda\mu$ and $\Lambda$."""
        diag, upper = tridiagonal.cholesky(precision_diag, precision_off)
        half = bidiagonal.solve_transposed(diag, upper, linear)
        return cls(bidiagonal.solve(diag, upper, half), diag, upper)

    @classmethod
    def from_moments(cls, moments: ChainMoments) -> "GaussMarkov":
        """See `AbstractBanded`."""
        slope = moments.between / moments.within[1:]
        rest = moments.within.at[:-1].add(-slope * moments.between)
        diag = 1.0 / jnp.sqrt(rest)
        return cls(moments.mean, diag, -diag[:-1] * slope)

    def precision(self) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
        r"""Diagonal and off-diagonal of $\Lambda$."""
        return tridiagonal.from_factor(self.diag, self.upper)

    def moments(self) -> ChainMoments:
        """See `AbstractBanded`."""
        return ChainMoments(self.mean, *tridiagonal.band_of_inverse(self.diag, self.upper))

    def natural(
        self,
    ) -> tuple[Float[Array, " T *shape"], Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
        r"""The natural parameters: $\Lambda\mu$, then diagonal and off-diagonal of $\Lambda$."""
        return (self.whiten_transposed(self.whiten(self.mean)), *self.precision())

    def at_steps(self, steps: Int[Array, " S"]) -> "GaussMarkov":
        """The density of some steps alone, in increasing order; it is a member again."""
        return type(self)(self.mean[steps], *bidiagonal.marginal_factor(self.diag, self.upper, steps))

    @staticmethod
    def noise_of_step(
        diag: Float[Array, "*shape"],
        upper: Float[Array, "*shape"],
        deviation: Float[Array, "*shape"],
        later: Float[Array, "*shape"],
    ) -> Float[Array, "*shape"]:
        """See `AbstractBanded`."""
        return diag * deviation + upper * later

    @staticmethod
    def deviation_of_step(
        diag: Float[Array, "*shape"],
        upper: Float[Array, "*shape"],
        noise: Float[Array, "*shape"],
        later: Float[Array, "*shape"],
    ) -> Float[Array, "*shape"]:
        """See `AbstractBanded`."""
        return (noise - upper * later) / diag

    def unwhiten(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return bidiagonal.solve(self.diag, self.upper, noise)

    def whiten(self, deviation: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return bidiagonal.matvec(self.diag, self.upper, deviation)

    def whiten_transposed(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return bidiagonal.matvec_transposed(self.diag, self.upper, noise)

    def log_det(self) -> Float[Array, ""]:
        """See `AbstractFamily`."""
        return jnp.sum(bidiagonal.log_det(self.diag))

    def variances(self) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return tridiagonal.band_of_inverse(self.diag, self.upper)[0]

    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """See `AbstractFamily`."""
        return tridiagonal.band_of_inverse(self.diag, self.upper)[1]

    def trace_with_precision_of(self, other: "GaussMarkov") -> Float[Array, ""]:
        """See `AbstractFamily`."""
        variances, lags = tridiagonal.band_of_inverse(self.diag, self.upper)
        diag, off = other.precision()
        return jnp.sum(diag * variances) + 2.0 * jnp.sum(off * lags)

    def pull_back(
        self, deviation: Float[Array, " T *shape"], score: Float[Array, " T *shape"]
    ) -> "GaussMarkov":
        """See `AbstractFamily`."""
        adjoint = bidiagonal.solve_transposed(self.diag, self.upper, score)
        return type(self)(score, -adjoint * deviation, -adjoint[:-1] * deviation[1:])

    def entropy_gradient(self) -> "GaussMarkov":
        """See `AbstractFamily`."""
        return type(self)(jnp.zeros_like(self.mean), -1.0 / self.diag, jnp.zeros_like(self.upper))

    def moved(self, step: "GaussMarkov") -> "GaussMarkov":
        """See `AbstractFamily`."""
        return type(self)(
            self.mean + step.mean,
            mirror_step(self.diag, step.diag),
            self.upper + self.diag[:-1] * step.upper,
        )
