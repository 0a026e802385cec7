"""Priors and likelihoods by the names that files give them: every class there is, with no list to keep."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import driftline.models as own
from driftline.models.abstract_likelihood import AbstractLikelihood
from driftline.models.abstract_prior import AbstractPrior


def name_of(part: type) -> str:
    """The name of a class in a file: its own if it is driftline's, else that of its module before it."""
    if part.__module__.startswith(f"{own.__name__}."):
        return part.__name__
    return f"{part.__module__}.{part.__qualname__}"


def part_named(name: str) -> Any:
    """The class that a file means: one of driftline's, or one of a module that has been imported.

    Nothing is imported because a file says so.
    """
    parts = _parts()
    if name not in parts:
        module = name.rpartition(".")[0]
        remedy = f"; import {module} before you load the file" if module else ""
        raise ValueError(f"a model has the part {name!r}, which is none of {', '.join(parts)}{remedy}")
    return parts[name]


def _parts() -> dict[str, type]:
    """Every class that can be built from numbers; of two with one name, as in a notebook, the later one."""
    for module in pkgutil.iter_modules(own.__path__, f"{own.__name__}."):
        importlib.import_module(module.name)
    found = (*_below(AbstractPrior), *_below(AbstractLikelihood))
    return {name_of(part): part for part in found if part.made_of_numbers and not inspect.isabstract(part)}


def _below(part: Any) -> Iterator[Any]:
    """All classes that derive from one, in the order of their definition."""
    for derived in part.__subclasses__():
        yield derived
        yield from _below(derived)
