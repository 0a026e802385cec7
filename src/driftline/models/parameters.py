"""Numbers that a fit should learn: where they start, where they may go, and what is believed of them."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@dataclasses.dataclass(frozen=True)
class Support:
    """Where a number may be and what is believed of it before the fit.

    Attributes:
        lower: Lower end, or minus infinity.
        upper: Upper end, or infinity.
        prior: Log density on the number's own scale; None for a flat one.
    """

    lower: float
    upper: float
    prior: Callable | None

    def to_raw(self, value: np.ndarray) -> np.ndarray:
        """A value as a number without bounds."""
        if np.isfinite(self.upper):
            share = (value - self.lower) / (self.upper - self.lower)
            return np.log(share) - np.log1p(-share)
        return np.log(value - self.lower) if np.isfinite(self.lower) else value

    def from_raw(self, raw: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The value itself, from a number without bounds."""
        if np.isfinite(self.upper):
            return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(raw)
        return self.lower + jnp.exp(raw) if np.isfinite(self.lower) else raw

    def log_stretch(self, raw: Float[Array, "*shape"]) -> Float[Array, ""]:
        """Log derivative of `from_raw`, summed: what turns a density on one scale into one on the other."""
        if np.isfinite(self.upper):
            log_slopes = jax.nn.log_sigmoid(raw) + jax.nn.log_sigmoid(-raw)
            return jnp.sum(log_slopes) + raw.size * math.log(self.upper - self.lower)
        return jnp.sum(raw) if np.isfinite(self.lower) else jnp.zeros((), raw.dtype)

    def log_prior(self, value: Float[Array, "*shape"]) -> Float[Array, ""]:
        """Log density that is believed of the number; zero if none was given."""
        return jnp.zeros((), value.dtype) if self.prior is None else jnp.sum(self.prior(value))


@dataclasses.dataclass(frozen=True, eq=False)
class Learn:
    """A number to be learnt; made by `learn`.

    Attributes:
        start: Where the fit begins.
        support: Where it may go.
    """

    start: np.ndarray
    support: Support


def learn(
    start: Any,
    *,
    positive: bool = False,
    between: tuple[float, float] | None = None,
    prior: Callable | None = None,
) -> Learn:
    """Mark a number of a model as one that the fit should learn.

    Args:
        start: Where the fit begins; a number, or an array of numbers.
        positive: Whether it must be greater than zero.
        between: Lower and upper end of where it may be.
        prior: Log density on the number's own scale, any JAX function; it need not be normalised. None
            for a flat one.

    Example:
        >>> import driftline as dl
        >>> walk = dl.RandomWalk(scale=dl.learn(0.1, positive=True))
    """
    if positive and between is not None:
        raise ValueError("learn takes positive=True or between=(lower, upper), not both")
    lower, upper = (0.0, np.inf) if positive else between or (-np.inf, np.inf)
    if not lower < upper or np.isfinite(lower) < np.isfinite(upper):
        raise ValueError(f"learn(between=...) takes a lower and a higher finite number, got {between!r}")
    support = Support(float(lower), float(upper), prior)
    return checked(Learn(np.asarray(start, dtype=np.float64), support), "learn")


def checked(number: Learn, owner: str) -> Learn:
    """Refuse a learnt number that starts where it may not be, or where its prior has no mass."""
    start, support = number.start, number.support
    if not np.all((start > support.lower) & (start < support.upper)) or not np.all(np.isfinite(start)):
        raise ValueError(
            f"{owner}: a learnt number starts at {start}, outside of its support from {support.lower:g} to "
            f"{support.upper:g}; start it inside"
        )
    if support.prior is not None:
        with jax.enable_x64(True):
            mass = float(support.log_prior(jnp.asarray(start)))
        if not np.isfinite(mass):
            raise ValueError(
                f"{owner}: the prior of a learnt number has no mass where it starts: its log density at "
                f"{start} is {mass}; start it elsewhere, or give it a wider prior"
            )
    return number


def narrowed(number: Learn, owner: str, lower: float, upper: float) -> Learn:
    """A learnt number kept within what its place in the model allows."""
    support = number.support
    support = dataclasses.replace(support, lower=max(lower, support.lower), upper=min(upper, support.upper))
    return checked(Learn(number.start, support), owner)


def learnt(model: Any) -> dict[str, Learn]:
    """The learnt numbers of a model by their places, such as `prior.decay`."""
    return {place: number for part in ("prior", "likelihood") for place, number in _places(model, part)}


def numbers_of(part: Any) -> list[Any]:
    """All numbers of a prior or a likelihood; of those that are learnt, where they start."""
    return [leaf.start if isinstance(leaf, Learn) else leaf for leaf in jax.tree.leaves(part)]


def with_values(model: Any, values: dict[str, Any]) -> Any:
    """The model with every learnt number replaced by a value."""
    if not values:
        return model
    return eqx.tree_at(
        lambda model: [_find(model, place) for place in values],
        model,
        list(values.values()),
        is_leaf=lambda leaf: isinstance(leaf, Learn) or leaf is None,
    )


def _places(model, part):
    owner = getattr(model, part)
    for name, value in vars(owner).items():
        entries = value.items() if name == "params" and isinstance(value, dict) else [(name, value)]
        for entry, number in entries:
            if isinstance(number, Learn):
                yield f"{part}.{entry}", number


def _find(model, place):
    part, name = place.split(".", 1)
    owner = getattr(model, part)
    return getattr(owner, name) if hasattr(owner, name) else owner.params[name]
