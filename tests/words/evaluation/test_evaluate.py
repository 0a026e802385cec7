"""The papers' protocol of evaluation."""

import dataclasses
import json

import numpy as np
import pytest

import driftline
from driftline import DivergenceError, words
from driftline.words.evaluation import comparison
from driftline.words.evaluation.evaluate import default_steps
from driftline.words.evaluation.scores import Evaluation
from support.words import stop_before

# Random texts support no dimension at all, which a fit tells.
pytestmark = pytest.mark.filterwarnings("ignore:the texts support")
PASSES = {"dsg-s": (20, 20), "dsg-s-past": (20, 20), "dsg-f": (30,), "sgp": (30,), "sgi": (30,)}


def test_table_figure_and_json_of_all_methods(counts, tmp_path):
    lines = []
    found = words.evaluate(counts, tuple(PASSES), 3, hold_out=[2, 3], passes=PASSES, tell=lines.append)
    assert set(found.methods) == set(PASSES)
    np.testing.assert_array_equal(found.methods["dsg-s"].steps, [2, 3])
    np.testing.assert_array_equal(found.methods["dsg-f"].steps, [1, 2, 3, 4])
    for scores in found.methods.values():
        assert (scores.scores < 0).all()
    table = str(found)
    assert "different tasks" in table
    assert f"{found.mean('sgi'):.4f}" in table
    found.save(tmp_path / "scores.json")
    facts = json.loads((tmp_path / "scores.json").read_text())
    assert facts["methods"]["dsg-f"]["mean_held_out"] == found.mean("dsg-f")
    assert str(Evaluation.load(tmp_path / "scores.json")) == table
    found.plot(tmp_path / "scores.png")
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")
    found.plot(tmp_path / "beside.png", {"sgi": (counts.dates, np.full(len(counts), -0.7))})
    assert (tmp_path / "beside.png").read_bytes() != (tmp_path / "scores.png").read_bytes()
    assert lines


def test_a_step_that_is_held_out_has_no_say(counts):
    """Other counts at the held-out step change its score, but nothing that is learnt."""
    first, last = (counts.indptr[counts.step_indptr[t]] for t in (2, 3))
    values = counts.values.copy()
    values[first:last] *= np.linspace(1.0, 9.0, last - first, dtype=np.float32)
    other = dataclasses.replace(counts, values=values)
    options = {"dim": 2, "passes": (5, 5), "hold_out": [2], "progress": False}
    atlases = [words.fit(each, **options) for each in (counts, other)]
    np.testing.assert_array_equal(atlases[0].words.mean, atlases[1].words.mean)
    assert atlases[0].history["objective"] == atlases[1].history["objective"]
    assert atlases[0].history["score"] != atlases[1].history["score"]


def test_interpolation_is_linear_in_time(counts):
    from driftline.words.fitting.held_out import interpolated_scores
    from driftline.words.fitting.problem import FittingProblem
    from driftline.words.fitting.scoring import score
    from driftline.words.settings import WordSettings

    problem = FittingProblem(counts, WordSettings(dim=2), np.array([0, 1, 3, 4]))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2, len(problem.knots), 2))
    (found,) = interpolated_scores(problem, np.array([2]), *rows)
    step = counts.step(2)
    days = counts.dates.astype(float)
    share = (days[2] - days[1]) / (days[3] - days[1])
    sides = []
    for side in rows:
        whole = np.zeros((len(step.words), 2))
        for i, word in enumerate(step.words):
            at = {}
            for t in (1, 2):  # of the training steps
                mine = np.flatnonzero(problem.knots.word == word)
                if len(mine):
                    known = problem.knots.step[mine]
                    grid = [problem.drift.covariance(word, np.minimum(t, known), np.maximum(t, known))]
                    among = problem.drift.covariance(
                        word, np.minimum.outer(known, known), np.maximum.outer(known, known)
                    )
                    at[t] = np.linalg.solve(among, side[mine]).T @ grid[0]
                else:
                    at[t] = np.zeros(2)
            whole[i] = (1 - share) * at[1] + share * at[2]
        sides.append(whole)
    assert found == pytest.approx(score(step, step.negatives(), *sides), rel=1e-5)


def test_default_steps_are_the_papers():
    assert default_steps(230).tolist() == list(range(4, 230, 10))
    assert default_steps(21).tolist() == [0, 5, 10, 15, 20]
    assert default_steps(5).tolist() == [2]  # the first cannot be predicted by what goes forward in time


def test_methods_are_compared_on_steps_that_all_predicted(counts):
    found = words.evaluate(counts, ("dsg-s", "sgp"), 2, hold_out=[0, 2], passes={"dsg-s": (5, 5), "sgp": 5})
    assert found.compared.tolist() == [2]
    assert found.mean("dsg-s") == found.methods["dsg-s"].scores[1]
    assert found.mean("sgp") == found.methods["sgp"].scores[1]
    assert "of 1 held-out steps" in str(found)


def without(counts, step):
    """The same counts with nothing at a step."""
    kept = slice(None, counts.step_indptr[step]), slice(counts.step_indptr[step + 1], None)
    step_indptr = counts.step_indptr.copy()
    step_indptr[step + 1 :] -= step_indptr[step + 1] - step_indptr[step]
    lengths = np.concatenate([np.diff(counts.indptr)[part] for part in kept])
    pairs = np.concatenate(
        [
            np.arange(counts.indptr[counts.step_indptr[step]]),
            np.arange(counts.indptr[counts.step_indptr[step + 1]], len(counts.values)),
        ]
    )
    return dataclasses.replace(
        counts,
        step_indptr=step_indptr,
        rows=np.concatenate([counts.rows[part] for part in kept]),
        indptr=np.append(0, np.cumsum(lengths)),
        indices=counts.indices[pairs],
        values=counts.values[pairs],
    )


def test_a_step_without_pairs_can_be_held_out_by_nobody(counts):
    from driftline.words.fitting.held_out import held_out_steps

    some = without(counts, 3)
    assert not len(some.step(3).words)
    np.testing.assert_array_equal(some.step(4).values, counts.step(4).values)
    for call in (words.fit, words.evaluate, held_out_steps):
        with pytest.raises(ValueError, match=f"step 3, {counts.dates[3]}, which has no pair"):
            call(some, hold_out=[2, 3])


def test_a_past_without_pairs_is_refused_before_any_work(counts, monkeypatch):
    late = without(without(counts, 0), 1)
    monkeypatch.setattr("driftline.words.evaluation.comparison.predict", pytest.fail)
    with pytest.raises(ValueError, match="no step before step 2 has a pair of words, so that dsg-s-past"):
        words.evaluate(late, ("sgp", "dsg-s-past"), 2, hold_out=[2, 3])


def test_what_memory_cannot_hold_is_refused_before_any_work(counts, monkeypatch):
    """That of the last method too; smoothing the past alone needs less than smoothing all steps."""
    from driftline.words.fitting import memory
    from driftline.words.fitting.problem import FittingProblem
    from driftline.words.settings import WordSettings

    some = np.setdiff1d(np.arange(len(counts)), [2])
    needed = [
        memory.estimate(FittingProblem(counts, WordSettings(dim=10**6), steps))
        for steps in (np.arange(2), some)
    ]
    monkeypatch.setattr("driftline.words.fitting.memory.available", lambda: sum(needed) // 2)
    monkeypatch.setattr(comparison, "predict", pytest.fail)
    with pytest.raises(MemoryError, match=r"^dsg-s: this fit needs .*; or leave it out of methods=$"):
        words.evaluate(counts, ("sgp", "dsg-s-past", "dsg-s"), 10**6, hold_out=[2])


@pytest.mark.parametrize(
    ("method", "place", "score", "step"),
    [
        ("sgp", "score", np.nan, 1),
        ("dsg-s", "interpolated_scores", np.array([np.nan]), 2),
        ("dsg-s-past", "interpolated_scores", np.array([np.nan]), 2),
    ],
)
def test_a_score_that_is_not_finite_is_refused(counts, monkeypatch, method, place, score, step):
    """By method and date, with the setting that is the likely cause."""
    monkeypatch.setattr(comparison, place, lambda *_: score)
    where = f"^{method} has a score of nan at step {step}, {counts.dates[step]}: "
    with pytest.raises(DivergenceError, match=rf"{where}.*take a scale= nearer to .* \(now 0\.4\)"):
        words.evaluate(counts, [method], 2, hold_out=[2], scale=0.4, passes=PASSES)


def test_the_line_told_of_a_method_has_the_mean_of_the_table(counts):
    """Which leaves out a step that another method cannot predict, here the first."""
    lines = []
    options = {"hold_out": [0, 2], "scale": 1.0, "passes": PASSES, "tell": lines.append}
    found = words.evaluate(counts, ("dsg-s", "sgp"), 2, **options)
    for method in found.methods:
        assert any(line.startswith(f"{method}: {found.mean(method):.4f}, ") for line in lines), lines


QUICK = {"dim": 2, "hold_out": [2], "passes": {"sgi": 3, "sgp": 3, "dsg-f": 3}}


@pytest.fixture
def begun(counts, tmp_path, monkeypatch):
    """Scores of `sgi`, of a comparison that was stopped during the method after it."""
    with monkeypatch.context() as patch:
        stop_before(patch, "sgp")
        with pytest.raises(KeyboardInterrupt):
            words.evaluate(counts, ("sgi", "sgp"), path=tmp_path / "scores.json", **QUICK)
    return tmp_path / "scores.json"


def test_a_comparison_goes_on_where_it_was_stopped(counts, begun, monkeypatch):
    assert list(Evaluation.load(begun).methods) == ["sgi"]
    asked, predict = [], comparison.predict
    monkeypatch.setattr(
        comparison, "predict", lambda *arguments: (asked.append(arguments[1]), predict(*arguments))[1]
    )
    found = words.evaluate(counts, ("sgi", "sgp"), path=begun, resume=True, **QUICK)
    assert asked == ["sgp"]
    whole = words.evaluate(counts, ("sgi", "sgp"), **QUICK)
    for method in ("sgi", "sgp"):
        np.testing.assert_array_equal(found.methods[method].scores, whole.methods[method].scores)
    assert str(Evaluation.load(begun)) == str(found)


def test_methods_that_are_not_asked_for_again_are_kept(counts, begun):
    words.evaluate(counts, ["dsg-f"], path=begun, resume=True, **QUICK)
    assert list(Evaluation.load(begun).methods) == ["sgi", "dsg-f"]


def test_an_unfinished_comparison_is_not_begun_anew_by_mistake(counts, begun):
    before = begun.read_bytes()
    with pytest.raises(ValueError, match=r"scores\.json is unfinished, without sgp: go on with resume=True"):
        words.evaluate(counts, ["sgi"], path=begun, **QUICK)
    assert begun.read_bytes() == before


def test_scores_say_what_they_were_made_from(begun):
    facts = json.loads(begun.read_text())
    assert facts["made_from"]["driftline"] == driftline.__version__
    assert facts["made_from"]["passes"] == {"sgi": [3], "sgp": [3]}
    assert len(facts["made_from"]["counts"]) == 64
    assert facts["settings"]["seed"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 3}, "dim 2, now 3"),
        ({"seed": 1}, "seed 0, now 1"),
        ({"scale": 0.5}, "scale None, now 0.5"),
        ({"hold_out": [3]}, r"held-out steps \[2\], now \[3\]"),
        ({"passes": {"sgi": 4}}, r"passes of sgi \[3\], now \[4\]"),
    ],
)
def test_scores_of_another_comparison_are_not_gone_on_from(counts, begun, change, message):
    before = begun.read_bytes()
    with pytest.raises(ValueError, match=rf"scores\.json .*another comparison \({message}\); give the same"):
        words.evaluate(counts, ("sgi", "sgp"), path=begun, resume=True, **(QUICK | change))
    assert begun.read_bytes() == before


def test_scores_of_other_counts_are_not_gone_on_from(counts, begun):
    other = dataclasses.replace(counts, values=2 * counts.values)
    with pytest.raises(ValueError, match=r"fingerprint of the counts \w{16}, now \w{16}\)"):
        words.evaluate(other, ("sgi", "sgp"), path=begun, resume=True, **QUICK)


def test_scores_of_another_version_are_not_gone_on_from(counts, begun, monkeypatch):
    monkeypatch.setattr(driftline, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"version of driftline .*, now 99\.0\)"):
        words.evaluate(counts, ("sgi", "sgp"), path=begun, resume=True, **QUICK)


def test_scores_from_before_are_read_but_not_gone_on_from(counts, begun):
    facts = json.loads(begun.read_text())
    del facts["made_from"], facts["sha256"]
    begun.write_text(json.dumps(facts))
    assert list(Evaluation.load(begun).methods) == ["sgi"]
    with pytest.raises(ValueError, match=r"scores\.json does not say what it was made from; begin again"):
        words.evaluate(counts, ("sgi", "sgp"), path=begun, resume=True, **QUICK)


def test_there_must_be_scores_to_go_on_from(counts, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no scores .*scores\.json to go on from; begin without"):
        words.evaluate(counts, path=tmp_path / "scores.json", resume=True)


@pytest.fixture
def full_disk(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_does_not_stop_a_comparison(counts, tmp_path):
    path = tmp_path / "scores.json"
    with pytest.warns(UserWarning, match=r"could not write .*scores\.json: the disk is full; .*goes on"):
        found = words.evaluate(counts, ["sgi", "sgp"], path=path, **QUICK)
    assert list(found.methods) == ["sgi", "sgp"]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_no_half_of_scores_or_picture(counts, tmp_path):
    found = words.evaluate(counts, ["sgi"], **QUICK)
    for write, name in ((found.save, "scores.json"), (found.plot, "scores.png")):
        (tmp_path / name).write_text("old")
        with pytest.raises(OSError, match=f"could not write .*{name}: the disk is full; choose another"):
            write(tmp_path / name)
        assert (tmp_path / name).read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"scores.json", "scores.png"}


@pytest.mark.parametrize(
    ("name", "start"), [("x.PNG", b"\x89PNG"), ("x.svg", b"<?xml"), ("x.pdf", b"%PDF"), ("x", b"\x89PNG")]
)
def test_a_picture_is_of_the_kind_that_its_name_says_and_has_that_name(counts, tmp_path, name, start):
    words.evaluate(counts, ["sgi"], **QUICK).plot(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["glove"]}, "methods has 'glove'"),
        ({"methods": []}, "methods is empty"),
        ({"hold_out": [7]}, "steps 0 to 4"),
        ({"hold_out": [0], "methods": ["dsg-s", "sgp"]}, "sgp cannot predict a step before step 1"),
        ({"hold_out": [0, 1], "methods": ["dsg-s-past"]}, "dsg-s-past cannot predict a step before step 2"),
        ({"hold_out": range(4), "methods": ["dsg-s"]}, "1 time steps are left"),
        ({"passes": {"dsg_s": 3}}, "passes has 'dsg_s'"),
        ({"passes": (60, 30)}, "passes=.* a dictionary is needed"),
        ({"checkpoint": "here"}, "no setting 'checkpoint'; it takes dim, drift"),
        ({"methods": ["sgi", "dsg-s"], "passes": {"dsg-s": 3}}, "has 2 phases"),
        ({"resume": True}, "resume=True needs path="),
        ({"path": "nowhere/scores.json"}, "path='nowhere/scores.json': there is no such folder"),
    ],
)
def test_bad_options_are_refused_before_any_work(counts, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        words.evaluate(counts, **options)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"methods": {"sgi": 3}}'])
def test_what_is_not_a_file_of_scores_is_refused(tmp_path, text):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(ValueError, match=r"scores\.json is not a file of scores"):
        Evaluation.load(tmp_path / "scores.json")
