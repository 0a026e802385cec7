"""Fits from several seeds."""

import numpy as np
import pytest

from driftline import words
from driftline.words.fitting import training
from driftline.words.fitting.seeds import agreement, checkpoint_of, fit_seeds

# Random texts support no dimension at all, which a fit tells.
pytestmark = pytest.mark.filterwarnings("ignore:the texts support")
OPTIONS = {"dim": 3, "passes": (4, 4), "progress": False}


@pytest.fixture(scope="module")
def fits(small):
    return [words.fit(small, seed=seed, **OPTIONS) for seed in (5, 6, 7)]


@pytest.fixture(scope="module")
def small():
    from support.words import small_counts

    return small_counts()


def test_the_fit_with_the_highest_elbo_is_kept(small, fits):
    atlas, agreed = fit_seeds(words.fit, small, 3, seed=5, **OPTIONS)
    best = max(fits, key=lambda fit: fit.elbo)
    np.testing.assert_array_equal(atlas.words.mean, best.words.mean)
    assert atlas.settings["seed"] == best.settings["seed"]
    assert len({fit.elbo for fit in fits}) == 3
    assert agreed == agreement(fits)
    assert agreed["elbo_difference"] > 0


def test_of_point_estimates_the_first_is_kept(small):
    atlas, agreed = fit_seeds(words.fit, small, 2, method="sgi", dim=3, passes=(2,), progress=False)
    assert atlas.settings["seed"] == 0
    assert agreed["elbo_difference"] is None


def test_each_seed_goes_on_from_its_own_checkpoint(small, tmp_path, monkeypatch):
    whole, agreed = fit_seeds(words.fit, small, 2, **OPTIONS)
    begun = []
    fit = training.fit

    def interrupted(counts, **options):
        begun.append(options["seed"])
        if options["seed"] == 1:
            raise KeyboardInterrupt
        return fit(counts, **options)

    place = tmp_path / "state"
    monkeypatch.setattr(training, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit_seeds(words.fit, small, 2, checkpoint=place, every=0.0, **OPTIONS)
    assert begun == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint_of(place, 0).name]
    monkeypatch.setattr(training, "fit", fit)
    atlas, again = fit_seeds(words.fit, small, 2, checkpoint=place, resume=True, every=0.0, **OPTIONS)
    np.testing.assert_array_equal(atlas.words.mean, whole.words.mean)
    assert again == agreed


def test_what_is_no_number_of_seeds_is_refused(small, tmp_path):
    for seeds in (1, 2.5, True):
        with pytest.raises(ValueError, match=f"seeds={seeds}; a whole number of at least 2"):
            fit_seeds(words.fit, small, seeds)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint .*x\.seed0, nor of a later seed"):
        fit_seeds(words.fit, small, 2, checkpoint=tmp_path / "x", resume=True)
