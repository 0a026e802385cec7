"""Returns whose volatility drifts: the standard model of finance, ready-made."""

from typing import Any

import jax.numpy as jnp

from driftline.models.likelihoods import LogVolatility
from driftline.models.model import Model
from driftline.models.parameters import learn
from driftline.models.priors import AR1


def StochasticVolatility(mean: Any = None, decay: Any = None, scale: Any = None) -> Model:  # noqa: N802
    r"""Log variances follow an `AR1` and returns are $N(0, e^{z_t})$.

    Numbers that are not given are learnt, with weak priors: a Cauchy of width 5 for the mean of the log
    variance, $2\,\mathrm{Beta}(20, 1.5) - 1$ for the decay, a half-Cauchy of width 2 for the scale.

    Args:
        mean: Level of the log variance.
        decay: Correlation of neighbouring log variances, between -1 and 1.
        scale: Standard deviation of a log variance given the one before it.
    """
    prior = AR1(
        learn(0.0, prior=_wide_cauchy) if mean is None else mean,
        learn(0.95, prior=_persistent) if decay is None else decay,
        learn(0.2, prior=_narrow_cauchy) if scale is None else scale,
    )
    return Model(prior, LogVolatility())


def _wide_cauchy(value):
    return -jnp.log1p((value / 5.0) ** 2)


def _narrow_cauchy(value):
    return -jnp.log1p((value / 2.0) ** 2)


def _persistent(decay):
    share = 0.5 * (1.0 + decay)
    return 19.0 * jnp.log(share) + 0.5 * jnp.log1p(-share)
