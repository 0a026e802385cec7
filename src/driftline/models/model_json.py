"""Models as plain JSON and back, for models that consist of named parts and numbers."""

from typing import Any

import numpy as np

from driftline.models.model import Model
from driftline.models.parts import name_of, part_named


def to_spec(model: Model) -> dict[str, Any] | None:
    """The model as JSON; None if it holds functions, which cannot be written to a file."""
    if not (model.prior.made_of_numbers and model.likelihood.made_of_numbers):
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


def _part(part: Any) -> dict[str, Any]:
    fields = {
        name: list(value) if name == "shape" else _number(part, name, value)
        for name, value in vars(part).items()
    }
    return {"part": name_of(type(part)), "arguments": fields}


def _number(part: Any, name: str, value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{type(part).__name__}({name}=...) is {value!r}, which a file cannot hold; keep numbers in its "
            "fields, or set made_of_numbers = False in the class to have files leave the model out"
        )
    return array.tolist()


def _build(spec: dict[str, Any]) -> Any:
    name, arguments = spec["part"], dict(spec["arguments"])
    if "shape" in arguments:
        arguments["shape"] = tuple(arguments["shape"])
    return part_named(name)(**arguments)
