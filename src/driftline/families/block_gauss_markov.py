"""A Gaussian with a block tridiagonal precision: one chain whose blocks couple all components of a step."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false
# Two members of one family meet: each takes its own class where the base class takes any.
# pyright: reportIncompatibleMethodOverride=false

import math
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from driftline.families.banded import AbstractBanded
from driftline.families.base import mirror_step
from driftline.families.moments import BlockMoments
from driftline.linalg import block_bidiagonal, block_tridiagonal, small


class BlockGaussMarkov(AbstractBanded):
    r"""Gaussian with precision $\Lambda = B^\top B$, $B$ upper block bidiagonal, D = prod(shape).

    Args:
        mean: Marginal means.
        diag: Upper triangular blocks $N_t$ with positive diagonals; entries below them are ignored.
        upper: Blocks $W_t$ that couple step t with step t+1.
    """

    mean: Float[Array, " T *shape"]
    diag: Float[Array, " T D D"]
    upper: Float[Array, " T-1 D D"]
    structure: ClassVar[str] = "block"

    @classmethod
    def from_precision(
        cls,
        mean: Float[Array, " T *shape"],
        precision_diag: Float[Array, " T D D"],
        precision_off: Float[Array, " T-1 D D"],
    ) -> "BlockGaussMarkov":
        """The member with a given block tridiagonal precision; NaN where that is not positive definite."""
        return cls(mean, *block_tridiagonal.cholesky(precision_diag, precision_off))

    @classmethod
    def from_natural(
        cls,
        linear: Float[Array, " T *shape"],
        precision_diag: Float[Array, " T D D"],
        precision_off: Float[Array, " T-1 D D"],
    ) -> "BlockGaussMarkov":
        r"""The member with natural parameters $\Lambda\mu$ and $\Lambda$."""
        diag, upper = block_tridiagonal.cholesky(precision_diag, precision_off)
        half = block_bidiagonal.solve_transposed(diag, upper, _flat(linear))
        mean = block_bidiagonal.solve(diag, upper, half)
        return cls(mean.reshape(linear.shape), diag, upper)

    @classmethod
    def from_moments(cls, moments: BlockMoments) -> "BlockGaussMarkov":
        """See `AbstractBanded`."""
        within, between = moments.within, moments.between
        slope = small.solve_positive(within[1:], between.mT).mT
        rest = within.at[:-1].add(-slope @ between.mT)
        identity = jnp.broadcast_to(jnp.eye(rest.shape[-1], dtype=rest.dtype), rest.shape)
        diag = small.cholesky(small.solve_positive(rest, identity)).mT
        return cls(moments.mean, diag, -diag[:-1] @ slope)

    def precision(self) -> tuple[Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
        r"""Diagonal and off-diagonal blocks of $\Lambda$."""
        return block_tridiagonal.from_factor(self.diag, self.upper)

    def moments(self) -> BlockMoments:
        """See `AbstractBanded`."""
        return BlockMoments(self.mean, *self.covariances())

    def natural(
        self,
    ) -> tuple[Float[Array, " T *shape"], Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
        r"""The natural parameters: $\Lambda\mu$, then diagonal and off-diagonal blocks of $\Lambda$."""
        return (self.whiten_transposed(self.whiten(self.mean)), *self.precision())

    def at_steps(self, steps: Int[Array, " S"]) -> "BlockGaussMarkov":
        """The density of some steps alone, in increasing order; it is a member again."""
        return type(self)(self.mean[steps], *block_tridiagonal.marginal_factor(self.diag, self.upper, steps))

    @staticmethod
    def noise_of_step(
        diag: Float[Array, " D D"],
        upper: Float[Array, " D D"],
        deviation: Float[Array, "*shape"],
        later: Float[Array, "*shape"],
    ) -> Float[Array, "*shape"]:
        """See `AbstractBanded`."""
        noise = jnp.triu(diag) @ deviation.ravel() + upper @ later.ravel()
        return noise.reshape(deviation.shape)

    @staticmethod
    def deviation_of_step(
        diag: Float[Array, " D D"],
        upper: Float[Array, " D D"],
        noise: Float[Array, "*shape"],
        later: Float[Array, "*shape"],
    ) -> Float[Array, "*shape"]:
        """See `AbstractBanded`."""
        rhs = noise.ravel() - upper @ later.ravel()
        return small.solve_upper(diag, rhs[:, None]).reshape(noise.shape)

    def unwhiten(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return block_bidiagonal.solve(self.diag, self.upper, _flat(noise)).reshape(noise.shape)

    def whiten(self, deviation: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        product = block_bidiagonal.matvec(jnp.triu(self.diag), self.upper, _flat(deviation))
        return product.reshape(deviation.shape)

    def whiten_transposed(self, noise: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        product = block_bidiagonal.matvec_transposed(jnp.triu(self.diag), self.upper, _flat(noise))
        return product.reshape(noise.shape)

    def log_det(self) -> Float[Array, ""]:
        """See `AbstractFamily`."""
        return block_bidiagonal.log_det(self.diag)

    def covariances(self) -> tuple[Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
        """Covariance blocks within each step, and between each step and the next."""
        return block_tridiagonal.band_of_inverse(self.diag, self.upper)

    def variances(self) -> Float[Array, " T *shape"]:
        """See `AbstractFamily`."""
        return self._diagonals(self.covariances()[0])

    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """See `AbstractFamily`."""
        return self._diagonals(self.covariances()[1])

    def trace_with_precision_of(self, other: "BlockGaussMarkov") -> Float[Array, ""]:
        """See `AbstractFamily`."""
        within, between = self.covariances()
        diag, off = other.precision()
        return jnp.sum(diag * within) + 2.0 * jnp.sum(off * between)

    def pull_back(
        self, deviation: Float[Array, " T *shape"], score: Float[Array, " T *shape"]
    ) -> "BlockGaussMarkov":
        """See `AbstractFamily`."""
        adjoint = block_bidiagonal.solve_transposed(self.diag, self.upper, _flat(score))
        flat = _flat(deviation)
        diag = -jnp.triu(adjoint[:, :, None] * flat[:, None, :])
        return type(self)(score, diag, -adjoint[:-1, :, None] * flat[1:, None, :])

    def entropy_gradient(self) -> "BlockGaussMarkov":
        """See `AbstractFamily`."""
        pivots = small.diagonals(self.diag)
        diag = -(1.0 / pivots)[:, :, None] * jnp.eye(pivots.shape[1], dtype=pivots.dtype)[None]
        return type(self)(jnp.zeros_like(self.mean), diag, jnp.zeros_like(self.upper))

    def moved(self, step: "BlockGaussMarkov") -> "BlockGaussMarkov":
        """See `AbstractFamily`; a row of the factor moves in units of its diagonal entry."""
        pivots = small.diagonals(self.diag)
        pivot_steps = small.diagonals(step.diag)
        identity = jnp.eye(pivots.shape[1], dtype=pivots.dtype)[None]
        above = jnp.triu(self.diag + pivots[:, :, None] * step.diag, 1)
        diag = above + mirror_step(pivots, pivot_steps)[:, :, None] * identity
        upper = self.upper + pivots[:-1, :, None] * step.upper
        return type(self)(self.mean + step.mean, diag, upper)

    def _diagonals(self, blocks: Float[Array, " K D D"]) -> Float[Array, " K *shape"]:
        return small.diagonals(blocks).reshape(-1, *self.mean.shape[1:])


def _flat(path: Float[Array, " T *shape"]) -> Float[Array, " T D"]:
    return path.reshape(len(path), math.prod(path.shape[1:]))
