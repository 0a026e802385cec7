"""What a fit of the path needs to know besides the learnt numbers: stated once, and passed on whole."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftline.infer import newton
from driftline.infer.number_vector import Layout
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import Learn, at_start, learnt, with_values


class LearningProblem(eqx.Module):
    """A model split into learnt numbers, which are a vector, and a template that takes them.

    Attributes:
        template: The model, with learnt numbers at their starts.
        observations: The series; of a panel all of them, with a leading axis.
        layout: How the numbers lie in a vector.
        tolerance: Rise of the ELBO in nats below which a fit of the path ends.
        limit: Steps after which it ends anyway.
        is_panel: Whether several series share the numbers. Families and observations then have a leading
            axis for them.
    """

    template: Model
    observations: Observations
    layout: Layout = eqx.field(static=True)
    tolerance: Float[Array, ""]
    limit: Int[Array, ""]
    is_panel: bool = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        model: Model,
        observations: Observations,
        settings: newton.Settings,
        *,
        flat: bool,
        is_panel: bool,
    ) -> "LearningProblem":
        """Split a model with learnt numbers.

        Args:
            model: The model.
            observations: The series, or all series of a panel.
            settings: Of the fits of the path.
            flat: Whether the density of the numbers is taken on their own scale.
            is_panel: Whether several series share the numbers.
        """
        return cls(
            at_start(model),
            observations,
            Layout.of(learnt(model), flat=flat),
            jnp.asarray(settings.tolerance),
            jnp.asarray(settings.max_iterations),
            is_panel,
        )

    def model_at(self, raw: Float[Array, " K"]) -> Model:
        """The model with its numbers at a point of the scale without bounds."""
        return with_values(self.template, self.layout.values(raw))

    def of_series(self, observations: Observations) -> "LearningProblem":
        """The same for other series."""
        return eqx.tree_at(lambda problem: problem.observations, self, observations)

    @property
    def each(self) -> Callable[[Callable], Callable]:
        """What makes a function of one series one of all series of a panel, if it is a panel."""
        return jax.vmap if self.is_panel else _as_it_is

    def seen(self) -> np.ndarray:
        """All observations that there are, in one row."""
        return np.asarray(self.observations.values)[np.asarray(self.observations.observed)]


def _as_it_is(function: Callable) -> Callable:
    return function


def start_of(numbers: dict[str, Learn]) -> np.ndarray:
    """Where learnt numbers start, as a vector on the scale without bounds."""
    return raw_of(numbers, {place: number.start for place, number in numbers.items()})


def raw_of(numbers: dict[str, Learn], values: dict[str, np.ndarray]) -> np.ndarray:
    """Values of learnt numbers as a vector on the scale without bounds."""
    return np.concatenate([np.ravel(n.support.to_raw(values[place])) for place, n in numbers.items()])
