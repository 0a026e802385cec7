"""Likelihoods of the observation at one step given the path at that step."""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.models.abstract_likelihood import (
    AbstractElementwise,
    AbstractLikelihood,
    beside,
    check_counts,
    refuse,
)
from driftline.models.checks import number
from driftline.models.count_draws import draw_counts
from driftline.models.log_probabilities import log_binomial, log_negative_binomial, log_poisson, log_student_t
from driftline.models.parameters import Learn

LOG_2PI = math.log(2.0 * math.pi)


class Gaussian(AbstractElementwise):
    r"""$x_t \sim N(z_t, \text{scale}^2)$.

    Args:
        scale: Standard deviation of the noise; a number, or one for each element of the path.
    """

    scale: Any
    is_gaussian: ClassVar[bool] = True
    adds_noise: ClassVar[bool] = True

    def __init__(self, scale: Any = 1.0):
        self.scale = number("Gaussian", "scale", scale, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        scale = beside(self.scale, path)
        return _normal(values - path, scale)

    def expected_terms(self, values, mean, variance):
        """See `AbstractLikelihood`."""
        scale = beside(self.scale, mean)
        return _normal(values - mean, scale) - 0.5 * variance / scale**2

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        noise = jr.normal(key, path.shape, path.dtype)
        return path + beside(self.scale, path) * noise

    def check(self, values):
        """See `AbstractLikelihood`; every real number is possible."""

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        return float(np.median(seen))


class StudentT(AbstractElementwise):
    r"""$x_t = z_t + \text{scale}\cdot t_{\text{df}}$: like `Gaussian`, with outliers.

    Args:
        df: Degrees of freedom; small values mean heavy tails.
        scale: Width of the noise.
    """

    df: Any
    scale: Any
    adds_noise: ClassVar[bool] = True

    def __init__(self, df: Any = 4.0, scale: Any = 1.0):
        self.df = number("StudentT", "df", df, positive=True)
        self.scale = number("StudentT", "scale", scale, positive=True)

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        df, scale = beside(self.df, path), beside(self.scale, path)
        return log_student_t((values - path) / scale, df) - jnp.log(scale)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        df, scale = beside(self.df, path), beside(self.scale, path)
        return path + scale * jr.t(key, jnp.broadcast_to(df, path.shape), path.shape, path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`; every real number is possible."""

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        return float(np.median(seen))


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
        return log_poisson(values, path + jnp.log(beside(self.exposure, path)))

    def expected_terms(self, values, mean, variance):
        """See `AbstractLikelihood`."""
        half = 0.5 * variance  # the expected rate is that of a path which is higher by this
        return self.terms(values, mean + half) - values * half

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        rate = jnp.exp(path) * beside(self.exposure, path)
        return draw_counts(key, rate)

    def check(self, values):
        """See `AbstractLikelihood`."""
        check_counts("Poisson", values)

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        return _log_rate(seen, self.exposure)

    def why_endless(self, seen):
        """See `AbstractLikelihood`."""
        return _no_event(seen)


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
        size = beside(self.concentration, path)
        log_mean = path + jnp.log(beside(self.exposure, path))
        return log_negative_binomial(values, log_mean, size)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        key_rate, key_count = jr.split(key)
        size = beside(self.concentration, path)
        mean = jnp.exp(path) * beside(self.exposure, path)
        shape = jnp.broadcast_to(size, path.shape)
        rate = mean / size * jr.gamma(key_rate, shape, path.shape, path.dtype)
        return draw_counts(key_count, rate)

    def check(self, values):
        """See `AbstractLikelihood`."""
        check_counts("NegativeBinomial", values)

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        return _log_rate(seen, self.exposure)

    def why_endless(self, seen):
        """See `AbstractLikelihood`."""
        return _no_event(seen)


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
        refuse(
            values,
            (values != 0) & (values != 1),
            "Bernoulli takes 0 and 1; use Binomial(trials=...) for several trials at a step",
        )

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        return _log_odds(seen, 1.0)

    def why_endless(self, seen):
        """See `AbstractLikelihood`."""
        return " (every observation is one)" if (seen == 1).all() else _no_event(seen)


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
        trials = beside(self.trials, path)
        return log_binomial(values, trials - values, path)

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        trials = beside(self.trials, path)
        return jr.binomial(key, trials, jax.nn.sigmoid(path), path.shape, path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`."""
        check_counts("Binomial", values)
        trials = np.broadcast_to(self.trials, values.shape)
        refuse(values, values > trials, "Binomial has more successes than trials")

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        return _log_odds(seen, self.trials)

    def why_endless(self, seen):
        """See `AbstractLikelihood`."""
        return _no_event(seen)


class LogVolatility(AbstractElementwise):
    r"""$x_t \sim N(0, e^{z_t})$: the path is the logarithm of the variance, as in stochastic volatility."""

    def terms(self, values, path):
        """See `AbstractLikelihood`."""
        return -0.5 * (LOG_2PI + path + values * values * jnp.exp(-path))

    def expected_terms(self, values, mean, variance):
        """See `AbstractLikelihood`."""
        return -0.5 * (LOG_2PI + mean + values * values * jnp.exp(0.5 * variance - mean))

    def simulate(self, key, path):
        """See `AbstractLikelihood`."""
        return jnp.exp(0.5 * path) * jr.normal(key, path.shape, path.dtype)

    def check(self, values):
        """See `AbstractLikelihood`; every real number is possible."""

    def check_series(self, values, shape):
        """See `AbstractLikelihood`; a series from which the path has no lower end is refused, too."""
        super().check_series(values, shape)
        seen = values[~np.isnan(values)]
        if seen.size and np.all(seen == 0):
            raise ValueError(
                "every observation is zero, so that the log volatility has no lower end; "
                "are these returns rather than prices?"
            )

    def rough_path(self, seen):
        """See `AbstractLikelihood`."""
        moved = np.abs(seen[seen != 0])
        largest = moved.max(initial=0.0)  # squares of tiny returns would be zero
        return float(2.0 * np.log(largest) + np.log(np.mean((moved / largest) ** 2))) if moved.size else None

    def why_endless(self, seen):
        """See `AbstractLikelihood`."""
        many = int((seen == 0).sum())
        where = "where a volatility has no lower end"
        return f" ({many} of the returns are exactly zero, {where})" if many else ""

    def doubt(self, seen):
        """See `AbstractLikelihood`."""
        many = int((seen == 0).sum())
        if not many:
            return ""
        return (
            f"{many} returns are exactly zero, where a log volatility has no lower end, so that the "
            "posterior of its scale has none above; put NaN in their place"
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
        check_counts("Categorical", values)

    def check_series(self, values, shape):
        """See `AbstractLikelihood`; a category that the path has no logit for is refused, too."""
        super().check_series(values, shape)
        count = shape[-1]
        why = f"the prior has {count} logits, so categories go from 0 to {count - 1}"
        refuse(values, values >= count, why)

    def why_endless(self, seen):
        """See `AbstractLikelihood`."""
        return _no_event(seen)


def _normal(difference, scale):
    ratio = difference / scale
    return -0.5 * (LOG_2PI + ratio * ratio) - jnp.log(scale)


def _log_rate(seen, exposure):
    """Logarithm of the average rate, that of half an event if there was none."""
    return float(np.log((seen.mean() + 0.5 / seen.size) / np.mean(exposure)))


def _log_odds(seen, trials):
    """Log odds of the share of successes, half of one added to either side."""
    share = (seen.sum() + 0.5) / (np.mean(trials) * seen.size + 1.0)
    return float(np.log(share / (1.0 - share)))


def _no_event(seen):
    return " (there is no event in the series: every observation is zero)" if (seen == 0).all() else ""
