"""What a word model is made of, besides its counts: hyperparameters.

The papers' values are defaults, but for the prior: its normalised form, with vectors of about the size that
they turn out to have, predicts better on all corpora that were tried (`docs/words.md`).
"""

import dataclasses
import math
from typing import Any, Literal

METHODS = ("dsg-s", "dsg-f", "sgp", "sgi")
# What `words.evaluate` knows, and the first step that each can predict.
COMPARED = {"sgi": 1, "sgp": 1, "dsg-f": 1, "dsg-s": 0, "dsg-s-past": 2}
PRIORS = ("stationary", "diffusion")
OPTIMISERS = ("fast", "paper")
LEARNT = ("drift", "scale")  # if they are not given, by methods that can
DIM, DRIFT, SCALE = 100, 1e-3, 0.3  # at most, and where nothing is learnt


@dataclasses.dataclass(frozen=True)
class WordSettings:
    """Hyperparameters of a fit.

    Attributes:
        method: "dsg-s" (smoothing), "dsg-f" (filtering), "sgp" or "sgi" (point estimates step by step,
            started from the step before or from random numbers).
        dim: Dimension of the embeddings; None for as many as the texts support, up to 100 (DSG-S), or 100.
        drift: Variance that an embedding gathers in a year, D; None to learn it (DSG-S), or 0.001.
        scale: Width of the pull towards zero; with the stationary prior, the standard deviation of a
            component at the first step, which then falls to 0.7 times that. The papers have 1, with the
            diffusion prior. None to learn it (DSG-S), or 0.3.
        prior: "stationary", in which a step depends on the one before and no more; or "diffusion", the
            papers' joint form, which pulls towards zero at every step and so narrows as steps are added.
        ratio: Negative for each positive count.
        exponent: Flattens the distribution of negative contexts.
        optimiser: "fast", or "paper" for the published one.
        passes: How often the optimiser may go through the counts, at most, in each of its phases; of the
            published one, how often it does.
        seed: The same seed gives the same numbers.
    """

    method: Literal["dsg-s", "dsg-f", "sgp", "sgi"] = "dsg-s"
    dim: int | None = None
    drift: float | None = None
    scale: float | None = None
    prior: Literal["stationary", "diffusion"] = "stationary"
    ratio: float = 1.0
    exponent: float = 0.75
    optimiser: Literal["fast", "paper"] = "fast"
    passes: tuple[int, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("method", self.method, METHODS),
            ("prior", self.prior, PRIORS),
            ("optimiser", self.optimiser, OPTIMISERS),
        ):
            if value not in known:
                raise ValueError(f"{name}={value!r}; choose one of {', '.join(known)}")
        if self.dim is not None:
            _check_whole("dim", self.dim, 1)
        _check_whole("seed", self.seed, 0)
        for name in ("drift", "scale", "ratio", "exponent"):
            value = getattr(self, name)
            if value is None and name in LEARNT:
                continue
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ValueError(f"{name}={value!r}; a positive number is needed")
        if self.scale is not None and not 0 < float(self.scale) * float(self.scale) < math.inf:
            raise ValueError(f"scale={self.scale!r}; its square is out of range: take one nearer to 1")
        object.__setattr__(self, "passes", tuple(self.passes) or default_passes(self.method, self.optimiser))
        wanted = len(default_passes(self.method, self.optimiser))
        if len(self.passes) != wanted:
            raise ValueError(
                f"passes={self.passes}; {self.method} with optimiser={self.optimiser!r} has {wanted} "
                f"phase{'s' if wanted > 1 else ''}, such as {default_passes(self.method, self.optimiser)}"
            )
        for number in self.passes:
            _check_whole("passes", number, 0)

    @property
    def numbers(self) -> tuple[float, float]:
        """Drift and width of the prior; those that are not given as they are where nothing is learnt."""
        return (
            DRIFT if self.drift is None else self.drift,
            SCALE if self.scale is None else self.scale,
        )

    @property
    def signature(self) -> str:
        """Text that tells settings apart. Checkpoints hold a hash of it, so it must stay as it is."""
        fields = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self))
        return f"Settings({', '.join(fields)})"

    def to_facts(self) -> dict[str, Any]:
        """The settings as JSON can say them."""
        return dataclasses.asdict(self) | {"passes": list(self.passes)}


def default_passes(method: str, optimiser: str) -> tuple[int, ...]:
    """How often each phase goes through the counts: of the fast optimiser, at most (`docs/words.md`)."""
    if method == "dsg-s":
        return (2000, 1000) if optimiser == "fast" else (5000, 1000)
    return (2000,) if optimiser == "fast" else (5000,)


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}; a whole number of at least {least} is needed")
