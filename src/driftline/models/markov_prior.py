"""A Markov prior from any two functions that JAX can differentiate."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key

from driftline.models.checks import fits_shape, number, numbers, shape_of, takes
from driftline.models.parameters import Learn
from driftline.models.stepwise_prior import AbstractStepwisePrior


class MarkovPrior(AbstractStepwisePrior):
    """Any Markov prior, from two functions that JAX can differentiate.

    Args:
        initial: `initial(z)`, the log density of the first step.
        transition: `transition(z, z_prev, dt)`, the log density of a step given the one before it.
        shape: Shape of the path at one time, `()` for a scalar path.
        params: Numbers that both functions take as a last argument: one number, or dicts and lists of
            numbers. Each may be marked with `dl.learn`; `params={"rates": [dl.learn(1.0), 2.0]}` is learnt as
            `prior.rates[0]`. Changing their values does not trigger a new compilation.
        start: Where inference begins: a number, or an array of shape `shape`.
        draw_initial: `draw_initial(key)` draws a first step; only `simulate` needs it.
        draw_transition: `draw_transition(key, z_prev, dt)` draws a next step; only `simulate` needs it.
    """

    initial: Callable
    transition: Callable
    params: Any
    start: Any
    draw_initial: Callable | None
    draw_transition: Callable | None
    shape: tuple[int, ...] = eqx.field(static=True)
    made_of_numbers: ClassVar[bool] = False
    in_continuous_time: ClassVar[bool] = True  # its transition takes dt; what it does with it is the user's

    def __init__(
        self,
        initial,
        transition,
        *,
        shape=(),
        params=None,
        start=0.0,
        draw_initial=None,
        draw_transition=None,
    ):
        self.shape = shape_of("MarkovPrior", shape)
        self.initial = initial
        self.transition = transition
        self.params = None if params is None else numbers("MarkovPrior", params)
        self.start = number("MarkovPrior", "start", start)
        self.draw_initial = draw_initial
        self.draw_transition = draw_transition
        fits_shape("MarkovPrior", "start", self.start, self.shape)
        extra = 0 if params is None else 1
        takes("MarkovPrior(initial=...)", initial, ("z",), extra)
        takes("MarkovPrior(transition=...)", transition, ("z", "z_prev", "dt"), extra)
        self._check_returned()

    def _check_returned(self):
        """Refuse functions that return anything but one number for a step of the path."""
        step, gap = (jax.ShapeDtypeStruct(shape, float) for shape in (self.shape, ()))
        calls = {"initial": (self.initial, (step,)), "transition": (self.transition, (step, step, gap))}
        params = jax.tree.map(lambda leaf: leaf.start if isinstance(leaf, Learn) else leaf, self._last())
        for name, (function, arguments) in calls.items():
            with jax.enable_x64(True):
                returned = jax.eval_shape(function, *arguments, *params)
            found = getattr(returned, "shape", None)
            if found != ():
                what = f"a {type(returned).__name__}" if found is None else f"an array of shape {found}"
                raise ValueError(
                    f"MarkovPrior({name}=...) returns {what} for one step of shape {self.shape}, but must "
                    "return one number; sum over the elements, as in jnp.sum(...)"
                )

    def initial_log_prob(self, value: Float[Array, " *shape"]) -> Float[Array, ""]:
        """See `AbstractStepwisePrior`."""
        return self.initial(value, *self._last())

    def transition_log_prob(
        self, value: Float[Array, " *shape"], previous: Float[Array, " *shape"], gap: Float[Array, ""]
    ) -> Float[Array, ""]:
        """See `AbstractStepwisePrior`."""
        return self.transition(value, previous, gap, *self._last())

    @property
    def can_simulate(self) -> bool:
        """See `AbstractPrior`; only if it was told how."""
        return self.draw_initial is not None and self.draw_transition is not None

    def mean_path(self, gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`: the `start`, at every step."""
        start = jnp.asarray(self.start, gaps.dtype)
        return jnp.broadcast_to(start, (len(gaps) + 1, *self.shape))

    def simulate(self, key: Key[Array, ""], gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`."""
        draw_initial, draw_transition = self.draw_initial, self.draw_transition
        if draw_initial is None or draw_transition is None:
            raise ValueError(
                "a MarkovPrior can be simulated only if it is told how: "
                "pass MarkovPrior(draw_initial=..., draw_transition=...)"
            )

        def step(previous, row):
            key, gap = row
            value = draw_transition(key, previous, gap, *self._last())
            return value, value

        key_first, key_rest = jr.split(key)
        first = jnp.asarray(draw_initial(key_first, *self._last()), gaps.dtype)
        _, rest = jax.lax.scan(step, first, (jr.split(key_rest, len(gaps)), gaps))
        return jnp.concatenate([first[None], rest])

    def _last(self):
        return () if self.params is None else (self.params,)
