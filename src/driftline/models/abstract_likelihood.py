"""What every likelihood answers: the density of an observation given the path at its step, and its checks.

A likelihood turns the observations and a path into one log density per *datum*, an array of the shape of
`Observations.observed`. Data that are missing are dropped afterwards, so that a likelihood never sees a gap.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from driftline.models.checks import stretches_to
from driftline.models.parameters import Learn, numbers_of


class AbstractLikelihood(eqx.Module):
    """The density of what is seen at one step.

    A new likelihood implements the four abstract methods. The others have defaults that suit most of them.
    """

    # Whether it is a Gaussian in the path, of the same width everywhere.
    is_gaussian: ClassVar[bool] = False
    # Whether an observation is the path itself, with noise of the width `scale` added.
    adds_noise: ClassVar[bool] = False
    # Whether its fields are numbers, which a file can hold.
    made_of_numbers: ClassVar[bool] = True

    @property
    def is_elementwise(self) -> bool:
        """Whether every element of the path has an observation of its own."""
        return False

    @abc.abstractmethod
    def terms(
        self, values: Float[Array, " T *event"], path: Float[Array, " T *shape"]
    ) -> Float[Array, " T *data"]:
        """Log density of every datum."""

    @abc.abstractmethod
    def simulate(self, key: Key[Array, ""], path: Float[Array, " T *shape"]) -> Float[Array, " T *event"]:
        """Draw observations for a path."""

    @abc.abstractmethod
    def event_shape(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Shape of the observation at one step, for a path of the given shape; None if any will do."""

    @abc.abstractmethod
    def check(self, values: np.ndarray) -> None:
        """Refuse observations (NaN where missing) that the likelihood gives no density to."""

    def check_series(self, values: np.ndarray, shape: tuple[int, ...]) -> None:
        """Refuse a series that no path of the given shape can be fitted to; begins with `check`."""
        self.check(values)

    def missing(self, values: np.ndarray) -> np.ndarray:
        """Which data of a series are missing, in the shape that `terms` returns."""
        return np.isnan(values)

    def expected_terms(
        self,
        values: Float[Array, " T *shape"],
        mean: Float[Array, " T *shape"],
        variance: Float[Array, " T *shape"],
    ) -> Float[Array, " T *shape"] | None:
        """Expectation of `terms` for a Gaussian path, or None where there is no closed form."""
        return None

    def rough_path(self, seen: np.ndarray) -> float | None:
        """About where a path would have to be for such observations, or None if that is not known."""
        return None

    def why_endless(self, seen: np.ndarray) -> str:
        """Why such observations leave a learnt number without an end, in brackets; empty if they do not."""
        return ""

    def doubt(self, seen: np.ndarray) -> str:
        """What makes a posterior of learnt numbers doubtful for such observations; empty if nothing does."""
        return ""

    def is_per_step(self, leaf: Any, values: Any) -> bool:
        """Whether one of its numbers has an entry for every step of a series, as an exposure may have."""
        return False

    def has_arrays(self) -> bool:
        """Whether one of its numbers has entries for single elements or steps."""
        return False


class AbstractElementwise(AbstractLikelihood):
    """A likelihood in which every element of the path has an observation of its own.

    Its numbers are broadcast against the observations: one for all, one for each element of a step, or one
    for each observation.
    """

    @property
    def is_elementwise(self) -> bool:
        """See `AbstractLikelihood`."""
        return True

    def event_shape(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """See `AbstractLikelihood`."""
        return shape

    def check_series(self, values: np.ndarray, shape: tuple[int, ...]) -> None:
        """See `AbstractLikelihood`; numbers that cannot be broadcast are refused, too."""
        for name, value in vars(self).items():
            found = np.shape(value.start if isinstance(value, Learn) else value)
            if not stretches_to(found, values.shape):
                raise ValueError(
                    f"{type(self).__name__}({name}=...) has shape {found}, which does not fit a series of "
                    f"shape {values.shape}; pass one number, one for each element of a step, or one for each "
                    "observation"
                )
        self.check(values)

    def is_per_step(self, leaf: Any, values: Any) -> bool:
        """See `AbstractLikelihood`.

        Only an array with as many axes as the observations can have such entries: one of fewer has them for
        the elements of a step, however many these are.
        """
        shape, series = np.shape(leaf), np.shape(values)
        return len(shape) == len(series) and shape[0] == series[0]

    def has_arrays(self) -> bool:
        """See `AbstractLikelihood`."""
        return any(map(np.ndim, numbers_of(self)))


def beside(number: Any, path: Float[Array, " T *shape"]) -> Float[Array, "..."]:
    """A number of a likelihood as an array that can be combined with a path."""
    array = jnp.asarray(number, path.dtype)
    return array.reshape((1,) * (path.ndim - array.ndim) + array.shape) if array.ndim else array


def check_counts(name: str, values: np.ndarray) -> None:
    """Refuse observations that are not counts."""
    wrong = (values < 0) | (values != np.floor(values))
    refuse(values, wrong, f"{name} takes whole numbers, zero or above; put NaN where nothing was observed")


def refuse(values: np.ndarray, wrong: np.ndarray, why: str) -> None:
    """Name the first observation that is wrong, if there is one that is not missing.

    Args:
        values: The observations, NaN where missing.
        wrong: Which of them are wrong.
        why: What is wrong with them, and what to do.
    """
    wrong = wrong & ~np.isnan(values)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        step = place[0] if len(place) == 1 else place
        raise ValueError(f"observation {values[place]:g} at step {step} is impossible: {why}")
