"""Ctrl-C: what has been fitted is returned and says so; before that, nothing is."""

import numpy as np
import pytest

import driftline as dl
from driftline.infer import newton
from driftline.infer.bbvi import optimise as bbvi
from driftline.infer.learning import ascent

X = np.array([3.0, 5.0, 4.0, 6.0, 2.0])
FIXED = dl.Model(dl.RandomWalk(0.3), dl.Poisson())


def interrupted_at(monkeypatch, module, name, call):
    """Let the given call of a function be interrupted."""
    original, calls = getattr(module, name), []

    def tired(*arguments, **options):
        calls.append(None)
        if len(calls) == call:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, tired)


@pytest.mark.parametrize(
    ("method", "module", "name"),
    [
        ("newton", newton, "begin"),
        ("newton", newton, "iterate"),
        ("bbvi", bbvi, "_take_steps"),
        ("bbvi", bbvi, "_standard_deviations"),
        ("mean-field", bbvi, "_take_steps"),
    ],
)
def test_an_interruption_before_the_first_step_is_passed_on(monkeypatch, method, module, name):
    interrupted_at(monkeypatch, module, name, 1)
    with pytest.raises(KeyboardInterrupt):
        dl.fit(FIXED, X, method=method)


@pytest.mark.parametrize("method", ["bbvi", "mean-field"])
def test_an_interruption_after_a_block_of_steps_returns_them(monkeypatch, method):
    interrupted_at(monkeypatch, bbvi, "_take_steps", 2)
    post = dl.fit(FIXED, X, method=method)
    assert not post.converged
    assert post.message == "interrupted after 50 steps"


def hill(raws, q):
    zeros = np.zeros(len(raws))
    return ascent.Fitted(-((raws - 3.0) ** 2).sum(axis=1), -2.0 * (raws - 3.0), zeros, q, zeros)


@pytest.mark.parametrize("call", [1, 2])
def test_climbs_that_have_not_moved_have_no_result(call):
    calls = []

    def tired(raws, q):
        calls.append(None)
        if len(calls) == call:
            raise KeyboardInterrupt
        return hill(raws, q)

    with pytest.raises(KeyboardInterrupt):
        ascent.climb(np.zeros((2, 1)), np.zeros((2, 1)), tired, ascent.Reporter("learning", 60, False))


def test_an_interrupted_climb_counts_the_moves_that_it_made():
    calls = []

    def tired(raws, q):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return hill(raws, q)

    found = ascent.climb(np.zeros((2, 1)), np.zeros((2, 1)), tired, ascent.Reporter("learning", 60, False))
    assert found.interrupted.all()
    assert found.climbs.tolist() == [1, 1]


def test_series_of_a_panel_with_numbers_of_their_own_say_that_they_were_interrupted():
    model = dl.Model(dl.RandomWalk(dl.learn(0.2), initial_mean=1.0), dl.Poisson())

    def stop(progress):
        if progress.method == "learning":
            raise KeyboardInterrupt

    panel = dl.fit(model, np.stack([X, X[::-1]], axis=1), shared=False, progress=stop)
    assert panel.message == "interrupted, 2 series not converged"
    assert not panel.converged_each.any()
