"""A Gaussian with a dense precision: O(T²) memory, the baseline and oracle for short series."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false
# Two members of one family meet: each takes its own class where the base class takes any.
# pyright: reportIncompatibleMethodOverride=false

from typing import NoReturn, cast

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from driftline.families.base import AbstractFamily, mirror_step
from driftline.linalg import small


class FullRank(AbstractFamily):
    r"""Gaussian with precision $B^\top B$, $B$ upper triangular over all N = T·prod(shape) numbers.

    Args:
        mean: Marginal means.
        factor: Upper triangular factor with a positive diagonal; entries below it are ignored.
    """

    mean: Float[Array, " T *shape"]
    factor: Float[Array, " N N"]

    @classmethod
    def from_natural(cls, linear: Float[Array, " T *shape"], precision: Float[Array, " N N"]) -> "FullRank":
        r"""The member with natural parameters $\Lambda\mu$ and $\Lambda$."""
        mean = cast(Array, jnp.linalg.solve(precision, linear.reshape(-1)))
        factor = cast(Array, jnp.linalg.cholesky(precision)).mT
        return cls(mean.reshape(linear.shape), factor)

    def natural(self) -> tuple[Float[Array, " T *shape"], Float[Array, " N N"]]:
        r"""The natural parameters $\Lambda\mu$ and $\Lambda$."""
        factor = jnp.triu(self.factor)
        precision = factor.mT @ factor
        return (precision @ self.mean.reshape(-1)).reshape(self.mean.shape), precision

    def banded(self) -> NoReturn:
        """See `AbstractFamily`; refused."""
        raise TypeError("a FullRank precision is dense and has no band; fit the path in chains or blocks")

    def unwhiten(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return solve_triangular(self.factor, noise.reshape(-1)).reshape(noise.shape)

    def whiten(self, deviation: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return (jnp.triu(self.factor) @ deviation.reshape(-1)).reshape(deviation.shape)

    def whiten_transposed(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return (jnp.triu(self.factor).mT @ noise.reshape(-1)).reshape(noise.shape)

    def log_det(self) -> Float[Array, ""]:
        """See `AbstractFamily`."""
        return jnp.sum(jnp.log(small.diagonals(self.factor)))

    def covariance(self) -> Float[Array, " N N"]:
        """The dense covariance."""
        inverse = solve_triangular(self.factor, jnp.eye(len(self.factor), dtype=self.factor.dtype))
        return inverse @ inverse.mT

    def variances(self) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return small.diagonals(self.covariance()).reshape(self.mean.shape)

    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """See `AbstractFamily`."""
        lag = self.mean[0].size
        return jnp.diag(self.covariance(), lag).reshape(-1, *self.mean.shape[1:])

    def trace_with_precision_of(self, other: "FullRank") -> Float[Array, ""]:
        """See `AbstractFamily`."""
        return jnp.sum(other.natural()[1] * self.covariance())

    def pull_back(self, deviation: Float[Array, " T *shape"], score: Float[Array, " T *shape"]) -> "FullRank":
        """See `AbstractFamily`."""
        adjoint = solve_triangular(self.factor, score.reshape(-1), trans="T")
        return type(self)(score, -jnp.triu(jnp.outer(adjoint, deviation.reshape(-1))))

    def entropy_gradient(self) -> "FullRank":
        """See `AbstractFamily`."""
        return type(self)(jnp.zeros_like(self.mean), -jnp.diag(1.0 / small.diagonals(self.factor)))

    def moved(self, step: "FullRank") -> "FullRank":
        """See `AbstractFamily`; a row of the factor moves in units of its diagonal entry."""
        pivots = small.diagonals(self.factor)
        above = jnp.triu(self.factor + pivots[:, None] * step.factor, 1)
        diag = mirror_step(pivots, small.diagonals(step.factor))
        return type(self)(self.mean + step.mean, above + jnp.diag(diag))
