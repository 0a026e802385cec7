"""Every kind of file that the package writes and reads: how to make one, read it, and use what is in it."""

import dataclasses
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import driftline as dl
from driftline import words
from driftline.results import panel_file, posterior, refined
from driftline.results.refined import Refined
from driftline.storage import checked_files as files
from driftline.storage import mapped_files
from driftline.storage.kinds import FileKind
from driftline.words.atlas import atlas_file
from driftline.words.counts import counts as counts_file
from driftline.words.evaluation import score_files
from driftline.words.evaluation.scores import Evaluation, Scores
from driftline.words.fitting import checkpoints
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.trainers import make_trainer
from driftline.words.paths import priors
from driftline.words.settings import WordSettings
from support.atlases import known_atlas
from support.corpora import small_texts

DAYS = np.array(["2024-01-01", "2024-01-02", "2024-01-05", "2024-01-06"], dtype="datetime64[D]")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        make: Something to write.
        save: Writes it to a path.
        load: Reads it from there.
        use: Does with it what a user might, so that what is not sound has a chance to show.
        opened: Arrays and facts of a file, as they are.
        sealed: Writes arrays and facts, with checksums that fit.
    """

    make: Callable[[], Any]
    save: Callable[[Any, Path], Any]
    load: Callable[[Path], Any]
    use: Callable[[Any], Any]
    opened: Callable[[Path], tuple[dict[str, np.ndarray], Any]]
    sealed: Callable[[Path, dict[str, np.ndarray], Any], None]


def _in_files(kind: FileKind) -> dict[str, Any]:
    def sealed(path, arrays, facts):
        files.write(path, kind, arrays, facts)

    return {"opened": lambda path: files.read(path, kind), "sealed": sealed}


def _in_maps(kind: FileKind) -> dict[str, Any]:
    def opened(path):
        arrays, facts = mapped_files.read(path, kind)
        return {name: np.array(array) for name, array in arrays.items()}, facts

    def sealed(path, arrays, facts):
        mapped_files.write(path, kind, arrays, facts)

    return {"opened": opened, "sealed": sealed}


def _posterior(method="newton", prior=None):
    prior = dl.RandomWalk(dl.learn(0.5, positive=True)) if prior is None else prior
    options = {"max_iterations": 50} if method == "bbvi" else {}
    return dl.fit(
        dl.Model(prior, dl.Gaussian(0.3)), [1.0, np.nan, 2.0, 1.5], times=DAYS, method=method,
        progress=False, **options,
    )  # fmt: skip


def _refined():
    rng = np.random.default_rng(0)
    return Refined(
        draws=rng.normal(size=(2, 5, 4)), numbers={"prior.scale": rng.uniform(0.1, 1.0, (2, 5))},
        model=dl.Model(dl.RandomWalk(0.5), dl.Gaussian(0.3)), values=np.array([1.0, np.nan, 2.0, 1.5]),
        times=DAYS, time_unit=np.timedelta64(1, "D"), divergences=0, interrupted=False,
    )  # fmt: skip


def _use_refined(found):
    _use_posterior(found)
    found.sample(3), found.r_hat, found.ess
    if found.model is not None:
        found.forecast(1).observations(2)


def _use_posterior(post):
    repr(post), post.interval(0.9), repr(post.parameters)
    for number in post.parameters.values():
        number.interval(0.8)


def _panel(shared):
    model = dl.Model(dl.RandomWalk(dl.learn(0.5)), dl.Gaussian(0.3))
    series = {"a": [1.0, np.nan, 2.0, 1.5], 7: [0.5, 0.0]}
    times = {"a": DAYS, 7: DAYS[:2]}
    return dl.fit(model, series, times=times, shared=shared, parameters="maximise", progress=False)


def _use_panel(panel):
    repr(panel), panel.interval(0.9)
    for name in panel:
        _use_posterior(panel[name])


def _counts(parts=1):
    return words.count(small_texts(3, many=4), 8, parts=parts, step="year", progress=False)


def _use_counts(counts):
    repr(counts), counts.skipped, counts.step(0), counts.shuffled(1), counts.fingerprint


def _atlas(filtered=False):
    present = np.ones((5, 4), bool)
    present[1, 2] = present[3, 0] = False
    atlas = known_atlas(present, dim=2).atlas
    if not filtered:
        return atlas
    law = priors.make("stationary", atlas.dates, 0.02, 0.8, pace=np.zeros(5, np.int32))
    forward = atlas_file.forward("stationary", atlas.dates, 0.02, 0.8)
    sides = {
        side: dataclasses.replace(
            getattr(atlas, side), drift=law, lag_covariance=None, between="filtered", forward=forward
        )
        for side in ("words", "contexts")
    }
    settings = {"method": "dsg-f", "dim": 2, "prior": "stationary", "drift": 0.02, "scale": 0.8}
    return dataclasses.replace(atlas, drift=law, settings=settings, **sides)


def _use_atlas(atlas):
    repr(atlas), atlas.caveat, atlas.step(str(atlas.dates[-1]))


@functools.cache
def _problem(method):
    settings = WordSettings(method=method, dim=2)
    counts = _counts()
    return FittingProblem(counts, settings, np.arange(len(counts)))


def _state(method):
    entry = {
        "done": 2, "phase": "level", "score": None, "objective": -3.5, "boldness": 0.3, "dim": 2, "passes": 1,
        "taken_back": False,
    }  # fmt: skip
    return make_trainer(_problem(method)).begin().to_arrays(), 3, [entry]


def _scores():
    dates = np.array(["1900-01-01", "1901-01-01", "1902-01-01"], "datetime64[D]")
    methods = {name: Scores(np.array([1, 2]), np.array([-0.5, -0.625]), 1.5) for name in ("sgi", "dsg-f")}
    made_from = {"counts": "ab", "driftline": "0", "passes": {"sgi": [3], "dsg-f": [3], "dsg-s": [2, 1]}}
    return Evaluation(dates, np.array([1, 2]), methods, {"dim": 2}, made_from)


def _checkpoint(method):
    return Kind(
        lambda: _state(method),
        lambda found, path: checkpoints.write(path, _problem(method), *found),
        lambda path: checkpoints.read(path, _problem(method)),
        lambda found: make_trainer(_problem(method)).phase(*found[1:]),
        **_in_maps(checkpoints.KIND),
    )


def _seal_scores(path, _, facts):
    path.write_text(score_files.sealed(facts) if isinstance(facts, dict) else json.dumps(facts))


def _save_itself(found, path):
    found.save(path)


OF_POSTERIORS = _in_files(posterior.KIND)
OF_COUNTS = _in_files(counts_file.KIND)
OF_ATLASES = _in_maps(atlas_file.KIND)
KINDS = {
    "posterior": Kind(_posterior, _save_itself, dl.load, _use_posterior, **OF_POSTERIORS),
    "posterior by exact": Kind(
        lambda: _posterior("exact", dl.RandomWalk(0.5)),
        _save_itself, dl.load, _use_posterior, **OF_POSTERIORS,
    ),
    "refined": Kind(_refined, _save_itself, dl.load, _use_refined, **_in_files(refined.KIND)),
    "panel": Kind(lambda: _panel(True), _save_itself, dl.load, _use_panel, **_in_files(panel_file.KIND)),
    "panel with numbers of each": Kind(
        lambda: _panel(False), _save_itself, dl.load, _use_panel, **_in_files(panel_file.KIND)
    ),
    "counts": Kind(_counts, _save_itself, words.load_counts, _use_counts, **OF_COUNTS),
    "counts in parts": Kind(
        lambda: _counts(3), _save_itself, words.load_counts, _use_counts, **OF_COUNTS
    ),
    "atlas": Kind(_atlas, _save_itself, words.load, _use_atlas, **OF_ATLASES),
    "checkpoint of dsg-s": _checkpoint("dsg-s"),
    "checkpoint of dsg-f": _checkpoint("dsg-f"),
    "scores": Kind(
        _scores, _save_itself, Evaluation.load, str,
        lambda path: ({}, score_files.opened(path.read_bytes())),
        _seal_scores,
    ),
}  # fmt: skip
