"""Models as plain JSON and back, for models that consist of named parts and numbers."""

from typing import Any

import numpy as np

import driftline.models as parts
from driftline.models.function_likelihood import Likelihood
from driftline.models.markov_prior import MarkovPrior
from driftline.models.model import Model

# The only classes that a file may name; what is not here cannot be built from a file.
PARTS = {
    part.__name__: part
    for part in (
        parts.AR1, parts.Diffusion, parts.OrnsteinUhlenbeck, parts.RandomWalk,
        parts.Bernoulli, parts.Binomial, parts.Categorical, parts.Gaussian, parts.LogVolatility,
        parts.NegativeBinomial, parts.Poisson, parts.StudentT,
    )
}  # fmt: skip


def to_spec(model: Model) -> dict[str, Any] | None:
    """The model as JSON; None if it holds functions, which cannot be written to a file."""
    if isinstance(model.prior, MarkovPrior) or isinstance(model.likelihood, Likelihood):
        return None
    return {"prior": _part(model.prior), "likelihood": _part(model.likelihood)}


def from_spec(spec: dict[str, Any]) -> Model:
    """The model that `to_spec` described."""
    model = Model(_build(spec["prior"]), _build(spec["likelihood"]))
    if to_spec(model) != spec:
        raise ValueError("a part of the model has other numbers, or fewer, than it takes")
    return model


def shapes_of(model: Model) -> dict[str, tuple[int, ...]]:
    """Shapes of the numbers of such a model by their places, such as `prior.decay`."""
    return {
        f"{part}.{name}": np.shape(value)
        for part in ("prior", "likelihood")
        for name, value in vars(getattr(model, part)).items()
        if name != "shape"
    }


def _part(part):
    fields = {
        name: list(value) if name == "shape" else np.asarray(value).tolist()
        for name, value in vars(part).items()
    }
    return {"part": type(part).__name__, "arguments": fields}


def _build(spec):
    name, arguments = spec["part"], dict(spec["arguments"])
    if name not in PARTS:
        raise ValueError(f"a model has the part {name!r}, which is none of {', '.join(PARTS)}")
    if "shape" in arguments:
        arguments["shape"] = tuple(arguments["shape"])
    return PARTS[name](**arguments)
