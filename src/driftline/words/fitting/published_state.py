"""Where the published optimiser is: the family's numbers, and those of Adam."""

from typing import Any, NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array


class Parameters(NamedTuple):
    """Of the paths of words, or of contexts: numbers of the family, or of Adam for each of them.

    Attributes:
        natural: Means in the prior's natural coordinates, (R, d).
        diag: Diagonal of the factor of the precision, (R, d).
        upper: Its superdiagonal, (R - 1, d).
    """

    natural: Array
    diag: Array
    upper: Array


class Side(NamedTuple):
    """Paths of words, or of contexts, and where Adam is with them.

    Attributes:
        now: Of the family.
        first: First moments of their slopes.
        second: Second moments.
        count: Steps that each row has taken so far, (R, 1).
    """

    now: Parameters
    first: Parameters
    second: Parameters
    count: Array


class PublishedState(NamedTuple):
    """The state of the published optimiser."""

    word: Side
    context: Side

    def to_arrays(self) -> dict[str, Any]:
        """See `trainer.State`."""
        found = {}
        for name, side in self._asdict().items():
            found[f"{name}_count"] = side.count
            for prefix, kind in (("", "now"), ("first_", "first"), ("second_", "second")):
                parts = getattr(side, kind)._asdict()
                found |= {f"{prefix}{name}_{part}": array for part, array in parts.items()}
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """See `trainer.State`."""
        sides = []
        for name in cls._fields:
            kinds = [
                Parameters(*(jnp.asarray(arrays[f"{prefix}{name}_{part}"]) for part in Parameters._fields))
                for prefix in ("", "first_", "second_")
            ]
            sides.append(Side(*kinds, count=jnp.asarray(arrays[f"{name}_count"])))
        return cls(*sides)
