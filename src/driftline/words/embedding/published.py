r"""DSG-S as it was published: the structured black box algorithm, with one draw a step.

Every component of every word has its own mean, $\nu$ and $\omega$. A first phase takes random words and
random contexts at all steps, with the likelihood's slopes scaled up; a second takes all. Means move in the
prior's natural coordinates, $\nu$ by a mirror step, all at rates of Adam (`docs/maths.md`, sections 2 and 3).
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from driftline.families import GaussMarkov
from driftline.infer import adam
from driftline.linalg import tridiagonal
from driftline.words.embedding import chains, likelihood
from driftline.words.embedding.likelihood import Moments
from driftline.words.embedding.problem import Problem

PHASES = ("minibatch", "full")
RATES = {"minibatch": 1e-2, "full": 1e-3}
SAMPLE = 1000  # words, and contexts, of a minibatch
SIDES = ("word", "context")


class PublishedSmoother:
    """Trains a `Problem`; its state is a dictionary of arrays.

    Attributes:
        plan: Phase of every step of the optimiser.
        look: Steps between two looks at the objective, which costs as much as several.
    """

    look = 100

    def __init__(self, problem: Problem):
        self.problem = problem
        self.plan = [
            name for name, many in zip(PHASES, problem.settings.passes, strict=True) for _ in range(many)
        ]
        self.counts = problem.batches()
        self.chains = chains.prior_chains(problem.knots, problem.drift, problem.dtype)
        self.linked = jnp.asarray(problem.knots.linked)[:, None]
        self.words = jnp.asarray(problem.knots.word)
        self.num_words = len(problem.counts.vocabulary)

    def begin(self) -> dict[str, Any]:
        """Mean zero, and the prior's precision."""
        shape = (len(self.problem.knots), self.problem.settings.dim)
        diag, upper = tridiagonal.cholesky(self.chains.diag, self.chains.off)
        state = {}
        for side in SIDES:
            state |= {
                f"{side}_natural": jnp.zeros(shape, self.problem.dtype),
                f"{side}_diag": jnp.broadcast_to(diag, shape).copy(),
                f"{side}_upper": jnp.broadcast_to(upper, (shape[0] - 1, shape[1])).copy(),
            }
        moments = {
            f"{kind}_{name}": jnp.zeros_like(array)
            for name, array in state.items()
            for kind in ("first", "second")
        }
        return state | moments | {"count": jnp.zeros((), jnp.int32)}

    def advance(self, state: dict[str, Any], index: int) -> dict[str, Any]:
        """The state after step number `index` of the optimiser."""
        phase = self.plan[index]
        if index and self.plan[index - 1] != phase:
            state = state | {
                name: jnp.zeros_like(state[name]) for name in state if name.startswith(("first_", "second_"))
            }
            state["count"] = jnp.zeros((), jnp.int32)
        key = jr.fold_in(jr.key(self.problem.settings.seed), index)
        noise_key, word_key, context_key = jr.split(key, 3)
        draws, deviations = _draw(self.chains, state, noise_key)
        if phase == "full" or self.num_words <= SAMPLE:
            slopes = likelihood.gradients(self.counts, Moments(*draws))
        else:
            chosen = [_choose(key, self.num_words)[self.words] for key in (word_key, context_key)]
            slopes = self._sampled_slopes(draws, chosen)
        return _step(self.chains, self.linked, state, draws, deviations, slopes, RATES[phase])

    def _sampled_slopes(self, draws, chosen):
        """Slopes from pairs of chosen words and chosen contexts, scaled up by how many were not chosen."""
        results = tuple(jnp.zeros_like(draw) for draw in draws)
        scale = np.asarray(self.num_words / SAMPLE, self.problem.dtype)
        for batch in self.counts:
            size = batch.rows.shape[1]
            expected = size * SAMPLE / self.num_words
            # Six standard deviations above what is expected, so that none is lost.
            room = int(min(size, np.ceil(expected + 6.0 * np.sqrt(expected) + 6.0)))
            results = _collect_sampled(results, batch, Moments(*draws), tuple(chosen), scale, room)
        return results

    def moments(self, state: dict[str, Any]) -> Moments:
        """Means and variances of all rows."""
        means = [chains.from_natural(self.chains, state[f"{side}_natural"]) for side in SIDES]
        spreads = [_band(state[f"{side}_diag"], state[f"{side}_upper"])[0] for side in SIDES]
        return Moments(*means, *spreads)

    def objective(self, state: dict[str, Any], phase: str) -> float:
        """The ELBO in nats."""
        fit = likelihood.log_likelihood(self.counts, self.moments(state))
        return fit - sum(float(_divergence(self.chains, state, side)) for side in SIDES)

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Moments of all rows, and the ELBO."""
        moments = self.moments(state)
        found: dict[str, Any] = {"elbo": self.objective(state, "full")}
        found |= {"words": moments.words, "contexts": moments.contexts}
        for side in SIDES:
            variances, lags = _band(state[f"{side}_diag"], state[f"{side}_upper"])
            found |= {
                f"{side}_variances": variances,
                f"{side}_lag_covariances": jnp.pad(lags, ((0, 1), (0, 0))),
            }
        return {name: value if name == "elbo" else np.asarray(value) for name, value in found.items()}


@functools.partial(jax.jit, static_argnames="total")
def _choose(key, total):
    """Which words take part, (V,)."""
    return jnp.zeros(total, bool).at[jr.permutation(key, total)[:SAMPLE]].set(True)


@jax.jit
def _draw(prior, state, key):
    draws, deviations = [], []
    for side, side_key in zip(SIDES, jr.split(key), strict=True):
        natural = state[f"{side}_natural"]
        mean = chains.from_natural(prior, natural)
        q = GaussMarkov(mean, state[f"{side}_diag"], state[f"{side}_upper"])
        deviations.append(q.unwhiten(jr.normal(side_key, mean.shape, mean.dtype)))
        draws.append(mean + deviations[-1])
    return draws, deviations


@functools.partial(jax.jit, donate_argnums=0, static_argnames="room")
def _collect_sampled(results, batch, moments, chosen, scale, room):
    def step(results, counts):
        size, end = len(counts.rows), len(moments.words)
        places = [
            jnp.nonzero(
                flags.at[counts.place].get(mode="fill", fill_value=False), size=room, fill_value=size
            )[0]
            for flags in chosen
        ]
        rows = counts.rows.at[places[0]].get(mode="fill", fill_value=0)
        columns = counts.columns.at[places[1]].get(mode="fill", fill_value=0)
        positives = likelihood.dense(counts)
        positives = positives.at[places[0][:, None], places[1][None]].get(mode="fill", fill_value=0)
        where = [counts.place.at[place].get(mode="fill", fill_value=end) for place in places]
        here = Moments(
            moments.words.at[where[0]].get(mode="fill", fill_value=0),
            moments.contexts.at[where[1]].get(mode="fill", fill_value=0),
        )
        slopes = likelihood.tile_gradients(positives, jnp.outer(rows, columns), here)
        return tuple(
            result.at[place].set(scale * slope, mode="drop")
            for result, place, slope in zip(results, where, slopes, strict=True)
        ), None

    return jax.lax.scan(step, results, batch)[0]


def slope_of_elbo(
    prior: chains.Chains, q: GaussMarkov, draw: Array, deviation: Array, slope: Array
) -> GaussMarkov:
    """The paper's estimate of the ELBO's gradient, from one draw, on one side.

    Args:
        prior: The prior.
        q: The member of the family; its mean is not used.
        draw: A draw from it.
        deviation: The draw less the mean.
        slope: Derivative of the log-likelihood at the draws of both sides, by this one.
    """
    diag, off = jnp.broadcast_to(prior.diag, draw.shape), jnp.broadcast_to(prior.off, draw[1:].shape)
    score = slope - tridiagonal.matvec(diag, off, draw)
    return jax.tree.map(jnp.add, q.pull_back(deviation, score), q.entropy_gradient())


@functools.partial(jax.jit, donate_argnums=2)
def _step(prior, linked, state, draws, deviations, slopes, rate):
    gradients, members = {}, {}
    for side, draw, deviation, slope in zip(SIDES, draws, deviations, slopes, strict=True):
        q = GaussMarkov(draw, state[f"{side}_diag"], state[f"{side}_upper"])
        gradient = slope_of_elbo(prior, q, draw, deviation, slope)
        gradients |= {
            f"{side}_natural": chains.natural_gradient(prior, gradient.mean),
            f"{side}_diag": gradient.diag,
            f"{side}_upper": jnp.where(linked, gradient.upper, 0.0),
        }
        members[side] = q
    old = adam.Moments(
        state["count"],
        {name: state[f"first_{name}"] for name in gradients},
        {name: state[f"second_{name}"] for name in gradients},
    )
    direction, new = adam.direction(gradients, old)
    stepped = {}
    for side, q in members.items():
        step = GaussMarkov(
            jnp.zeros_like(q.mean), rate * direction[f"{side}_diag"], rate * direction[f"{side}_upper"]
        )
        moved = q.moved(step)
        stepped |= {
            f"{side}_natural": state[f"{side}_natural"] + rate * direction[f"{side}_natural"],
            f"{side}_diag": moved.diag,
            f"{side}_upper": moved.upper,
        }
    first = {f"first_{name}": array for name, array in new.first.items()}
    second = {f"second_{name}": array for name, array in new.second.items()}
    return stepped | first | second | {"count": new.count}


@jax.jit
def _band(diag, upper):
    return tridiagonal.band_of_inverse(diag, upper)


@functools.partial(jax.jit, static_argnames="side")
def _divergence(prior, state, side):
    """KL divergence of one side from the prior."""
    diag, upper = state[f"{side}_diag"], state[f"{side}_upper"]
    variances, lags = tridiagonal.band_of_inverse(diag, upper)
    trace = jnp.sum(variances * prior.diag + jnp.pad(2.0 * lags * prior.off, ((0, 1), (0, 0))) - 1.0)
    log_det = jnp.sum(2.0 * jnp.log(diag) - prior.log_det / len(diag))
    return 0.5 * (trace + log_det + jnp.sum(state[f"{side}_natural"] ** 2))
