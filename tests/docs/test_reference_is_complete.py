"""What is public is in the reference: names, commands, options."""

import dataclasses
import inspect
import pkgutil
import re

import equinox as eqx
import pytest

import driftline as dl
from command_markdown import markdown, options, parsers
from driftline import datasets, linalg, words
from support.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
AUTODOC = re.compile(r"^\.\. auto(?:function|class|exception|module):: ([\w.]+)", re.MULTILINE)
COMMAND = re.compile(r"^```\{command\} ?(.*)$", re.MULTILINE)
# How the kernels are run, not what they do.
INTERNAL = {"backend", "lengths", "linear_solve", "parallel", "sequential", "small"}
GROUPS = {"", "words"}  # commands that only hold others


def documented() -> set[str]:
    pages = (path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    return {name for page in pages for name in AUTODOC.findall(page)}


def commands() -> set[str]:
    return set(COMMAND.findall((REFERENCE / "commands.md").read_text(encoding="utf-8")))


PUBLIC = [f"driftline.{name}" for name in dl.__all__ if name != "__version__"]
PUBLIC += [f"driftline.words.{name}" for name in words.__all__]
PUBLIC += [
    f"driftline.linalg.{each.name}"
    for each in pkgutil.iter_modules(linalg.__path__)
    if each.name not in INTERNAL
]
PUBLIC += ["driftline.datasets"]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_in_the_reference(name):
    assert name in documented(), f"add {name} to a page in docs/reference"


def test_the_reference_names_nothing_that_is_not_public():
    assert documented() == set(PUBLIC)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name.count(".") < 3])
def test_a_public_name_has_a_docstring_that_says_something(name):
    place = {"driftline": dl, "driftline.words": words}.get(name.rpartition(".")[0])
    found = datasets if name == "driftline.datasets" else getattr(place, name.rpartition(".")[2], linalg)
    assert len(inspect.getdoc(found) or "") > 20


def test_every_command_is_in_the_reference():
    assert commands() == set(parsers()) - GROUPS


@pytest.mark.parametrize("name", sorted(set(parsers()) - GROUPS))
def test_every_option_of_a_command_is_explained(name):
    page = markdown(parsers()[name])
    for option in options(parsers()[name]):
        spelt = option.option_strings[-1] if option.option_strings else option.metavar or option.dest
        assert spelt in page
        assert option.help, f"driftline {name}: {spelt} has no help"


def results() -> list[type]:
    """Public classes with fields that users read; those of models and families are constructor arguments."""
    found = [getattr(dl, name) for name in dl.__all__] + [getattr(words, name) for name in words.__all__]
    return [each for each in found if dataclasses.is_dataclass(each) and not issubclass(each, eqx.Module)]


@pytest.mark.parametrize("cls", results(), ids=lambda cls: cls.__name__)
def test_every_field_of_a_result_is_described(cls):
    names = {field.name for field in dataclasses.fields(cls) if not field.name.startswith("_")}
    described = set(re.findall(r"^    (\w+): ", inspect.getdoc(cls), flags=re.MULTILINE))
    assert names <= described, f"{cls.__name__}: {sorted(names - described)}"
