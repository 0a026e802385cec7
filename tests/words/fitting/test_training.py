"""`words.fit`: results, interruptions, and what it refuses."""

import itertools
import signal

import numpy as np
import pytest

from driftline import DivergenceError, words
from driftline.words.fitting import checkpoints, memory, published
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.progress import FitReporter
from driftline.words.fitting.scoring import score
from driftline.words.fitting.smoothing import Smoother
from driftline.words.fitting.trainers import make_trainer
from driftline.words.settings import WordSettings
from support.words import dense_counts, planted_counts, small_counts

# Random texts support no dimension at all, which a fit tells.
pytestmark = pytest.mark.filterwarnings("ignore:the texts support")
PASSES = {"dsg-s": (50, 30), "dsg-f": (12,), "sgp": (12,), "sgi": (12,)}


class Stopped(Exception):
    """Raised in the middle of a fit."""


@pytest.mark.parametrize("method", PASSES)
def test_a_fit_gives_an_atlas_that_survives_its_file(counts, method, tmp_path):
    atlas = words.fit(counts, method, dim=4, passes=PASSES[method], progress=False)
    assert atlas.vocabulary == counts.vocabulary
    assert atlas.settings["method"] == method
    assert (atlas.elbo is None) == (method in ("sgp", "sgi"))  # points have none
    atlas.save(tmp_path / "atlas")
    again = words.load(tmp_path / "atlas")
    np.testing.assert_array_equal(again.words.mean, atlas.words.mean)
    assert (
        again.neighbors("w0", counts.dates[0], n=3).words == atlas.neighbors("w0", counts.dates[0], n=3).words
    )


@pytest.mark.parametrize(
    ("method", "when"),
    [
        *itertools.product([*PASSES, "paper"], [1, 2, 3]),  # of "dsg-s", two of levels and one of paths
    ],
)
def test_a_resumed_fit_is_the_same_bit_for_bit(method, when, tmp_path, monkeypatch):
    counts = small_counts(num_steps=8)
    options = {"dim": 4, "hold_out": [0, 2, 3, 6]}  # of which some are scored before a stop, and some after
    if method == "paper":
        # A size of minibatch is compiled in, by the number of words; no other test has this one.
        monkeypatch.setattr(published, "SAMPLE", len(counts.vocabulary) // 2)
        options |= {"optimiser": "paper", "passes": (3, 3)}
        method = "dsg-s"
    else:
        options["passes"] = PASSES[method]
    words.fit(counts, method, progress=False, **options).save(tmp_path / "whole")

    def stop(progress):
        if progress.done == when and not (tmp_path / "stopped").exists():
            (tmp_path / "stopped").touch()
            raise Stopped

    # Saved after every pass, and stopped before the save of pass `when`.
    with pytest.raises(Stopped):
        words.fit(counts, method, checkpoint=tmp_path / "part", every=0.0, progress=stop, **options)
    resume = (tmp_path / "part").exists()
    assert resume == (when > 1)
    atlas = words.fit(
        counts, method, checkpoint=tmp_path / "part", resume=resume, every=0.0, progress=False, **options
    )
    atlas.save(tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_fit_of_no_passes_is_the_prior(counts):
    atlas = words.fit(counts, dim=4, optimiser="paper", passes=(0, 0), progress=False)
    assert not np.any(atlas.words.mean)
    problem = FittingProblem(counts, WordSettings(), np.arange(len(counts)))
    assert -np.inf < atlas.elbo < problem.total * np.log(0.5)
    assert atlas.message == "the published optimiser took its 0 steps, and has no other end"


def test_a_checkpoint_of_another_fit_is_refused(counts, tmp_path):
    place = tmp_path / "part"
    words.fit(counts, dim=4, passes=(2, 1), checkpoint=place, every=0.0, progress=False)
    with pytest.raises(ValueError, match="another fit"):
        words.fit(counts, dim=5, passes=(2, 1), checkpoint=place, resume=True, progress=False)
    data = bytearray(place.read_bytes())
    data[-5] ^= 1
    place.write_bytes(data)
    with pytest.raises(ValueError, match="damaged"):
        words.fit(counts, dim=4, passes=(2, 1), checkpoint=place, resume=True, progress=False)


def test_progress_tells_phase_objective_score_and_time_left(counts):
    told = []
    atlas = words.fit(counts, dim=4, scale=0.3, hold_out=[1], progress=told.append)
    phases = [entry.phase for entry in told]
    assert phases == ["level"] * phases.count("level") + ["paths"] * phases.count("paths")
    assert min(phases.count("level"), phases.count("paths")) > 1
    assert atlas.history["phase"] == phases
    assert atlas.history["objective"] == [entry.objective for entry in told]
    assert atlas.history["score"] == [entry.score for entry in told]
    assert [entry.done for entry in told] == list(range(1, len(told) + 1))
    assert all(-1.0 < entry.score < 0.0 for entry in told)
    assert told[-1].left == 0.0
    assert told[-1].planned == len(told)
    assert told[2].left > 0.0
    # The last look at the ELBO is with the best precisions for the last means.
    assert atlas.elbo >= told[-1].objective - 1e-3


def test_the_time_left_of_dates_is_that_of_all_steps(monkeypatch):
    clock = iter([0.0, 9.0, 10.0, 13.0, 15.0])  # the first step compiles
    monkeypatch.setattr("driftline.words.fitting.progress.time.monotonic", lambda: next(clock))
    told = []
    reporter = FitReporter(told.append, {})
    for done in range(1, 5):
        reporter.update(f"190{done}-01-01", done, {"": 8.0 - done}, None, None)
    assert [entry.left for entry in told] == [None, 6 * 1.0, 5 * 2.0, 4 * 2.0]
    assert [entry.planned for entry in told] == [8] * 4


def test_progress_of_a_resumed_fit_counts_what_is_left(monkeypatch):
    clock = iter([0.0, 5.0, 6.0, 8.0])
    monkeypatch.setattr("driftline.words.fitting.progress.time.monotonic", lambda: next(clock))
    told = []
    reporter = FitReporter(told.append, {"level": 1.0, "paths": 10.0})
    for phase, done, left in (("level", 3, 4.0), ("paths", 4, 3.0), ("paths", 5, 2.0)):
        reporter.update(phase, done, {"paths": left}, None, None)
    # The first pass compiles, which says nothing of the others.
    assert [entry.left for entry in told] == [None, 3 * 1.0, 2 * 2.0]


def test_phases_to_come_are_expected_to_take_what_their_effort_says(monkeypatch):
    clock = iter([0.0, 9.0, 10.0, 30.0])
    monkeypatch.setattr("driftline.words.fitting.progress.time.monotonic", lambda: next(clock))
    told = []
    reporter = FitReporter(told.append, {"level": 0.5, "paths": 4.0})
    reporter.update("level", 1, {"level": 1.0, "paths": 4.0}, None, None)
    reporter.update("level", 2, {"paths": 4.0}, None, None)
    reporter.update("paths", 3, {"paths": 3.0}, None, None)
    assert [entry.left for entry in told] == [None, 4 * 8.0, 3 * 20.0]


def test_effort_is_least_where_steps_are_pooled(counts):
    trainer = make_trainer(FittingProblem(counts, WordSettings(dim=2), np.arange(len(counts))))
    level, paths = trainer.phases
    assert (level.name, paths.name) == ("level", "paths")
    assert level.effort < paths.effort


def test_rounds_to_come_are_guessed_from_how_gains_fall(counts):
    trainer = make_trainer(FittingProblem(counts, WordSettings(dim=2), np.arange(len(counts))))
    assert trainer.ahead(0, []) == {"level": 10, "paths": 10}
    entry = {"phase": "paths", "taken_back": False, "boldness": 1.0, "passes": 9, "dim": 2}
    # Gains of 64, then 32 nats, halving, down to 0.24 (0.02 for each of twelve words): seven rounds more.
    history = [entry | {"objective": objective} for objective in (-164.0, -100.0, -68.0)]
    enough = trainer.phases[1].enough(-68.0)
    assert trainer.ahead(3, history) == {"paths": pytest.approx(np.log2(32.0 / enough), rel=1e-9)}


def test_scores_are_the_likelihood_per_count(counts):
    rng = np.random.default_rng(0)
    step = counts.step(2)
    u, v = rng.normal(size=(2, len(step.words), 3))
    from driftline.words.settings import WordSettings

    positives, negatives = dense_counts(counts, 2, WordSettings())
    positives = positives[np.ix_(step.words, step.words)]
    negatives = negatives[np.ix_(step.words, step.words)]
    logits = u @ v.T
    total = -(positives * np.logaddexp(0, -logits) + negatives * np.logaddexp(0, logits)).sum()
    expected = total / (positives + negatives).sum()
    assert score(step, step.negatives(), u, v) == pytest.approx(expected, rel=1e-12)
    assert score(step, step.negatives(), 0 * u, v) == pytest.approx(np.log(0.5))


def test_a_fit_that_cannot_fit_into_memory_is_refused_with_advice(counts, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10_000_000)
    with pytest.raises(MemoryError, match=r"GB are free: take a smaller dim= \(now 12\)"):
        words.fit(counts, progress=False)


@pytest.mark.parametrize(("limit", "free"), [("7000", 4500), ("1500", 0), ("max", None)])
def test_the_limit_of_a_container_counts_too(limit, free, tmp_path):
    for name, text in {"max": limit, "current": "3000", "stat": "anon 2500\ninactive_file 500"}.items():
        (tmp_path / f"memory.{name}").write_text(f"{text}\n")
    assert memory._in_the_container(tmp_path) == free
    assert memory._in_the_container(tmp_path / "none") is None


@pytest.mark.parametrize("method", ["dsg-f", "sgp", "sgi"])
def test_progress_of_methods_that_go_step_by_step_has_the_score_of_held_out_steps(counts, method):
    told = []
    atlas = words.fit(counts, method, dim=4, passes=20, hold_out=[1, 4], progress=told.append)
    expected = []
    for held_out, before in ((1, 0), (4, 2)):  # the last of them is the third of the fit
        step = counts.step(held_out)
        sides = (side.at_step(before)[0][step.words] for side in (atlas.words, atlas.contexts))
        expected.append(score(step, step.negatives(), *sides))
    assert told[0].score == pytest.approx(expected[0], rel=1e-4)
    assert told[1].score == told[0].score
    assert told[-1].score == pytest.approx(np.mean(expected), rel=1e-4)
    # Of the steps so far, each of which adds to it.
    assert np.all(np.diff([entry.objective for entry in told]) < 0.0)
    assert atlas.history["objective"] == [entry.objective for entry in told]
    assert atlas.history["score"] == [entry.score for entry in told]


@pytest.mark.parametrize(("method", "name"), [("dsg-f", "ELBO"), ("sgp", "log joint"), ("sgi", "log joint")])
def test_progress_step_by_step_says_which_objective_it_shows(counts, method, name, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("driftline.terminal.INTERVAL", 0.0)
    words.fit(counts, method, dim=2, passes=2, progress=True)
    shown = capsys.readouterr().err
    assert f"{name} -" in shown
    assert ("ELBO" in shown) == (name == "ELBO")


def test_progress_says_which_objective_it_shows(counts, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("driftline.terminal.INTERVAL", 0.0)
    words.fit(counts, dim=2, passes=(20, 20), progress=True)
    shown = capsys.readouterr().err
    assert shown.index("level  ") < shown.index("ELBO") < shown.index("paths  ")
    assert "log joint" not in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "word2vec"}, "method='word2vec'; choose one of dsg-s"),
        ({"dim": 0}, "dim=0"),
        ({"drift": -1.0}, "drift=-1.0; a positive number"),
        ({"scale": 1e200}, r"scale=1e\+200; its square is out of range"),
        ({"scale": 1e-200}, "scale=1e-200; its square is out of range"),
        ({"prior": "flat"}, "prior='flat'"),
        ({"passes": (3,)}, "has 2 phases, such as"),
        ({"minutes": 0}, "minutes=0; a positive number"),
        ({"minutes": -1.0}, "minutes=-1.0; a positive number"),
        ({"seeds": 0}, "seeds=0; a whole number of at least 2"),
        ({"hold_out": [9]}, "hold_out has step 9"),
        ({"hold_out": [0, 1, 2, 3]}, "at least two"),
        ({"resume": True}, "needs checkpoint="),
        ({"checkpoint": "no/such/folder/part"}, "no such folder"),
    ],
)
def test_bad_options_are_refused_by_name(counts, options, message):
    with pytest.raises(ValueError, match=message):
        words.fit(counts, progress=False, **options)


def test_a_fit_that_diverges_says_so(counts, monkeypatch):
    monkeypatch.setattr(Smoother, "objective", lambda *_: float("nan"))
    with pytest.raises(DivergenceError, match="the objective is -inf after 1 rounds"):
        words.fit(counts, dim=2, passes=(10, 0), progress=False)


def test_nothing_lies_beside_a_checkpoint(counts, tmp_path):
    words.fit(counts, dim=2, passes=(1, 1), checkpoint=tmp_path / "part", every=0.0, progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def test_a_full_disk_is_named_with_the_remedy_and_the_fit_goes_on(counts, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    options = {"dim": 2, "passes": (1, 1), "progress": False}
    expected = words.fit(counts, **options)
    monkeypatch.setattr(checkpoints.mapped_files, "write", full)
    with pytest.warns(UserWarning, match=r"could not save the fit to .*part.*checkpoint=; the fit goes on"):
        atlas = words.fit(counts, checkpoint=tmp_path / "part", every=0.0, **options)
    np.testing.assert_array_equal(atlas.words.mean, expected.words.mean)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_fit_at_the_end_of_a_pass_with_a_checkpoint(counts, tmp_path, number):
    before = signal.getsignal(number)

    def stop(progress):
        if progress.done == 2:
            signal.raise_signal(number)

    options = {"dim": 2, "passes": (20, 20), "checkpoint": tmp_path / "part"}
    with pytest.raises(KeyboardInterrupt) as stopped:
        words.fit(counts, progress=stop, **options)
    assert stopped.value.args == (number,)
    assert signal.getsignal(number) == before
    assert len(words.fit(counts, resume=True, progress=False, **options).history["done"])


def test_a_program_that_minds_sigterm_itself_goes_on_doing_so(counts):
    told = []
    before = signal.signal(signal.SIGTERM, lambda *_: told.append("asked"))
    try:
        words.fit(counts, dim=2, passes=(1, 1), progress=lambda _: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "asked" in told


@pytest.mark.parametrize("phase", ["level", "paths"])
def test_a_resumed_fit_that_learns_everything_is_the_same_bit_for_bit(phase, tmp_path):
    """Also its dimension, which falls on the way, and the noise between steps."""
    counts = planted_counts()
    whole = words.fit(counts, progress=False)
    assert whole.dim < min(whole.history["dim"][0], 20)
    when = len(whole.history["done"]) - 1 if phase == "paths" else whole.history["dim"].index(whole.dim) + 1
    assert whole.history["phase"][when - 1] == phase

    def stop(progress):
        if progress.done == when:
            raise Stopped

    with pytest.raises(Stopped):
        words.fit(counts, checkpoint=tmp_path / "part", every=0.0, progress=stop)
    again = words.fit(counts, checkpoint=tmp_path / "part", resume=True, progress=False)
    whole.save(tmp_path / "whole")
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_published_optimiser_never_says_that_it_has_converged(counts):
    for options in ({"passes": (1, 1)}, {"method": "sgi", "passes": (1,)}):
        atlas = words.fit(counts, dim=2, optimiser="paper", progress=False, **options)
        assert atlas.converged is False
        assert "has no other end" in atlas.caveat
