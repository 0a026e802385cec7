"""Gaussian Markov priors over paths, with their precision in closed form."""

import abc
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from driftline.linalg import bidiagonal, tridiagonal
from driftline.models.checks import fits_shape, number, shape_of
from driftline.models.parameters import Learn

LOG_2PI = math.log(2.0 * math.pi)


class AbstractPrior(eqx.Module):
    """A density over paths of shape (T, *shape) that is Markov in time.

    `gaps` are the T-1 lengths of time between neighbouring steps; all ones for plain steps. An infinite
    gap cuts the path: what follows it is a standard normal of its own, which serves to fill up arrays.
    """

    shape: eqx.AbstractVar[tuple[int, ...]]
    # Whether a step can be split in two without changing what the prior says of its ends.
    in_continuous_time: ClassVar[bool]
    # Whether it says the same of every step, so that a path could as well begin earlier.
    stationary: ClassVar[bool] = False

    @abc.abstractmethod
    def log_prob(self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]) -> Float[Array, ""]:
        """Log density of a path, with all constants."""

    @abc.abstractmethod
    def mean_path(self, gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """The prior's mean, or the place where inference should begin if there is no closed form."""

    @abc.abstractmethod
    def simulate(self, key: Key[Array, ""], gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """Draw a path."""


class AbstractGaussianPrior(AbstractPrior):
    """A prior that is a Gaussian with a tridiagonal precision, one chain per element of `shape`."""

    @abc.abstractmethod
    def precision(
        self, gaps: Float[Array, " gaps"]
    ) -> tuple[Float[Array, " gaps+1 *shape"], Float[Array, " gaps *shape"]]:
        """Diagonal and off-diagonal of the precision."""


class LinearSteps(NamedTuple):
    r"""A linear Gaussian chain $z_1 \sim N(m, s_1^2)$, $z_{t+1} = a_t z_t + b_t + s_t \epsilon$."""

    initial_mean: Float[Array, " *shape"]
    initial_scale: Float[Array, " *shape"]
    slope: Float[Array, " T-1 *shape"]
    shift: Float[Array, " T-1 *shape"]
    scale: Float[Array, " T-1 *shape"]


class AbstractLinearPrior(AbstractGaussianPrior):
    """A Gaussian prior that is given by its steps."""

    @abc.abstractmethod
    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """The chain over the given finite gaps, in the precision of `gaps`."""

    def steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """The chain over the given gaps, cut where they are infinite."""
        steps = self.linear_steps(jnp.where(jnp.isinf(gaps), 1.0, gaps))
        cut = _over_time(jnp.isinf(gaps), self.shape)
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


class RandomWalk(AbstractLinearPrior):
    r"""$z_{t+1} \sim N(z_t, \text{scale}^2 \Delta t)$, a Wiener process seen at the given times.

    Args:
        scale: Standard deviation of a step over one unit of time.
        initial_mean: Mean of the first step.
        initial_scale: Standard deviation of the first step.
        shape: Shape of the path at one time, `()` for a scalar path.
    """

    scale: Any
    initial_mean: Any
    initial_scale: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    in_continuous_time: ClassVar[bool] = True

    def __init__(self, scale: Any = 1.0, *, initial_mean: Any = 0.0, initial_scale: Any = 1.0, shape=()):
        self.shape = shape_of("RandomWalk", shape)
        self.scale = number("RandomWalk", "scale", scale, positive=True)
        self.initial_mean = number("RandomWalk", "initial_mean", initial_mean)
        self.initial_scale = number("RandomWalk", "initial_scale", initial_scale, positive=True)

    def __check_init__(self):
        _check_shapes(self, "scale", "initial_mean", "initial_scale")

    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """See `AbstractLinearPrior`."""
        scale = _each(self, "scale", gaps)
        return _linear_steps(
            self.shape,
            gaps,
            initial_mean=_each(self, "initial_mean", gaps),
            initial_scale=_each(self, "initial_scale", gaps),
            slope=1.0,
            shift=0.0,
            scale=scale * jnp.sqrt(_over_time(gaps, self.shape)),
        )


class AR1(AbstractLinearPrior):
    r"""$z_{t+1} = m + a\,(z_t - m) + s\,\epsilon$ with mean m, decay a and scale s, started in equilibrium.

    It counts steps and does not look at the lengths of time between them: each row of the data is one
    step, whatever its date. `OrnsteinUhlenbeck` is the same process in continuous time.

    Args:
        mean: Level to which the path returns.
        decay: Correlation of neighbouring steps, between -1 and 1; for 1 there is `RandomWalk`.
        scale: Standard deviation of the noise added at each step.
        shape: Shape of the path at one time, `()` for a scalar path.
    """

    mean: Any
    decay: Any
    scale: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    in_continuous_time: ClassVar[bool] = False
    stationary: ClassVar[bool] = True

    def __init__(self, mean: Any = 0.0, decay: Any = 0.95, scale: Any = 1.0, *, shape=()):
        self.shape = shape_of("AR1", shape)
        self.mean = number("AR1", "mean", mean)
        self.decay = number("AR1", "decay", decay, between=(-1.0, 1.0))
        self.scale = number("AR1", "scale", scale, positive=True)

    def __check_init__(self):
        _check_shapes(self, "mean", "decay", "scale")

    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """See `AbstractLinearPrior`."""
        level, decay, scale = (_each(self, name, gaps) for name in ("mean", "decay", "scale"))
        return _linear_steps(
            self.shape,
            gaps,
            initial_mean=level,
            initial_scale=scale / jnp.sqrt((1.0 - decay) * (1.0 + decay)),
            slope=decay,
            shift=level * (1.0 - decay),
            scale=scale,
        )


class OrnsteinUhlenbeck(AbstractLinearPrior):
    r"""$dz = \text{rate}\,(\text{mean} - z)\,dt + \text{scale}\,dW$, started in equilibrium.

    Args:
        mean: Level to which the path returns.
        rate: Speed of the return, per unit of time; its inverse is the time of memory.
        scale: Standard deviation gathered per square root of time, as in `RandomWalk`. In equilibrium the
            path has the standard deviation scale / sqrt(2 rate).
        shape: Shape of the path at one time, `()` for a scalar path.
    """

    mean: Any
    rate: Any
    scale: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    in_continuous_time: ClassVar[bool] = True
    stationary: ClassVar[bool] = True

    def __init__(self, mean: Any = 0.0, rate: Any = 1.0, scale: Any = 1.0, *, shape=()):
        self.shape = shape_of("OrnsteinUhlenbeck", shape)
        self.mean = number("OrnsteinUhlenbeck", "mean", mean)
        self.rate = number("OrnsteinUhlenbeck", "rate", rate, positive=True)
        self.scale = number("OrnsteinUhlenbeck", "scale", scale, positive=True)

    def __check_init__(self):
        _check_shapes(self, "mean", "rate", "scale")

    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """See `AbstractLinearPrior`."""
        level, rate, scale = (_each(self, name, gaps) for name in ("mean", "rate", "scale"))
        turned = rate * _over_time(gaps, self.shape)
        return _linear_steps(
            self.shape,
            gaps,
            initial_mean=level,
            initial_scale=scale / jnp.sqrt(2.0 * rate),
            slope=jnp.exp(-turned),
            shift=-level * jnp.expm1(-turned),
            scale=scale * jnp.sqrt(-jnp.expm1(-2.0 * turned) / (2.0 * rate)),
        )


class Diffusion(AbstractGaussianPrior):
    r"""The papers' prior in its joint form: a Gaussian with mean zero and precision $\Pi$.

    $$\Pi_{tt} = \sigma_0^{-2} + \sigma_{t-1}^{-2} + \sigma_t^{-2}, \quad \Pi_{t,t+1} = -\sigma_t^{-2},
      \quad \sigma_t^2 = D\,(\tau_{t+1} - \tau_t),$$

    where missing neighbours are dropped. The pull $\sigma_0^{-2}$ acts once at *every* step, so a finer
    grid of times pulls harder: with many steps the prior is much narrower than `scale`. For a process that
    does not depend on the grid use `OrnsteinUhlenbeck`. See `docs/maths.md`, section 7.

    Args:
        diffusion: The constant $D$, variance gathered per unit of time.
        scale: The width $\sigma_0$ of the pull towards zero.
        shape: Shape of the path at one time, `()` for a scalar path.
    """

    diffusion: Any
    scale: Any
    shape: tuple[int, ...] = eqx.field(static=True)
    in_continuous_time: ClassVar[bool] = False

    def __init__(self, diffusion: Any = 1e-3, scale: Any = 1.0, *, shape=()):
        self.shape = shape_of("Diffusion", shape)
        self.diffusion = number("Diffusion", "diffusion", diffusion, positive=True)
        self.scale = number("Diffusion", "scale", scale, positive=True)

    def __check_init__(self):
        _check_shapes(self, "diffusion", "scale")

    def log_prob(self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]) -> Float[Array, ""]:
        """See `AbstractPrior`."""
        diag, off = self.precision(gaps.astype(path.dtype))
        log_det = jnp.sum(jnp.log(tridiagonal.pivots(diag, off)))
        square = jnp.sum(path * tridiagonal.matvec(diag, off, path))
        return 0.5 * (log_det - square - path.size * LOG_2PI)

    def mean_path(self, gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`."""
        return jnp.zeros((len(gaps) + 1, *self.shape), gaps.dtype)

    def precision(
        self, gaps: Float[Array, " gaps"]
    ) -> tuple[Float[Array, " gaps+1 *shape"], Float[Array, " gaps *shape"]]:
        """See `AbstractGaussianPrior`."""
        cut = jnp.isinf(gaps)
        spread = _over_time(jnp.where(cut, 1.0, gaps), self.shape)
        weight = 1.0 / (_each(self, "diffusion", gaps) * spread)
        weight = jnp.where(_over_time(cut, self.shape), 0.0, weight)
        pull = 1.0 / _each(self, "scale", gaps) ** 2
        diag = jnp.broadcast_to(pull, (len(gaps) + 1, *self.shape))
        diag = diag.at[1:].set(jnp.where(_over_time(cut, self.shape), 1.0, diag[1:]))
        return diag.at[1:].add(weight).at[:-1].add(weight), -weight

    def simulate(self, key: Key[Array, ""], gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`."""
        noise = jr.normal(key, (len(gaps) + 1, *self.shape), gaps.dtype)
        return bidiagonal.solve(*tridiagonal.cholesky(*self.precision(gaps)), noise)


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


def _check_shapes(prior, *names):
    for name in names:
        value = getattr(prior, name)
        if isinstance(value, np.ndarray | Learn):  # inside a transformation the fields are tracers
            fits_shape(type(prior).__name__, name, value, prior.shape)


def _over_time(gaps, shape):
    return gaps.reshape(len(gaps), *(1 for _ in shape))


def _each(prior, name, gaps):
    """A number of the prior for each element of a step, with a leading axis for time."""
    value = jnp.asarray(getattr(prior, name), gaps.dtype)
    return jnp.broadcast_to(value, (1, *prior.shape))


def _linear_steps(shape, gaps, *, initial_mean, initial_scale, slope, shift, scale):
    def every(value):
        return jnp.broadcast_to(jnp.asarray(value, gaps.dtype), (len(gaps), *shape))

    return LinearSteps(initial_mean[0], initial_scale[0], every(slope), every(shift), every(scale))


def _accumulate(steps, first, shifts):
    """Run z_{t+1} = a_t z_t + shift_t: a bidiagonal system with ones on its diagonal."""
    rhs = jnp.concatenate([first[None], shifts])
    return bidiagonal.solve_transposed(jnp.ones_like(rhs), -steps.slope, rhs)
