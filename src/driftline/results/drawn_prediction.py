"""A prediction that is known by draws."""

# JAX leaves some functions, and devices among their arguments, without types.
# pyright: reportUnknownMemberType=false

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Key

from driftline.infer.curvature import is_elementwise
from driftline.models.model import Model
from driftline.models.parameters import with_values
from driftline.results.intervals import checked_probability


@dataclasses.dataclass(frozen=True, repr=False)
class DrawnPrediction:
    """The path and its observations at the times that were asked for, with the face of a `Prediction`.

    Attributes:
        times: Numbers or dates of the steps.
        paths: Draws of the path, (N, T, *shape).
        numbers: The learnt numbers that belong to each, by place.
    """

    times: np.ndarray
    paths: np.ndarray
    numbers: dict[str, np.ndarray]
    _model: Model

    @classmethod
    def ahead(
        cls,
        model: Model,
        numbers: dict[str, np.ndarray],
        last: np.ndarray,
        gaps: np.ndarray,
        times: np.ndarray,
        key: Key[Array, ""],
    ) -> "DrawnPrediction":
        """Go on from draws of the last step, by a linear prior.

        Args:
            model: The model, with learnt numbers at any value.
            numbers: Draws of them.
            last: Draws of the last step, (N, *shape).
            gaps: Lengths of time from there on, one for each time.
            times: The times.
            key: For all randomness.
        """
        paths = _go_on(model, numbers, jnp.asarray(last), jnp.asarray(gaps), jr.split(key, len(last)))
        return cls(times, np.asarray(paths), numbers, model)

    @property
    def mean(self) -> np.ndarray:
        """Mean of the path, (T, *shape)."""
        return self.paths.mean(axis=0)

    @property
    def sd(self) -> np.ndarray:
        """Its standard deviation."""
        return self.paths.std(axis=0, ddof=1)

    def interval(self, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of the path."""
        tail = 0.5 - 0.5 * checked_probability(probability)
        lower, upper = np.quantile(self.paths, (tail, 1.0 - tail), axis=0)
        return lower, upper

    def sample(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Draw `n` paths over the times, (n, T, *shape)."""
        return self.paths[self._chosen(n, seed)]

    def observations(self, n: int, *, seed: int = 0) -> np.ndarray:
        """Draw what would be observed, `n` times; the likelihood must know how to simulate."""
        chosen = self._chosen(n, seed)
        numbers = {place: values[chosen] for place, values in self.numbers.items()}
        with jax.enable_x64(True):
            keys = jr.split(jr.key(seed), n)
            return np.array(_simulate(keys, self._model, numbers, jnp.asarray(self.paths[chosen])))

    def log_density(self, x: Any) -> np.ndarray:
        """Log predictive density of every observation, each on its own, over all draws; NaN where x is."""
        x = np.asarray(x, dtype=np.float64)
        if not is_elementwise(self._model) or x.shape != self.paths.shape[1:]:
            raise ValueError(
                f"x has shape {x.shape}; a density needs one number for each of {self.paths.shape[1:]}, and "
                "a likelihood that sees every element on its own"
            )
        missing = np.isnan(x)
        if missing.all():
            return x
        self._model.likelihood.check(x)
        with jax.enable_x64(True):
            filled = jnp.asarray(np.where(missing, x[~missing][0], x))
            found = _log_density(filled, self._model, self.numbers, jnp.asarray(self.paths))
        return np.where(missing, np.nan, np.asarray(found))

    def _chosen(self, n: int, seed: int) -> np.ndarray:
        if n < 1:
            raise ValueError(f"at least one draw, got n={n}")
        return np.random.default_rng(seed).choice(len(self.paths), n, replace=n > len(self.paths))

    def __repr__(self):
        return f"DrawnPrediction({len(self.times)} times from {self.times[0]} to {self.times[-1]})"


def _on_device(numbers: dict[str, np.ndarray]) -> dict[str, Array]:
    return {place: jnp.asarray(values) for place, values in numbers.items()}


@eqx.filter_jit
def _go_on(
    model: Model, numbers: dict[str, np.ndarray], last: Array, gaps: Array, keys: Key[Array, " N"]
) -> Array:
    def one(own: dict[str, Array], first: Array, key: Key[Array, ""]) -> Array:
        steps = with_values(model, own).prior.steps(gaps)
        noise = jr.normal(key, (len(gaps), *first.shape), first.dtype)

        def step(value: Array, row: tuple[Array, Array, Array, Array]) -> tuple[Array, Array]:
            slope, shift, scale, noise = row
            value = slope * value + shift + scale * noise
            return value, value

        return jax.lax.scan(step, first, (steps.slope, steps.shift, steps.scale, noise))[1]

    return jax.vmap(one)(_on_device(numbers), last, keys)


@eqx.filter_jit
def _simulate(keys: Key[Array, " N"], model: Model, numbers: dict[str, np.ndarray], paths: Array) -> Array:
    def one(key: Key[Array, ""], own: dict[str, Array], path: Array) -> Array:
        return with_values(model, own).likelihood.simulate(key, path)

    return jax.vmap(one)(keys, _on_device(numbers), paths)


@eqx.filter_jit
def _log_density(x: Array, model: Model, numbers: dict[str, np.ndarray], paths: Array) -> Array:
    def add(total: Array, row: tuple[dict[str, Array], Array]) -> tuple[Array, None]:
        own, path = row
        return jnp.logaddexp(total, with_values(model, own).likelihood.terms(x, path)), None

    start = jnp.full(x.shape, -jnp.inf)
    total, _ = jax.lax.scan(add, start, (_on_device(numbers), paths))
    return total - jnp.log(len(paths))
