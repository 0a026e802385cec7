"""Any function as a likelihood."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.checks import numbers, takes


class Likelihood(AbstractLikelihood):
    """A likelihood from any function that JAX can differentiate.

    Args:
        function: `function(x, z)`, the log density of what is seen at one step given the whole path at
            that step. Must return a single number.
        params: Numbers that the function takes as a last argument: one number, or dicts and lists of
            numbers. Each may be marked with `dl.learn`; `params={"noise": {"scale": dl.learn(1.0)}}` is
            learnt as `likelihood.noise.scale`. Changing their values does not trigger a new compilation.
        elementwise: Say True if every element of the path has an observation of its own. The function is
            then called with single numbers, and single elements may be missing. Otherwise a step is
            either seen as a whole or missing as a whole.
        draw: `draw(key, z)` draws an observation; only `simulate` needs it.
    """

    function: Callable
    params: Any
    draw: Callable | None
    elementwise: bool = eqx.field(static=True)
    made_of_numbers: ClassVar[bool] = False

    def __init__(self, function, *, params=None, elementwise=False, draw=None):
        takes("the likelihood", function, ("x", "z"), 0 if params is None else 1)
        self.function = function
        self.params = None if params is None else numbers("Likelihood", params)
        self.elementwise = elementwise
        self.draw = draw

    @property
    def is_elementwise(self) -> bool:
        """See `AbstractLikelihood`."""
        return self.elementwise

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        return self._batched(self._one, path.ndim)(values, path)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        draw = self.draw
        if draw is None:
            raise ValueError(
                "a likelihood function can be simulated only if it is told how: "
                "pass Likelihood(function, draw=lambda key, z: ...)"
            )
        keys = jr.split(key, path.shape if self.elementwise else path.shape[:1])
        batched = self._batched(lambda key, z: draw(key, z, *self._last()), path.ndim)
        return jnp.asarray(batched(keys, path), path.dtype)

    def event_shape(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """See `AbstractLikelihood`."""
        return shape if self.elementwise else None

    def check(self, values):
        """See `AbstractLikelihood`; the function decides at the start of the fit."""

    def check_series(self, values: np.ndarray, shape: tuple[int, ...]) -> None:
        """See `AbstractLikelihood`; a function that returns anything but one number is refused, too."""
        super().check_series(values, shape)
        returned = self._returned(values, shape)
        found = getattr(returned, "shape", None)
        if found is None:
            raise ValueError(
                f"the likelihood returns {returned!r} for one step, but must return one number: its log "
                "density"
            )
        if found != ():
            raise ValueError(
                f"the likelihood returns an array of shape {found} for one step, but must return one number; "
                "sum over the elements, or pass Likelihood(function, elementwise=True)"
            )

    def missing(self, values: np.ndarray) -> np.ndarray:
        """See `AbstractLikelihood`; a function that sees whole steps misses whole steps."""
        missing = np.isnan(values)
        if self.elementwise:
            return missing
        missing = missing.reshape(len(missing), -1)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if partly.any():
            raise ValueError(
                f"step {int(np.argmax(partly))} is observed in part, but a likelihood function sees a step "
                "as a whole; make the whole step NaN, pass Likelihood(function, elementwise=True), or code "
                "missing elements with a number that the function knows"
            )
        return np.asarray(missing.all(axis=1))

    def _returned(self, values, shape):
        """What the function returns for one call, with shapes in the place of arrays."""
        event = () if self.elementwise else values.shape[1:]
        latent = () if self.elementwise else shape
        return jax.eval_shape(
            self._one, jax.ShapeDtypeStruct(event, float), jax.ShapeDtypeStruct(latent, float)
        )

    def _one(self, value, latent):
        return self.function(value, latent, *self._last())

    def _batched(self, function, num_axes):
        for _ in range(num_axes if self.elementwise else 1):
            function = jax.vmap(function)
        return function

    def _last(self):
        return () if self.params is None else (self.params,)
