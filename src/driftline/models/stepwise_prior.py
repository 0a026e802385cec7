"""Priors that are given by the density of a first step and of each step after another, Gaussian or not."""

import abc
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftline.models.abstract_prior import AbstractPrior, Expect, PathMoments
from driftline.models.linear_prior import LOG_2PI


class AbstractStepwisePrior(AbstractPrior):
    """A prior given by two log densities that JAX can differentiate, for one step each."""

    @abc.abstractmethod
    def initial_log_prob(self, value: Float[Array, " *shape"]) -> Float[Array, ""]:
        """Log density of the first step."""

    @abc.abstractmethod
    def transition_log_prob(
        self, value: Float[Array, " *shape"], previous: Float[Array, " *shape"], gap: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log density of a step given the one before it."""

    def transition_terms(
        self,
        values: Float[Array, " K *shape"],
        previous: Float[Array, " K *shape"],
        gaps: Float[Array, " K"],
    ) -> Float[Array, " K"]:
        """Log densities of several steps given the ones before them."""
        cut = jnp.isinf(gaps)
        steps = cut.reshape(len(gaps), *(1 for _ in self.shape))
        # A step after a cut is a standard normal; the user's function must not spoil its gradient.
        safe = jnp.where(steps, jax.lax.stop_gradient(values), values)
        safe_previous = jnp.where(steps, jax.lax.stop_gradient(previous), previous)
        safe_gaps = jnp.where(cut, 1.0, gaps).astype(values.dtype)
        terms = jax.vmap(self.transition_log_prob)(safe, safe_previous, safe_gaps)
        apart = -0.5 * (values * values + LOG_2PI).reshape(len(values), -1).sum(axis=1)
        return jnp.where(cut, apart, terms)

    def log_prob(self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]) -> Float[Array, ""]:
        """See `AbstractPrior`."""
        terms = self.transition_terms(path[1:], path[:-1], gaps)
        return self.initial_log_prob(path[0]) + jnp.sum(terms)

    def precision_diagonals(
        self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]
    ) -> tuple[Float[Array, " T *shape"], Float[Array, " T-1 *shape"]]:
        """See `AbstractPrior`."""
        blocks, off_blocks = self.precision_blocks(path, gaps)
        diag = jnp.diagonal(blocks, axis1=1, axis2=2).reshape(path.shape)
        return diag, jnp.diagonal(off_blocks, axis1=1, axis2=2).reshape(-1, *path.shape[1:])

    def precision_blocks(
        self, path: Float[Array, " T *shape"], gaps: Float[Array, " T-1"]
    ) -> tuple[Float[Array, " T D D"], Float[Array, " T-1 D D"]]:
        """See `AbstractPrior`; its functions are differentiated step by step."""
        shape, dim = path.shape[1:], math.prod(path.shape[1:])
        flat = path.reshape(len(path), dim)

        def initial(value):
            return self.initial_log_prob(value.reshape(shape))

        def transition(value, previous, gap):
            values, before = value.reshape(1, *shape), previous.reshape(1, *shape)
            return self.transition_terms(values, before, gap[None])[0]

        hessian = jax.vmap(jax.hessian(transition, argnums=(0, 1)))
        (now, now_before), (_, before) = hessian(flat[1:], flat[:-1], gaps.astype(path.dtype))
        diag = jnp.concatenate([-jax.hessian(initial)(flat[0])[None], -now]).at[:-1].add(-before)
        return diag, -now_before.mT

    def expected_log_prob(
        self, moments: PathMoments, gaps: Float[Array, " gaps"], expect: Expect
    ) -> Float[Array, ""]:
        """See `AbstractPrior`; by quadrature over the first step, and over every pair of neighbours."""
        mean, dim = moments.mean, math.prod(self.shape)
        first, pairs = moments.of_first_and_pairs()

        def at_first(point):
            return self.initial_log_prob(mean[0] + first(point))

        def at_pairs(point):
            before, after = pairs(point)
            return jnp.sum(self.transition_terms(mean[1:] + after, mean[:-1] + before, gaps))

        return expect(at_first, dim) + expect(at_pairs, 2 * dim)

    def initial_remainder(
        self, value: Float[Array, "*shape"], move: Float[Array, "*shape"]
    ) -> Float[Array, ""]:
        """See `AbstractPrior`."""
        return _beyond_second_order(lambda share: self.initial_log_prob(value + share * move))

    def transition_remainder(
        self,
        values: tuple[Float[Array, "*shape"], Float[Array, "*shape"]],
        moves: tuple[Float[Array, "*shape"], Float[Array, "*shape"]],
        gap: Float[Array, ""],
    ) -> Float[Array, ""]:
        """See `AbstractPrior`."""

        def along(share):
            after, now = (value + share * move for value, move in zip(values, moves, strict=True))
            term = self.transition_terms(after[None], now[None], gap[None])[0]
            return jnp.where(jnp.isinf(gap), 0.0, term)

        return _beyond_second_order(along)


def _beyond_second_order(function: Callable[[Array], Array]) -> Array:
    """A function of one number at 1, less its Taylor polynomial of second order around 0."""

    def slope(share):
        return jax.jvp(function, (share,), (jnp.ones_like(share),))[1]

    zero, one = jnp.zeros(()), jnp.ones(())
    first, second = jax.jvp(slope, (zero,), (one,))
    return function(one) - function(zero) - first - 0.5 * second
