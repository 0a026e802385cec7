"""Ten fits that are right and ten that are wrong, and evidence that is known otherwise."""

import numpy as np
import pytest

import driftline as dl
from support.verdicts import RIGHT, WRONG

# Every shape of a series is compiled on its own, so that only some run by default.
QUICK = ("counts", "coupled elements in chains", "a mirror image is missed", "too narrow", "wrong in a sum")


def each(cases):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in cases]


@pytest.mark.parametrize("name", each(RIGHT))
def test_a_fit_that_is_right_is_not_flagged(name):
    found = RIGHT[name]().diagnose()
    print(f"\n| {name} | {found.verdict} |")
    assert not found.flagged


@pytest.mark.parametrize("name", each(WRONG))
def test_a_fit_that_is_wrong_is_flagged(name):
    found = WRONG[name]().diagnose()
    print(f"\n| {name} | {found.verdict} |")
    assert found.flagged


def test_what_cannot_be_seen_is_said():
    assert "not seen" in str(RIGHT["linear and Gaussian"]().diagnose())


def test_a_block_is_named_as_the_remedy_for_coupled_elements():
    found = WRONG["coupled elements in chains"]().diagnose()
    assert found.block_gain > 0.5
    assert "structure='block'" in found.verdict
    # The sum is seen to 0.3, the difference hardly: chains make it as narrow as what they see.
    assert found.ratio > 2.0


def test_the_mirror_image_has_half_of_the_posterior():
    found = WRONG["a mirror image is missed"]().diagnose()
    assert 0.3 < found.elsewhere < 0.7


def test_structure_is_chosen_by_what_the_model_couples():
    x = np.zeros((6, 2))
    walk = dl.RandomWalk(0.1, shape=(2,))
    assert dl.fit(dl.Model(walk, dl.Gaussian(1.0)), x).structure == "chains"
    apart = dl.Likelihood(lambda x, z: -0.5 * ((x - z) ** 2).sum())
    assert dl.fit(dl.Model(walk, apart), x).structure == "chains"
    product = dl.Likelihood(lambda x, z: -0.5 * (x[0] - z[0] * z[1]) ** 2)
    assert dl.fit(dl.Model(walk, product), x).structure == "block"
    assert dl.fit(dl.Model(walk, product), x, structure="chains").structure == "chains"
