"""The paper's estimator of the ELBO and of its gradient, from draws, in O(T)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from driftline.families import AbstractFamily

LogJoint = Callable[[Float[Array, " T *shape"]], Float[Array, ""]]


class Estimate(NamedTuple):
    """An unbiased estimate of the ELBO and of its gradient, which is an object of the family's class."""

    elbo: Float[Array, ""]
    gradient: AbstractFamily


def estimate(
    q: AbstractFamily,
    log_joint: LogJoint,
    noise: Float[Array, " T S *shape"],
    *,
    sticking_the_landing: bool = False,
    with_elbo: bool | Bool[Array, ""] = True,
) -> Estimate:
    r"""Estimate the ELBO and its gradient from S draws (eqs. 12-14).

    Each draw costs one gradient of the log joint and two bidiagonal solves: one that makes the draw, and
    one with the transpose that carries the gradient back.

    The ELBO itself is estimated by the mean of $\log p(x, z) - \log q(z)$, whose noise vanishes as q
    approaches the posterior. The gradient uses the analytic entropy, as the paper does, or leaves out the
    score of q (Roeder et al. 2017), which makes its noise vanish too.

    Args:
        q: The member of the family at which to estimate.
        log_joint: Log density of a path and the observations.
        noise: Standard normal noise; the second axis counts the draws.
        sticking_the_landing: Whether to use that estimator instead of the analytic entropy.
        with_elbo: Whether to work out the ELBO, which the gradient does not need; NaN otherwise.
    """

    def elbo_of(path, deviation):
        # The noise is remade from the draw: XLA would otherwise generate it once per use.
        log_prob = jnp.asarray(log_joint(path), path.dtype)  # a user's density may return another type
        return log_prob - q.log_prob_of_noise(q.whiten(deviation))

    def not_asked_for(path, _):
        return jnp.full((), jnp.nan, path.dtype)

    def one(noise):
        deviation = q.unwhiten(noise)
        path = q.mean + deviation
        elbo = jax.lax.cond(with_elbo, elbo_of, not_asked_for, path, deviation)
        score = jax.grad(log_joint)(path)
        if sticking_the_landing:
            score = score + q.whiten_transposed(q.whiten(deviation))
        return elbo, q.pull_back(deviation, score)

    if noise.shape[1] == 1:
        elbo, gradient = one(noise[:, 0])
    else:
        elbos, gradients = jax.vmap(one, in_axes=1)(noise)
        elbo, gradient = jnp.mean(elbos), jax.tree.map(lambda leaf: jnp.mean(leaf, 0), gradients)
    if not sticking_the_landing:
        gradient = jax.tree.map(jnp.add, gradient, q.entropy_gradient())
    return Estimate(elbo, gradient)
