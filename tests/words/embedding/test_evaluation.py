"""The papers' protocol of evaluation."""

import dataclasses
import json

import numpy as np
import pytest

from driftline import words
from driftline.words.evaluation import Evaluation, default_steps

PASSES = {"dsg-s": (20, 20, 0), "dsg-s-past": (20, 20, 0), "dsg-f": (30,), "sgp": (30,), "sgi": (30,)}


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
    options = {"dim": 2, "passes": (5, 5, 0), "hold_out": [2], "progress": False}
    atlases = [words.fit(each, **options) for each in (counts, other)]
    np.testing.assert_array_equal(atlases[0].words.mean, atlases[1].words.mean)
    assert atlases[0].history["objective"] == atlases[1].history["objective"]
    assert atlases[0].history["score"] != atlases[1].history["score"]


def test_interpolation_is_linear_in_time(counts):
    from driftline.words.embedding.held_out import interpolated_scores
    from driftline.words.embedding.problem import Problem
    from driftline.words.embedding.scoring import score
    from driftline.words.settings import Settings

    problem = Problem(counts, Settings(dim=2), np.array([0, 1, 3, 4]))
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
                    grid = [problem.drift.covariance(np.minimum(t, known), np.maximum(t, known))]
                    among = problem.drift.covariance(
                        np.minimum.outer(known, known), np.maximum.outer(known, known)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["glove"]}, "methods has 'glove'"),
        ({"methods": []}, "methods is empty"),
        ({"hold_out": [7]}, "steps 0 to 4"),
    ],
)
def test_bad_options_are_refused(counts, options, message):
    with pytest.raises(ValueError, match=message):
        words.evaluate(counts, **options)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"methods": {"sgi": 3}}'])
def test_what_is_not_a_file_of_scores_is_refused(tmp_path, text):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(ValueError, match=r"scores\.json is not a file of scores"):
        Evaluation.load(tmp_path / "scores.json")
