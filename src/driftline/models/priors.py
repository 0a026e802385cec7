"""Gaussian Markov priors over paths, with their precision in closed form."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Key

from driftline.linalg import bidiagonal, tridiagonal
from driftline.models.abstract_prior import AbstractGaussianPrior
from driftline.models.checks import number, shape_of
from driftline.models.linear_prior import (
    LOG_2PI,
    AbstractLinearPrior,
    LinearSteps,
    chain,
    check_shapes,
    each_element,
    over_time,
)


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
        check_shapes(self, "scale", "initial_mean", "initial_scale")

    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """See `AbstractLinearPrior`."""
        scale = each_element(self, "scale", gaps)
        return chain(
            self.shape,
            gaps,
            initial_mean=each_element(self, "initial_mean", gaps),
            initial_scale=each_element(self, "initial_scale", gaps),
            slope=1.0,
            shift=0.0,
            scale=scale * jnp.sqrt(over_time(gaps, self.shape)),
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
        check_shapes(self, "mean", "decay", "scale")

    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """See `AbstractLinearPrior`."""
        level, decay, scale = (each_element(self, name, gaps) for name in ("mean", "decay", "scale"))
        return chain(
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
        check_shapes(self, "mean", "rate", "scale")

    def linear_steps(self, gaps: Float[Array, " gaps"]) -> LinearSteps:
        """See `AbstractLinearPrior`."""
        level, rate, scale = (each_element(self, name, gaps) for name in ("mean", "rate", "scale"))
        turned = rate * over_time(gaps, self.shape)
        return chain(
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
        check_shapes(self, "diffusion", "scale")

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
        spread = over_time(jnp.where(cut, 1.0, gaps), self.shape)
        weight = 1.0 / (each_element(self, "diffusion", gaps) * spread)
        weight = jnp.where(over_time(cut, self.shape), 0.0, weight)
        pull = 1.0 / each_element(self, "scale", gaps) ** 2
        diag = jnp.broadcast_to(pull, (len(gaps) + 1, *self.shape))
        diag = diag.at[1:].set(jnp.where(over_time(cut, self.shape), 1.0, diag[1:]))
        return diag.at[1:].add(weight).at[:-1].add(weight), -weight

    def simulate(self, key: Key[Array, ""], gaps: Float[Array, " gaps"]) -> Float[Array, " gaps+1 *shape"]:
        """See `AbstractPrior`."""
        noise = jr.normal(key, (len(gaps) + 1, *self.shape), gaps.dtype)
        return bidiagonal.solve(*tridiagonal.cholesky(*self.precision(gaps)), noise)
