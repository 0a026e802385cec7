"""The hidden path, and what would be observed of it, at times that were not observed.

A time without an observation is a step with a missing value. So a prediction is the same fit on a longer
series, for any prior and any likelihood; numbers that were learnt keep their posterior, point by point.
"""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import dataclasses
import warnings
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key

from driftline.families import AbstractFamily
from driftline.infer import newton
from driftline.infer.curvature import is_elementwise
from driftline.infer.learning.fits_at_numbers import fit_points
from driftline.infer.mixture_quantiles import mixture_quantiles
from driftline.infer.observation_density import log_marginal
from driftline.infer.start import begin, starting_family
from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.model import Model
from driftline.models.observations import as_numbers, as_times, merged, observe
from driftline.models.padding import pad
from driftline.models.parameters import numbers_of, with_values
from driftline.results.intervals import central
from driftline.results.learnt_number import LearntNumber

POINTS_AT_ONCE = 1 << 13  # of the learnt numbers, times observations
MOST_LOST = 0.02  # weight of points of the learnt numbers that a prediction may do without
NUMBERS_AT_ONCE = 1 << 22  # of the paths that are drawn side by side

Numbers = dict[str, np.ndarray]  # learnt numbers by place, with a leading axis for their points


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
    _numbers: Numbers
    _weights: np.ndarray
    _members: AbstractFamily  # of the times in order, for each point of the learnt numbers
    _steps: np.ndarray  # where the times lie in them
    _quantiles: np.ndarray | None  # at `mixture_quantiles.SCORES`; None for a single point

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of the path."""
        return central(self.mean, self.sd, probability, self._quantiles)

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Draw `n` paths over the times, (n, T, *shape)."""
        with jax.enable_x64(True):
            return np.array(self._paths(n, seed)[0])

    def observations(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Draw what would be observed, `n` times; the likelihood must know how to simulate."""
        with jax.enable_x64(True):
            paths, numbers, key = self._paths(n, seed)
            return np.array(_simulate(jr.split(key, n), self._model, numbers, paths))

    def log_density(self, x: Any) -> np.ndarray:
        """Log predictive density of every observation at these times, each on its own; NaN where x is.

        An observation that the likelihood gives no density to is refused, as in `dl.fit`.
        """
        if not is_elementwise(self._model):
            raise ValueError(
                f"{type(self._model.likelihood).__name__} sees a step as a whole, so that no observation has "
                "a density of its own; score draws from post.forecast(...).sample(n) yourself"
            )
        x = as_numbers(x)
        if x.shape != self.mean.shape:
            raise ValueError(
                f"x has shape {x.shape}, but the prediction has one number for each of {self.mean.shape}"
            )
        self._model.likelihood.check(x)
        missing = np.isnan(x)
        if missing.all():
            return x
        with jax.enable_x64(True):
            filled = jnp.asarray(np.where(missing, x[~missing][0], x))
            terms = _log_density(
                filled, self._model, self._numbers, jnp.asarray(self._weights), self._members, self._steps
            )
        return np.where(missing, np.nan, np.asarray(terms))

    def _paths(self, n: int, seed: int) -> tuple[Array, dict[str, Array], Key[Array, ""]]:
        """Paths, the learnt numbers that belong to each, and a key for what is drawn next."""
        if n < 1:
            raise ValueError(f"at least one draw, got n={n}")
        key_point, key_path, key_data = jr.split(jr.key(seed), 3)
        points = jr.choice(key_point, len(self._weights), (n,), p=jnp.asarray(self._weights))
        paths = _draw(jr.split(key_path, n), points, self._members, jnp.asarray(self._steps))
        numbers = {place: jnp.asarray(values)[points] for place, values in self._numbers.items()}
        return paths, numbers, key_data

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
        new_times: The times to predict at, in any order.
        parameters: The learnt numbers.
        structure: "chains" or "block".
    """
    if any(model.likelihood.is_per_step(leaf, values) for leaf in numbers_of(model.likelihood)):
        raise ValueError(
            "the likelihood has a number for every observed step, such as an exposure, and none for new "
            "times; fit the longer series yourself, with NaN where nothing was observed"
        )
    everything, places = merged(times, new_times)
    longer = np.full((len(everything), *values.shape[1:]), np.nan)
    longer[places[: len(times)]] = values
    numbers, weights = _main_points(parameters)
    with jax.enable_x64(True):
        _, gaps, _ = as_times(everything, None, len(everything), unit)
        observations = pad(observe(longer, gaps, model.likelihood, model.prior.shape), model.likelihood)
        q = starting_family(model, begin(model, observations), observations, structure)
        if numbers:  # from the fit at the means of the numbers, which is near those at other points
            near = newton.refit(model, observations, q)
            q = near.q if np.isfinite(float(near.elbo)) else q
        kept, steps = _kept_steps(places[len(times) :], len(observations.values))
        fits = fit_points(model, observations, numbers, q, kept)
        fits, numbers, weights = _usable(fits, numbers, weights)
        _check(fits, weights)
        members = fits.q
        mean, sd, quantiles = _mixture(members, jnp.asarray(weights), jnp.asarray(steps))
    return Prediction(
        new_times, np.asarray(mean), np.asarray(sd), model, numbers, weights, members, steps,
        None if quantiles is None else np.asarray(quantiles),
    )  # fmt: skip


def _kept_steps(asked: np.ndarray, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The steps of which fits are kept, in order, and where among them those lie that were asked for.

    At least two, as there are in any padded series: arrays over the gaps between them are then not empty.
    """
    kept, steps = np.unique(asked, return_inverse=True)
    if len(kept) > 1:
        return kept, steps
    (step,) = kept
    if step + 1 < num_steps:
        return np.array([step, step + 1]), steps
    return np.array([step - 1, step]), steps + 1


def _usable(
    fits: newton.State, numbers: Numbers, weights: np.ndarray
) -> tuple[newton.State, Numbers, np.ndarray]:
    """The fits without those of unlikely numbers whose ELBO is not finite."""
    finite = np.isfinite(np.asarray(fits.elbo))
    if finite.all() or weights[~finite].sum() > MOST_LOST:
        return fits, numbers, weights
    rows = np.flatnonzero(finite)

    def usable(leaf: Array) -> Array:
        return leaf[rows]

    fits = jax.tree.map(usable, fits)
    numbers = {place: values[rows] for place, values in numbers.items()}
    return fits, numbers, weights[rows] / weights[rows].sum()


def _check(fits: newton.State, weights: np.ndarray) -> None:
    """Refuse a prediction whose fit never left its start, and warn of one that was cut short."""
    if not np.isfinite(fits.elbo).all():
        raise ValueError(
            "the series cannot be fitted with the new times added: its ELBO is not finite, as where the path "
            "is so uncertain that quadrature leaves what the likelihood allows; ask for times nearer to the "
            "data, or fit the longer series yourself by method='bbvi', with NaN at the new times"
        )
    missed = ~np.asarray(newton.has_converged(fits, 100 * newton.Settings().tolerance))
    if weights[missed].sum() > MOST_LOST:
        warnings.warn(
            "the fit with the new times added did not converge; see the longer series' own fit, with NaN at "
            "the new times and more max_iterations",
            stacklevel=4,
        )


def _main_points(parameters: dict[str, LearntNumber]) -> tuple[Numbers, np.ndarray]:
    """The points of the learnt numbers that carry nearly all of the weight."""
    if not parameters:
        return {}, np.ones(1)
    weights = next(iter(parameters.values())).weights
    order = np.argsort(-weights)
    keep = order[: 1 + int(np.searchsorted(np.cumsum(weights[order]), 0.999))]
    numbers = {place: number.values[keep] for place, number in parameters.items()}
    return numbers, weights[keep] / weights[keep].sum()


@eqx.filter_jit
def _mixture(members: AbstractFamily, weights: Array, steps: Array) -> tuple[Array, Array, Array | None]:
    def variances_of(member: AbstractFamily) -> Array:
        return member.variances()

    means = members.mean[:, steps]
    variances = jax.vmap(variances_of)(members)[:, steps]
    mean = jnp.tensordot(weights, means, axes=1)
    sd = jnp.sqrt(jnp.tensordot(weights, variances + (means - mean[None]) ** 2, axes=1))
    if len(weights) == 1:
        return mean, sd, None
    return mean, sd, mixture_quantiles(means, jnp.sqrt(variances), weights, mean, sd)


@eqx.filter_jit
def _draw(keys: Key[Array, " n"], points: Array, members: AbstractFamily, steps: Array) -> Array:
    def one(pair: tuple[Key[Array, ""], Array]) -> Array:
        key, point = pair

        def at_point(leaf: Array) -> Array:
            return leaf[point]

        member: AbstractFamily = jax.tree.map(at_point, members)
        return member.sample(key).path[steps]

    batch = max(1, NUMBERS_AT_ONCE // members.mean[0].size)
    return cast(Array, jax.lax.map(one, (keys, points), batch_size=min(batch, len(points))))


@eqx.filter_jit
def _simulate(keys: Key[Array, " n"], model: Model, numbers: dict[str, Array], paths: Array) -> Array:
    def one(key: Key[Array, ""], own: dict[str, Array], path: Array) -> Array:
        return with_values(model, own).likelihood.simulate(key, path)

    return jax.vmap(one)(keys, numbers, paths)


@eqx.filter_jit
def _log_density(
    x: Array, model: Model, numbers: Numbers, weights: Array, members: AbstractFamily, steps: np.ndarray
) -> Array:
    def one(point: tuple[AbstractFamily, dict[str, Array]]) -> Array:
        member, own = point
        likelihood: AbstractLikelihood = with_values(model, own).likelihood
        mean, sd = member.mean[steps], jnp.sqrt(member.variances())[steps]
        return log_marginal(lambda path: likelihood.terms(x, path), mean, sd)

    points = (members, {place: jnp.asarray(values) for place, values in numbers.items()})
    by_point = cast(Array, jax.lax.map(one, points, batch_size=max(1, POINTS_AT_ONCE // x.size)))
    shares = jnp.log(weights).reshape(-1, *(1 for _ in x.shape))
    return jax.nn.logsumexp(by_point + shares, axis=0)
