"""Mean and band of the covariance of a Gaussian over paths: of chains, or of blocks.

Derivatives with respect to them are objects of the same class, as with the parameters of a family.
"""

import abc
import math
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.linalg import small

Point = Float[Array, " axes"]  # of a standard normal


class AbstractMoments(eqx.Module):
    """Means, covariances of every step, and covariances of every step with the next one."""

    mean: eqx.AbstractVar[Float[Array, " T *shape"]]
    within: eqx.AbstractVar[Float[Array, "..."]]
    between: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def variances(self) -> Float[Array, " T *shape"]:
        """Variances of every element."""

    @abc.abstractmethod
    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """Covariances of every element with itself one step later."""

    @abc.abstractmethod
    def symmetric(self) -> "AbstractMoments":
        """The same with symmetric covariances; derivatives with respect to blocks need not be."""

    @abc.abstractmethod
    def of_steps(self) -> Callable[[Point], Float[Array, " T *shape"]]:
        """What makes deviations of all steps from a point with an axis for each of a step's elements.

        Each step has its own covariance; those between steps play no part.
        """

    @abc.abstractmethod
    def of_first_and_pairs(
        self,
    ) -> tuple[
        Callable[[Point], Float[Array, "*shape"]],
        Callable[[Point], tuple[Float[Array, " lags *shape"], Float[Array, " lags *shape"]]],
    ]:
        """What makes deviations of the first step, and what makes those of all steps and their next ones.

        A point of the latter has an axis for each element of both steps.
        """

    @abc.abstractmethod
    def _products(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Products of the means, in the form of the covariances."""

    def standard_deviations(self) -> Float[Array, " T *shape"]:
        """Of every element."""
        return jnp.sqrt(self.variances())

    def moved(self, by: Float[Array, " T *shape"]) -> "AbstractMoments":
        """The same around a mean that lies elsewhere."""
        return type(self)(self.mean + by, self.within, self.between)

    def around_zero(self) -> "AbstractMoments":
        """Second moments in the place of covariances: they add up in a mixture."""
        within, between = self._products()
        return type(self)(self.mean, self.within + within, self.between + between)

    def around_mean(self) -> "AbstractMoments":
        """Covariances, where there were second moments."""
        within, between = self._products()
        return type(self)(self.mean, self.within - within, self.between - between)


class ChainMoments(AbstractMoments):
    """Moments of one chain for each element.

    Attributes:
        mean: Means.
        within: Variances.
        between: Covariances of an element with itself one step later.
    """

    mean: Float[Array, " T *shape"]
    within: Float[Array, " T *shape"]
    between: Float[Array, " T-1 *shape"]

    def variances(self) -> Float[Array, " T *shape"]:
        """See `AbstractMoments`."""
        return self.within

    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """See `AbstractMoments`."""
        return self.between

    def symmetric(self) -> "ChainMoments":
        """See `AbstractMoments`; numbers always are."""
        return self

    def of_steps(self) -> Callable[[Point], Float[Array, " T *shape"]]:
        """See `AbstractMoments`."""
        sd = jnp.sqrt(self.within)
        return lambda point: sd * point.reshape(1, *sd.shape[1:])

    def of_first_and_pairs(
        self,
    ) -> tuple[
        Callable[[Point], Float[Array, "*shape"]],
        Callable[[Point], tuple[Float[Array, " lags *shape"], Float[Array, " lags *shape"]]],
    ]:
        """See `AbstractMoments`."""
        shape, dim = self.mean.shape[1:], math.prod(self.mean.shape[1:])
        # The next step is a multiple of the noise of this one, plus a rest of its own.
        sd = jnp.sqrt(self.within)
        slope = self.between / sd[:-1]
        rest = jnp.sqrt(self.within[1:] - slope * slope)

        def first(point: Array) -> Array:
            return (sd[0].reshape(-1) * point).reshape(shape)

        def pairs(point: Array) -> tuple[Array, Array]:
            own, other = point[:dim].reshape(1, *shape), point[dim:].reshape(1, *shape)
            return sd[:-1] * own, slope * own + rest * other

        return first, pairs

    def _products(self) -> tuple[Array, Array]:
        return self.mean * self.mean, self.mean[:-1] * self.mean[1:]


class BlockMoments(AbstractMoments):
    """Moments of one chain whose blocks couple all D elements of a step.

    Attributes:
        mean: Means.
        within: Covariances of the elements of a step.
        between: Those of a step, in rows, with the next one, in columns.
    """

    mean: Float[Array, " T *shape"]
    within: Float[Array, " T D D"]
    between: Float[Array, " T-1 D D"]

    def variances(self) -> Float[Array, " T *shape"]:
        """See `AbstractMoments`."""
        return self._diagonals(self.within)

    def lag_covariances(self) -> Float[Array, " lags *shape"]:
        """See `AbstractMoments`."""
        return self._diagonals(self.between)

    def symmetric(self) -> "BlockMoments":
        """See `AbstractMoments`."""
        return type(self)(self.mean, 0.5 * (self.within + self.within.mT), self.between)

    def of_steps(self) -> Callable[[Point], Float[Array, " T *shape"]]:
        """See `AbstractMoments`."""
        factor = small.cholesky(self.within)
        return lambda point: (factor @ point).reshape(self.mean.shape)

    def of_first_and_pairs(
        self,
    ) -> tuple[
        Callable[[Point], Float[Array, "*shape"]],
        Callable[[Point], tuple[Float[Array, " lags *shape"], Float[Array, " lags *shape"]]],
    ]:
        """See `AbstractMoments`."""
        shape, dim = self.mean.shape[1:], math.prod(self.mean.shape[1:])
        factor, joint = small.cholesky(self.within[0]), small.cholesky(self._of_pairs())

        def first(point: Array) -> Array:
            return (factor @ point).reshape(shape)

        def pairs(point: Array) -> tuple[Array, Array]:
            both = joint @ point
            return both[:, :dim].reshape(-1, *shape), both[:, dim:].reshape(-1, *shape)

        return first, pairs

    def _of_pairs(self) -> Array:
        """Joint covariances of neighbouring steps."""
        above = jnp.concatenate([self.within[:-1], self.between], axis=2)
        below = jnp.concatenate([self.between.mT, self.within[1:]], axis=2)
        return jnp.concatenate([above, below], axis=1)

    def _products(self) -> tuple[Array, Array]:
        flat = self.mean.reshape(len(self.mean), -1)
        return flat[:, :, None] * flat[:, None, :], flat[:-1, :, None] * flat[1:, None, :]

    def _diagonals(self, blocks: Array) -> Array:
        return small.diagonals(blocks).reshape(-1, *self.mean.shape[1:])
