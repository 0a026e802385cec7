"""The hidden path, and what would be observed of it, at times that were not observed.

A time without an observation is a step with a missing value. So a prediction is the same fit on a longer
series, for any prior and any likelihood; numbers that were learnt keep their posterior, point by point.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.families import AbstractFamily
from driftline.infer.given_numbers import fit_points
from driftline.infer.marginals import mixture_quantiles
from driftline.infer.quadrature import standard_normal
from driftline.infer.start import begin, starting_family
from driftline.intervals import central
from driftline.learnt import LearntNumber
from driftline.models.model import Model
from driftline.models.observations import as_times, observe, pad
from driftline.models.parameters import with_values

NODES = 100  # a predictive density must see a likelihood that is much narrower than the path


@dataclasses.dataclass(frozen=True, repr=False)
class Prediction:
    """The path and its observations at the times that were asked for.

    Attributes:
        times: Numbers or dates of the steps.
        mean: Mean of the path, (T, *shape).
        sd: Its standard deviation, with that of the learnt numbers.
    """

    times: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    _model: Model
    _numbers: dict[str, np.ndarray]
    _weights: np.ndarray
    _members: AbstractFamily  # one fit of the whole path for each point of the learnt numbers
    _steps: np.ndarray  # where the times lie in it
    _quantiles: np.ndarray | None  # at `intervals.SCORES`; None for a single point

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of the path."""
        return central(self.mean, self.sd, probability, self._quantiles)

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Draw `n` paths over the times, (n, T, *shape)."""
        return self._draw(n, seed)[0]

    def observations(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Draw what would be observed, `n` times; the likelihood must know how to simulate."""
        return self._draw(n, seed)[1]

    def log_density(self, x: Any) -> np.ndarray:
        """Log predictive density of every observation at these times, each on its own; NaN where x is."""
        x = np.asarray(x, dtype=np.float64)
        if x.shape != self.mean.shape:
            raise ValueError(
                f"x has shape {x.shape}, but the prediction has one number for each of {self.mean.shape}"
            )
        with jax.enable_x64(True):
            filled = jnp.asarray(
                np.where(np.isnan(x), x[~np.isnan(x)][0] if (~np.isnan(x)).any() else 0.0, x)
            )
            terms = _log_density(
                filled, self._model, self._numbers, self._weights, self._members, self._steps
            )
        return np.where(np.isnan(x), np.nan, np.asarray(terms))

    def _draw(self, n, seed):
        if n < 1:
            raise ValueError(f"at least one draw, got n={n}")
        with jax.enable_x64(True):
            key_point, key_path, key_data = jr.split(jr.key(seed), 3)
            points = jr.choice(key_point, len(self._weights), (n,), p=jnp.asarray(self._weights))
            drawn = _draw(
                jr.split(key_path, n), jr.split(key_data, n), points,
                self._model, self._numbers, self._members, jnp.asarray(self._steps),
            )  # fmt: skip
        return tuple(np.array(part) for part in drawn)

    def __repr__(self):
        return f"Prediction({len(self.times)} times from {self.times[0]} to {self.times[-1]})"


def predict(
    model: Model,
    values: np.ndarray,
    times: np.ndarray,
    unit: np.timedelta64 | None,
    new_times: np.ndarray,
    parameters: dict[str, LearntNumber],
    structure: str,
) -> Prediction:
    """Fit the series with steps added at new times, once for every point of the learnt numbers.

    Args:
        model: The model, with learnt numbers at any value.
        values: The observations.
        times: Their times.
        unit: Unit of the model's time, if the times are dates.
        new_times: The times to predict at, increasing.
        parameters: The learnt numbers.
        structure: "chains" or "block".
    """
    if any(np.ndim(leaf) and len(leaf) == len(values) for leaf in jax.tree.leaves(model.likelihood)):
        raise ValueError(
            "the likelihood has a number for every observed step, such as an exposure, and none for new "
            "times; fit the longer series yourself, with NaN where nothing was observed"
        )
    everything, places = np.unique(np.concatenate([times, new_times]), return_inverse=True)
    longer = np.full((len(everything), *values.shape[1:]), np.nan)
    longer[places[: len(times)]] = values
    numbers, weights = _main_points(parameters)
    with jax.enable_x64(True):
        _, gaps, _ = as_times(everything, None, len(everything), unit)
        observations = pad(observe(longer, gaps, model.likelihood, model.prior.shape), model.likelihood)
        q = starting_family(model, begin(model, observations), observations, structure)
        members = fit_points(model, observations, numbers, q)
        steps = places[len(times) :]
        mean, sd, quantiles = _mixture(members, jnp.asarray(weights), jnp.asarray(steps))
    return Prediction(
        new_times, np.asarray(mean), np.asarray(sd), model, numbers, weights, members, steps,
        None if quantiles is None else np.asarray(quantiles),
    )  # fmt: skip


def _main_points(parameters):
    """The points of the learnt numbers that carry nearly all of the weight."""
    if not parameters:
        return {}, np.ones(1)
    weights = next(iter(parameters.values())).weights
    order = np.argsort(-weights)
    keep = order[: 1 + int(np.searchsorted(np.cumsum(weights[order]), 0.999))]
    numbers = {place: number.values[keep] for place, number in parameters.items()}
    return numbers, weights[keep] / weights[keep].sum()


@eqx.filter_jit
def _mixture(members, weights, steps):
    means = members.mean[:, steps]
    variances = jax.vmap(lambda member: member.variances())(members)[:, steps]
    mean = jnp.tensordot(weights, means, axes=1)
    sd = jnp.sqrt(jnp.tensordot(weights, variances + (means - mean[None]) ** 2, axes=1))
    if len(weights) == 1:
        return mean, sd, None
    return mean, sd, mixture_quantiles(means, jnp.sqrt(variances), weights, mean, sd)


@eqx.filter_jit
def _draw(path_keys, data_keys, points, model, numbers, members, steps):
    def one(path_key, data_key, point):
        member, own = jax.tree.map(lambda leaf: jnp.asarray(leaf)[point], (members, numbers))
        path = member.sample(path_key).path[steps]
        return path, with_values(model, own).likelihood.simulate(data_key, path)

    return jax.vmap(one)(path_keys, data_keys, points)


@eqx.filter_jit
def _log_density(x, model, numbers, weights, members, steps):
    nodes, node_weights = standard_normal(1, NODES)

    def one(member, own):
        likelihood = with_values(model, own).likelihood
        mean, sd = member.mean[steps], jnp.sqrt(member.variances())[steps]
        terms = jax.vmap(lambda node: likelihood.terms(x, mean + sd * node))(jnp.asarray(nodes[:, 0]))
        shares = jnp.log(jnp.asarray(node_weights)).reshape(-1, *(1 for _ in x.shape))
        return jax.nn.logsumexp(terms + shares, axis=0)

    by_point = jax.vmap(one)(members, jax.tree.map(jnp.asarray, numbers))
    shares = jnp.log(jnp.asarray(weights)).reshape(-1, *(1 for _ in x.shape))
    return jax.nn.logsumexp(by_point + shares, axis=0)
