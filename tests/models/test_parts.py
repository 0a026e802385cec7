"""Classes of models by the names that files give them."""

from typing import Any, ClassVar

import pytest

import driftline as dl
from driftline.models.abstract_likelihood import AbstractElementwise
from driftline.models.model_json import from_spec, to_spec
from driftline.models.parts import name_of, part_named


def scaled(factor):
    """A class of this module, as a notebook defines it anew."""

    class Scaled(AbstractElementwise):
        """Not a density; nothing here looks at its values."""

        width: Any
        own: ClassVar[float] = factor

        def __init__(self, width=1.0):
            self.width = width

        def terms(self, values, path):
            return self.own * (values - path)

        def simulate(self, key, path):
            return path

        def check(self, values):
            """Everything is possible."""

    return Scaled


@pytest.mark.parametrize("part", [dl.AR1, dl.Diffusion, dl.Poisson, dl.Categorical])
def test_a_class_of_driftline_is_known_by_its_bare_name(part):
    assert name_of(part) == part.__name__
    assert part_named(part.__name__) is part


@pytest.mark.parametrize("name", ["MarkovPrior", "Likelihood", "AbstractElementwise", "Model", "os.path"])
def test_what_is_not_made_of_numbers_is_no_part(name):
    with pytest.raises(ValueError, match=f"has the part '{name}', which is none of"):
        part_named(name)


def test_another_class_is_known_with_its_module_and_the_later_one_counts():
    first, second = scaled(1.0), scaled(2.0)
    assert name_of(first) == f"{__name__}.scaled.<locals>.Scaled"
    assert part_named(name_of(first)) is second


def test_a_class_of_another_package_does_not_stand_in_for_one_of_driftline():
    class Poisson(scaled(1.0)):
        """Of the same name."""

    model = dl.Model(dl.RandomWalk(), Poisson(width=3.0))
    assert type(from_spec(to_spec(model)).likelihood) is Poisson
    assert type(from_spec(to_spec(dl.Model(dl.RandomWalk(), dl.Poisson()))).likelihood) is dl.Poisson


def test_a_field_that_is_not_a_number_is_named():
    with pytest.raises(TypeError, match=r"Scaled\(width=...\) is .*made_of_numbers = False"):
        to_spec(dl.Model(dl.RandomWalk(), scaled(1.0)(width=len)))
