"""The learnt numbers of a model as one vector without bounds."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftline.models.parameters import Learn, Support


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which numbers are learnt, and how they lie in one vector; hashable, as compilation needs."""

    places: tuple[str, ...]
    supports: tuple[Support, ...]
    shapes: tuple[tuple[int, ...], ...]
    flat: bool  # whether the density is taken on the numbers' own scale, without the stretch of the map

    @classmethod
    def of(cls, numbers: dict[str, Learn], *, flat: bool) -> "Layout":
        """The layout of a model's learnt numbers, by place."""
        return cls(
            tuple(numbers),
            tuple(number.support for number in numbers.values()),
            tuple(number.start.shape for number in numbers.values()),
            flat=flat,
        )

    def parts(self) -> dict[str, slice]:
        """Where in the vector each number is."""
        ends = np.cumsum([0, *(int(np.prod(shape)) for shape in self.shapes)])
        return {
            place: slice(int(start), int(end))
            for place, start, end in zip(self.places, ends[:-1], ends[1:], strict=True)
        }

    def free(self) -> np.ndarray:
        """Which elements of the vector are numbers without bounds, as they are: they may have any size."""
        kinds = [
            np.full(int(np.prod(shape)), np.isneginf(support.lower))
            for support, shape in zip(self.supports, self.shapes, strict=True)
        ]
        return np.concatenate(kinds)

    def split(self, raw: Float[Array, " K"]) -> dict[str, Float[Array, "..."]]:
        """The vector as one array for each number, still without bounds."""
        parts = self.parts()
        return {
            place: raw[parts[place]].reshape(shape)
            for place, shape in zip(self.places, self.shapes, strict=True)
        }

    def values(self, raw: Float[Array, " K"]) -> dict[str, Float[Array, "..."]]:
        """The numbers themselves."""
        parts = self.split(raw)
        return {
            place: support.from_raw(parts[place])
            for place, support in zip(self.places, self.supports, strict=True)
        }

    def values_of_many(self, raws: np.ndarray) -> dict[str, np.ndarray]:
        """The numbers of many vectors, (P, K), in NumPy: their number is never twice the same."""
        parts = self.parts()
        return {
            place: support.from_raw(raws[:, parts[place]].reshape(len(raws), *shape))
            for place, support, shape in zip(self.places, self.supports, self.shapes, strict=True)
        }

    def log_prior(self, raw: Float[Array, " K"]) -> Float[Array, ""]:
        """Log prior density of the vector."""
        parts, values = self.split(raw), self.values(raw)
        total = jnp.zeros((), raw.dtype)
        for place, support in zip(self.places, self.supports, strict=True):
            total += support.log_prior(values[place])
            if not self.flat:
                total += support.log_stretch(parts[place])
        return total
