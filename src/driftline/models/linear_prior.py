"""Priors that are linear Gaussian chains, given by their steps."""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from driftline.linalg import bidiagonal
from driftline.models.abstract_prior import AbstractGaussianPrior, AbstractPrior
from driftline.models.checks import fits_shape
from driftline.models.parameters import Learn

LOG_2PI = math.log(2.0 * math.pi)


class LinearSteps(NamedTuple):
    r"""A linear Gaussian chain $z_1 \sim N(m, s_1^2)$, $z_{t+1} = a_t z_t + b_t + s_t \epsilon$."""

    initial_mean: Float[Array, " *shape"]
    initial_scale: Float[Array, " *shape"]
    slope: Float[Array, " T-1 *shape"]
    shift: Float[Array, " T-1 *shape"]
    scale: Float[Array, " T-1 *shape"]


class AbstractLinearPrior(AbstractGaussianPrior):
    """A Gaussian prior that is given by its steps."""

    is_linear: ClassVar[bool] = True

    @abc.abstractmethod
    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """The chain over the given finite gaps, in the precision of `gaps`."""

    def steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """The chain over the given gaps, cut where they are infinite."""
        steps = self.linear_steps(jnp.where(jnp.isinf(gaps), 1.0, gaps))
        cut = over_time(jnp.isinf(gaps), self.shape)
        return steps._replace(
            slope=jnp.where(cut, 0.0, steps.slope),
            shift=jnp.where(cut, 0.0, steps.shift),
            scale=jnp.where(cut, 1.0, steps.scale),
        )

    def log_prob(self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]) -> Float[Array, ""]:
        """See `AbstractPrior`."""
        steps = self.steps(gaps.astype(path.dtype))
        log_scales = jnp.sum(jnp.log(steps.initial_scale)) + jnp.sum(jnp.log(steps.scale))
        return _declared_half_squares(path, steps) - log_scales - 0.5 * path.size * LOG_2PI

    def mean_path(self, gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`."""
        steps = self.steps(gaps)
        return _accumulate(steps, steps.initial_mean, steps.shift)

    def precision(
        self, gaps: Float[Array, " gaps"]
    ) -> tuple[Float[Array, " gaps+1 *shape"], Float[Array, " gaps *shape"]]:
        """See `AbstractGaussianPrior`."""
        steps = self.steps(gaps)
        weight = 1.0 / (steps.scale * steps.scale)
        initial = 1.0 / (steps.initial_scale * steps.initial_scale)
        diag = jnp.concatenate([initial[None], weight])
        return diag.at[:-1].add(steps.slope * steps.slope * weight), -steps.slope * weight

    def simulate(self, key: Key[Array, ""], gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`."""
        steps = self.steps(gaps)
        noise = jr.normal(key, (len(gaps) + 1, *self.shape), gaps.dtype)
        first = steps.initial_mean + steps.initial_scale * noise[0]
        return _accumulate(steps, first, steps.shift + steps.scale * noise[1:])


def _half_squares(path, steps):
    """Minus half the squared noise of all steps: what a linear chain's log density has of the path."""
    residual, scale = _residuals(path, steps)
    return -0.5 * jnp.sum(jnp.square(residual / scale))


_declared_half_squares = jax.custom_jvp(_half_squares)


@_declared_half_squares.defjvp
def _half_squares_jvp(primals, tangents):
    # The derivative by the path is written out. Left to itself, it is a sum of slices padded with zeros,
    # which XLA on CPUs computes number by number, and with it all that is added to it.
    (path, steps), (path_tangent, steps_tangent) = primals, tangents
    value, by_steps = jax.jvp(lambda steps: _half_squares(path, steps), (steps,), (steps_tangent,))
    residual, scale = _residuals(path, steps)
    inverse = 1.0 / scale  # its square might not be a number of this type
    pull = residual * inverse * inverse
    score = (-pull).at[:-1].add(steps.slope * pull[1:])
    return value, by_steps + jnp.sum(score * path_tangent)


def _residuals(path, steps):
    """Each step's distance from where the step before it leads, and the scale of that distance."""
    start = jnp.concatenate([steps.initial_mean[None], steps.shift])
    scale = jnp.concatenate([steps.initial_scale[None], steps.scale])
    return (path - start).at[1:].add(-steps.slope * path[:-1]), scale


def check_shapes(prior: AbstractPrior, *names: str) -> None:
    """Refuse numbers of a prior that cannot stand at every element of one time step."""
    for name in names:
        value = getattr(prior, name)
        if isinstance(value, np.ndarray | Learn):  # inside a transformation the fields are tracers
            fits_shape(type(prior).__name__, name, value, prior.shape)


def over_time(gaps: Array, shape: tuple[int, ...]) -> Array:
    """Gaps, or facts of them, so that they can be combined with the elements of a step."""
    return gaps.reshape(len(gaps), *(1 for _ in shape))


def each_element(prior: AbstractPrior, name: str, gaps: Float[Array, " gaps"]) -> Float[Array, " 1 *shape"]:
    """A number of the prior for each element of a step, with a leading axis for time."""
    value = jnp.asarray(getattr(prior, name), gaps.dtype)
    return jnp.broadcast_to(value, (1, *prior.shape))


def chain(
    shape: tuple[int, ...],
    gaps: Float[Array, " gaps"],
    *,
    initial_mean: Float[Array, " 1 *shape"],
    initial_scale: Float[Array, " 1 *shape"],
    slope: Any,
    shift: Any,
    scale: Any,
) -> LinearSteps:
    """The steps of a chain; slope, shift and scale may be the same for all steps or for all elements."""

    def every(value):
        return jnp.broadcast_to(jnp.asarray(value, gaps.dtype), (len(gaps), *shape))

    return LinearSteps(initial_mean[0], initial_scale[0], every(slope), every(shift), every(scale))


def _accumulate(steps, first, shifts):
    """Run z_{t+1} = a_t z_t + shift_t: a bidiagonal system with ones on its diagonal."""
    rhs = jnp.concatenate([first[None], shifts])
    return bidiagonal.solve_transposed(jnp.ones_like(rhs), -steps.slope, rhs)
