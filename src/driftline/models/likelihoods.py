"""Likelihoods of the observation at one step given the path at that step.

A likelihood turns the observations and a path into one log density per *datum*, an array of the shape of
`Observations.observed`. Data that are missing are dropped afterwards, so that a likelihood never sees a gap.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from driftline.models.checks import number
from driftline.models.count_draws import draw_counts
from driftline.models.log_probabilities import log_binomial, log_negative_binomial, log_poisson, log_student_t
from driftline.models.parameters import Learn

LOG_2PI = math.log(2.0 * math.pi)


class AbstractLikelihood(eqx.Module):
    """The density of what is seen at one step."""

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


class AbstractElementwise(AbstractLikelihood):
    """A likelihood in which every element of the path has an observation of its own.

    Its numbers are broadcast against the observations: one for all, one for each element of a step, or one
    for each observation.
    """

    def event_shape(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """See `AbstractLikelihood`."""
        return shape

    def expected_terms(
        self,
        values: Float[Array, " T *shape"],
        mean: Float[Array, " T *shape"],
        variance: Float[Array, " T *shape"],
    ) -> Float[Array, " T *shape"] | None:
        """Expectation of `terms` for a Gaussian path, or None where there is no closed form."""
        return None


class Gaussian(AbstractElementwise):
    r"""$x_t \sim N(z_t, \text{scale}^2)$.

    Args:
        scale: Standard deviation of the noise; a number, or one for each element of the path.
    """

    scale: Any

    def __init__(self, scale: Any = 1.0):
        self.scale = number("Gaussian", "scale", scale, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        scale = _beside(self.scale, path)
        return _normal(values - path, scale)

    def expected_terms(self, values, mean, variance):
        """See `AbstractElementwise`."""
        scale = _beside(self.scale, mean)
        return _normal(values - mean, scale) - 0.5 * variance / scale**2

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        noise = jr.normal(key, path.shape, path.dtype)
        return path + _beside(self.scale, path) * noise

    def check(self, values):
        """See `AbstractLikelihood`; every real number is possible."""


class StudentT(AbstractElementwise):
    r"""$x_t = z_t + \text{scale}\cdot t_{\text{df}}$: like `Gaussian`, with outliers.

    Args:
        df: Degrees of freedom; small values mean heavy tails.
        scale: Width of the noise.
    """

    df: Any
    scale: Any

    def __init__(self, df: Any = 4.0, scale: Any = 1.0):
        self.df = number("StudentT", "df", df, positive=True)
        self.scale = number("StudentT", "scale", scale, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        df, scale = _beside(self.df, path), _beside(self.scale, path)
        return log_student_t((values - path) / scale, df) - jnp.log(scale)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        df, scale = _beside(self.df, path), _beside(self.scale, path)
        return path + scale * jr.t(key, jnp.broadcast_to(df, path.shape), path.shape, path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`; every real number is possible."""


class Poisson(AbstractElementwise):
    r"""Counts $x_t \sim \text{Poisson}(\text{exposure}_t\, e^{z_t})$.

    Args:
        exposure: What the rate is multiplied with, such as a population or a length of time: a number, or
            an array of the shape of the observations.
    """

    exposure: Any

    def __init__(self, exposure: Any = 1.0):
        self.exposure = number("Poisson", "exposure", exposure, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        return log_poisson(values, path + jnp.log(_beside(self.exposure, path)))

    def expected_terms(self, values, mean, variance):
        """See `AbstractElementwise`."""
        half = 0.5 * variance  # the expected rate is that of a path which is higher by this
        return self.terms(values, mean + half) - values * half

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        rate = jnp.exp(path) * _beside(self.exposure, path)
        return draw_counts(key, rate)

    def check(self, values):
        """See `AbstractLikelihood`."""
        _check_counts("Poisson", values)


class NegativeBinomial(AbstractElementwise):
    r"""Counts with mean $m = e^{z_t}$ and variance $m + m^2 / \text{concentration}$.

    Args:
        concentration: Large values approach `Poisson`, small values mean bursts.
        exposure: What the mean is multiplied with, as in `Poisson`.
    """

    concentration: Any
    exposure: Any

    def __init__(self, concentration: Any = 1.0, exposure: Any = 1.0):
        self.concentration = number("NegativeBinomial", "concentration", concentration, positive=True)
        self.exposure = number("NegativeBinomial", "exposure", exposure, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        size = _beside(self.concentration, path)
        log_mean = path + jnp.log(_beside(self.exposure, path))
        return log_negative_binomial(values, log_mean, size)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        key_rate, key_count = jr.split(key)
        size = _beside(self.concentration, path)
        mean = jnp.exp(path) * _beside(self.exposure, path)
        shape = jnp.broadcast_to(size, path.shape)
        rate = mean / size * jr.gamma(key_rate, shape, path.shape, path.dtype)
        return draw_counts(key_count, rate)

    def check(self, values):
        """See `AbstractLikelihood`."""
        _check_counts("NegativeBinomial", values)


class Bernoulli(AbstractElementwise):
    """Zeros and ones whose log odds are the path."""

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        return values * path - jax.nn.softplus(path)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        return jr.bernoulli(key, jax.nn.sigmoid(path)).astype(path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`."""
        _refuse(
            values,
            (values != 0) & (values != 1),
            "Bernoulli takes 0 and 1; use Binomial(trials=...) for several trials at a step",
        )


class Binomial(AbstractElementwise):
    """Successes out of a known number of trials; the log odds are the path.

    Args:
        trials: A number, or an array of the shape of the observations.
    """

    trials: Any

    def __init__(self, trials: Any):
        if isinstance(trials, Learn):
            raise TypeError(
                f"Binomial(trials=...) is a known number of trials and cannot be learnt, got {trials!r}; "
                "pass the number itself, or use Poisson or NegativeBinomial for counts without an upper end"
            )
        self.trials = number("Binomial", "trials", trials, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        trials = _beside(self.trials, path)
        return log_binomial(values, trials - values, path)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        trials = _beside(self.trials, path)
        return jr.binomial(key, trials, jax.nn.sigmoid(path), path.shape, path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`."""
        _check_counts("Binomial", values)
        trials = np.broadcast_to(self.trials, values.shape)
        _refuse(values, values > trials, "Binomial has more successes than trials")


class LogVolatility(AbstractElementwise):
    r"""$x_t \sim N(0, e^{z_t})$: the path is the logarithm of the variance, as in stochastic volatility."""

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        return -0.5 * (LOG_2PI + path + values * values * jnp.exp(-path))

    def expected_terms(self, values, mean, variance):
        """See `AbstractElementwise`."""
        return -0.5 * (LOG_2PI + mean + values * values * jnp.exp(0.5 * variance - mean))

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        return jnp.exp(0.5 * path) * jr.normal(key, path.shape, path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`; every real number is possible."""

    def check_series(self, values: np.ndarray) -> None:
        """Refuse a series from which the path has no lower end."""
        seen = values[~np.isnan(values)]
        if seen.size and np.all(seen == 0):
            raise ValueError(
                "every observation is zero, so that the log volatility has no lower end; "
                "are these returns rather than prices?"
            )


class Categorical(AbstractLikelihood):
    r"""One of K categories, numbered from 0; the last axis of the path holds their K logits.

    The path has shape (..., K) and the observations have shape (...).
    """

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        log_probs = jax.nn.log_softmax(path, axis=-1)
        index = values.astype(jnp.int32)[..., None]
        return jnp.take_along_axis(log_probs, index, axis=-1)[..., 0]

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        return jr.categorical(key, path).astype(path.dtype)

    def event_shape(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """See `AbstractLikelihood`."""
        if not shape or shape[-1] < 2:
            raise ValueError(
                f"Categorical needs a path with one logit per category, got a prior of shape {shape}; "
                "pass shape=(K,) to the prior, K being the number of categories"
            )
        return shape[:-1]

    def check(self, values):
        """See `AbstractLikelihood`."""
        _check_counts("Categorical", values)

    def check_categories(self, values: np.ndarray, num_categories: int) -> None:
        """Refuse a category that the path has no logit for."""
        _refuse(
            values,
            values >= num_categories,
            f"the prior has {num_categories} logits, so categories go from 0 to {num_categories - 1}",
        )


def is_per_step(likelihood: AbstractLikelihood, leaf: Any, values: Any) -> bool:
    """Whether a number of a likelihood has an entry for every step of a series, as an exposure may have.

    Only an array with as many axes as the observations can: one of fewer has entries for the elements of a
    step, however many these are, and what a function takes as `params` is the same at all steps.
    """
    shape, series = np.shape(leaf), np.shape(values)
    return isinstance(likelihood, AbstractElementwise) and len(shape) == len(series) and shape[0] == series[0]


def _beside(number, path):
    """A number of a likelihood as an array that can be combined with a path."""
    array = jnp.asarray(number, path.dtype)
    return array.reshape((1,) * (path.ndim - array.ndim) + array.shape) if array.ndim else array


def _normal(difference, scale):
    ratio = difference / scale
    return -0.5 * (LOG_2PI + ratio * ratio) - jnp.log(scale)


def _check_counts(name, values):
    wrong = (values < 0) | (values != np.floor(values))
    _refuse(values, wrong, f"{name} takes whole numbers from zero on; put NaN where nothing was observed")


def _refuse(values, wrong, why):
    wrong = wrong & ~np.isnan(values)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        step = place[0] if len(place) == 1 else place
        raise ValueError(f"observation {values[place]:g} at step {step} is impossible: {why}")
