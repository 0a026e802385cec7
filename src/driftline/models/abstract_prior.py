"""What every prior over paths answers, and what those answer that are Gaussian."""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from driftline.linalg import small

Expect = Callable[[Callable[[Array], Array], int], Float[Array, ""]]


@runtime_checkable
class PathMoments(Protocol):
    """What a prior asks of the moments of a Gaussian over paths, chains and blocks alike."""

    @property
    def mean(self) -> Any:
        """Means of every element."""
        ...

    def variances(self) -> Any:
        """Variances of every element."""
        ...

    def lag_covariances(self) -> Any:
        """Covariances of every element with itself one step later."""
        ...

    def of_first_and_pairs(self) -> tuple[Callable, Callable]:
        """What makes deviations of the first step, and those of all steps with their next ones."""
        ...


class AbstractPrior(eqx.Module):
    """A density over paths of shape (T, *shape) that is Markov in time.

    `gaps` are the T-1 lengths of time between neighbouring steps; all ones for plain steps. An infinite
    gap cuts the path: what follows it is a standard normal of its own, which serves to fill up arrays.

    Derive from `AbstractLinearPrior`, `AbstractGaussianPrior` or `AbstractStepwisePrior`, which know how to
    answer most of these questions.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]
    # Whether a step can be split in two without changing what the prior says of its ends.
    in_continuous_time: ClassVar[bool]
    # Whether it says the same of every step, so that a path could as well begin earlier.
    stationary: ClassVar[bool] = False
    # Whether it is a Gaussian that couples no two elements of a step, and has a `precision`.
    is_gaussian: ClassVar[bool] = False
    # Whether it is given by linear `steps`, by which a path can go on.
    is_linear: ClassVar[bool] = False
    # Whether its fields are numbers, which a file can hold.
    made_of_numbers: ClassVar[bool] = True

    @property
    def can_simulate(self) -> bool:
        """Whether it knows how to draw a path."""
        return True

    @abc.abstractmethod
    def log_prob(self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]) -> Float[Array, ""]:
        """Log density of a path, with all constants."""

    @abc.abstractmethod
    def mean_path(self, gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """The prior's mean, or the place where inference should begin if there is no closed form."""

    @abc.abstractmethod
    def simulate(self, key: Key[Array, ""], gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """Draw a path."""

    @abc.abstractmethod
    def precision_diagonals(
        self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]
    ) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
        """Minus the second derivatives of each element with itself, now and one step later, at a path."""

    @abc.abstractmethod
    def precision_blocks(
        self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]
    ) -> tuple[Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
        """The same for all elements of a step with each other."""

    @abc.abstractmethod
    def expected_log_prob(
        self, moments: PathMoments, gaps: Float[Array, " gaps"], expect: Expect
    ) -> Float[Array, ""]:
        """Expectation of `log_prob` for a Gaussian path.

        Args:
            moments: Of the path.
            gaps: Lengths of time between its steps.
            expect: `expect(function, num_axes)` is the expectation of a function of a standard normal point,
                by quadrature.
        """

    @abc.abstractmethod
    def initial_remainder(
        self, value: Float[Array, "*shape"], move: Float[Array, "*shape"]
    ) -> Float[Array, ""]:
        """What the first step's log density has beyond second order in a move away from a value."""

    @abc.abstractmethod
    def transition_remainder(
        self,
        values: tuple[Float[Array, "*shape"], Float[Array, "*shape"]],
        moves: tuple[Float[Array, "*shape"], Float[Array, "*shape"]],
        gap: Float[Array, ""],
    ) -> Float[Array, ""]:
        """The same for a transition.

        Args:
            values: Of the step, and of the one before it.
            moves: Of both.
            gap: Length of time between them; there is no transition over an infinite one.
        """


class AbstractGaussianPrior(AbstractPrior):
    """A prior that is a Gaussian with a tridiagonal precision, one chain per element of `shape`."""

    is_gaussian: ClassVar[bool] = True

    @abc.abstractmethod
    def precision(
        self, gaps: Float[Array, " gaps"]
    ) -> tuple[Float[Array, " gaps+1 *shape"], Float[Array, " gaps *shape"]]:
        """Diagonal and off-diagonal of the precision."""

    def precision_diagonals(
        self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]
    ) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
        """See `AbstractPrior`; the same at every path."""
        return self.precision(gaps)

    def precision_blocks(
        self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]
    ) -> tuple[Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
        """See `AbstractPrior`; the same at every path."""
        diag, off = self.precision(gaps)
        return small.from_diagonals(diag), small.from_diagonals(off)

    def expected_log_prob(
        self, moments: PathMoments, gaps: Float[Array, " gaps"], expect: Expect
    ) -> Float[Array, ""]:
        """See `AbstractPrior`; in closed form."""
        diag, off = self.precision(gaps)
        spread, lagged = jnp.sum(diag * moments.variances()), jnp.sum(off * moments.lag_covariances())
        return self.log_prob(moments.mean, gaps) - 0.5 * spread - lagged

    def initial_remainder(
        self, value: Float[Array, "*shape"], move: Float[Array, "*shape"]
    ) -> Float[Array, ""]:
        """See `AbstractPrior`; there is none."""
        return jnp.zeros((), value.dtype)

    def transition_remainder(
        self,
        values: tuple[Float[Array, "*shape"], Float[Array, "*shape"]],
        moves: tuple[Float[Array, "*shape"], Float[Array, "*shape"]],
        gap: Float[Array, ""],
    ) -> Float[Array, ""]:
        """See `AbstractPrior`; there is none."""
        return jnp.zeros((), gap.dtype)
