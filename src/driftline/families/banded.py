"""What families with a band in their precision share: moments, natural parameters, and single steps."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, Int

from driftline.families.base import AbstractFamily
from driftline.families.moments import AbstractMoments


class AbstractBanded(AbstractFamily):
    """A Gaussian in which a step depends on its neighbours only.

    The bands have an entry for every step and one fewer, numbers for every element or a block for all of
    them. A function that only hands bands on need not know which.
    """

    diag: eqx.AbstractVar[Float[Array, " T *entry"]]
    upper: eqx.AbstractVar[Float[Array, " T-1 *entry"]]

    @classmethod
    @abc.abstractmethod
    def from_precision(
        cls,
        mean: Float[Array, " T *shape"],
        precision_diag: Float[Array, " T *entry"],
        precision_off: Float[Array, " T-1 *entry"],
    ) -> "AbstractBanded":
        """The member with a given precision; NaN where that is not positive definite."""

    @classmethod
    @abc.abstractmethod
    def from_natural(
        cls,
        linear: Float[Array, " T *shape"],
        precision_diag: Float[Array, " T *entry"],
        precision_off: Float[Array, " T-1 *entry"],
    ) -> "AbstractBanded":
        r"""The member with natural parameters $\Lambda\mu$ and $\Lambda$."""

    @classmethod
    @abc.abstractmethod
    def from_moments(cls, moments: AbstractMoments) -> "AbstractBanded":
        """The member with given moments: of all densities, the one of most entropy."""

    @abc.abstractmethod
    def precision(self) -> tuple[Float[Array, " T *entry"], Float[Array, " T-1 *entry"]]:
        r"""Diagonal and off-diagonal of $\Lambda$."""

    @abc.abstractmethod
    def moments(self) -> AbstractMoments:
        """Mean and band of the covariance, in O(T)."""

    @abc.abstractmethod
    def at_steps(self, steps: Int[Array, " S"]) -> "AbstractBanded":
        """The density of some steps alone, in increasing order; it is a member again."""

    @staticmethod
    @abc.abstractmethod
    def noise_of_step(
        diag: Float[Array, "*entry"],
        upper: Float[Array, "*entry"],
        deviation: Float[Array, "*shape"],
        later: Float[Array, "*shape"],
    ) -> Float[Array, "*shape"]:
        """The noise that makes a step's deviation from its mean, given the deviation one step later.

        Args:
            diag: The step's entry of the factor's diagonal.
            upper: Its entry above the diagonal.
            deviation: Of the step.
            later: Of the next one.
        """

    @staticmethod
    @abc.abstractmethod
    def deviation_of_step(
        diag: Float[Array, "*entry"],
        upper: Float[Array, "*entry"],
        noise: Float[Array, "*shape"],
        later: Float[Array, "*shape"],
    ) -> Float[Array, "*shape"]:
        """The inverse of `noise_of_step`: the deviation from the mean that noise makes."""

    def banded(self) -> "AbstractBanded":
        """See `AbstractFamily`: this member itself."""
        return self
