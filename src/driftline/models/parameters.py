"""Numbers that a fit should learn: where they start, where they may go, and what is believed of them."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

PARTS = ("prior", "likelihood")


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

    def from_raw(self, raw: Any) -> Any:
        """The value itself, from a number without bounds; NumPy's arrays stay such, and compile nothing."""
        own: Any = np if isinstance(raw, np.ndarray) else jnp
        if np.isfinite(self.upper):
            # By the logarithm of the odds, since the sigmoid itself overflows in NumPy.
            share = own.exp(-own.logaddexp(0.0, -raw))
            return self.lower + (self.upper - self.lower) * share
        return self.lower + own.exp(raw) if np.isfinite(self.lower) else raw

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
        origin: The mark that the user made, if this one was narrowed to what a place allows; marks of one
            origin are one number.
    """

    start: np.ndarray
    support: Support
    origin: "Learn | None" = None

    @property
    def identity(self) -> int:
        """The same for marks of one number, wherever they stand."""
        return id(self.origin or self)


def learn(
    start: Any,
    *,
    positive: bool = False,
    between: tuple[float, float] | None = None,
    prior: Callable | None = None,
) -> Learn:
    """Mark a number of a model as one that the fit should learn.

    The same mark in several places is one number. It may go where all of them allow it.

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
    return checked(Learn(number.start, support, number.origin or number), owner)


def learnt(model: Any) -> dict[str, Learn]:
    """The learnt numbers of a model by their places, such as `prior.decay`.

    A number that stands in several places is listed once, under the first of them.
    """
    found: dict[int, tuple[str, Learn]] = {}
    for place, leaf in _leaves(model):
        if not isinstance(leaf, Learn):
            continue
        first, other = found.setdefault(leaf.identity, (place, leaf))
        if other is not leaf:
            ends = other.support.lower, other.support.upper
            found[leaf.identity] = first, narrowed(leaf, f"{first} and {place}", *ends)
    return dict(found.values())


def ties_of(*parts: Any) -> tuple[tuple[str, ...], ...]:
    """Places of a prior and a likelihood that share a learnt number, one group for each such number."""
    groups: dict[int, list[str]] = {}
    for name, part in zip(PARTS, parts, strict=True):
        for place, leaf in _leaves_of(name, part):
            if isinstance(leaf, Learn):
                groups.setdefault(leaf.identity, []).append(place)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def places_of(model: Any, place: str) -> tuple[str, ...]:
    """All places of the number at a place, which itself comes first."""
    others = (other for group in model.ties if place in group for other in group)
    return (place, *(other for other in others if other != place))


def at_start(model: Any) -> Any:
    """The model with every learnt number where it starts: what a user's function can be called with."""
    return with_values(model, {place: number.start for place, number in learnt(model).items()})


def numbers_of(part: Any) -> list[Any]:
    """All numbers of a prior or a likelihood; of those that are learnt, where they start."""
    return [leaf.start if isinstance(leaf, Learn) else leaf for leaf in jax.tree.leaves(part)]


def with_values(model: Any, values: dict[str, Any]) -> Any:
    """The model with the numbers at some places replaced, and those that share a number with them."""
    if not values:
        return model
    tied = {other: value for place, value in values.items() for other in places_of(model, place)}
    values = tied | values
    found = dict(_leaves(model))
    unknown = next((place for place in values if place not in found), None)
    if unknown is not None:
        raise ValueError(f"the model has no number at {unknown!r}; it has {', '.join(found)}")
    structure = jax.tree.structure(model, is_leaf=_is_leaf)
    return jax.tree.unflatten(structure, [values.get(place, leaf) for place, leaf in found.items()])


def _leaves(model):
    """Every leaf of a model with its place, in the order of the tree."""
    return [pair for name in PARTS for pair in _leaves_of(name, getattr(model, name))]


def _leaves_of(name, part):
    fields = {field.name for field in dataclasses.fields(part)}
    leaves, _ = jax.tree_util.tree_flatten_with_path(part, is_leaf=_is_leaf)
    return [(name + _place(path, fields), leaf) for path, leaf in leaves]


def _is_leaf(leaf):
    return isinstance(leaf, Learn) or leaf is None


def _place(path, fields):
    """A path within a part as users write it; entries of `params` stand beside the fields."""
    first, *rest = path
    key = getattr(rest[0], "key", None) if rest else None
    if first.name == "params" and _is_name(key) and key not in fields:
        return "".join(map(_step, rest))
    return "".join(map(_step, path))


def _step(entry):
    key = next(getattr(entry, kind) for kind in ("name", "key", "idx") if hasattr(entry, kind))
    return f".{key}" if _is_name(key) else f"[{key!r}]"


def _is_name(key):
    return isinstance(key, str) and key.isidentifier()
