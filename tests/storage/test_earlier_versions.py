"""Files that earlier versions wrote still load, each folder of `earlier` by its version."""

import json
from pathlib import Path

import numpy as np
import pytest

import driftline as dl

FOLDERS = sorted((Path(__file__).parent / "earlier").iterdir())


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request):
    return request.param


@pytest.fixture
def facts(folder):
    return json.loads((folder / "facts.json").read_text())


def test_posteriors(folder, facts):
    post = dl.load(folder / "posterior.driftline")
    np.testing.assert_allclose(post.mean, facts["posterior"]["mean"], rtol=1e-14)
    np.testing.assert_allclose(post.sd, facts["posterior"]["sd"], rtol=1e-10)
    assert post.elbo == facts["posterior"]["elbo"]
    assert post.forecast(2).mean.shape == (2,)


def test_refined_posteriors(folder, facts):
    refined = dl.load(folder / "refined.driftline")
    np.testing.assert_allclose(refined.mean, facts["refined"]["mean"], rtol=1e-14)


def test_counts(folder, facts):
    counts = dl.load(folder / "counts.driftline")
    assert list(counts.vocabulary) == facts["counts"]["vocabulary"]
    assert len(counts) == facts["counts"]["steps"]


def test_atlases(folder, facts):
    found = dl.load(folder / "atlas.driftline").similarity("w0", "w1").mean
    np.testing.assert_allclose(found, facts["atlas"]["similarity"], rtol=1e-6)


def test_scores(folder):
    assert dl.load(folder / "scores.json").mean("sgi") < 0


def test_an_unfinished_fit_is_told_from_results(folder):
    """That it goes on is tested with the trainers."""
    with pytest.raises(ValueError, match="an unfinished fit of words; go on with words.fit"):
        dl.load(folder / "checkpoint.driftline")
