import dataclasses

import numpy as np
import pytest

from driftline.words.atlas.pictures import draw_similarity
from driftline.words.evaluation.pictures import draw_scores
from driftline.words.evaluation.scores import Evaluation, Scores
from support.atlases import known_atlas

ENDS = {
    "the first years": ["0001-01-01", "0002-01-01", "0005-01-01"],
    "the last years": ["9990-01-01", "9998-01-01", "9999-12-31"],
    "all of them": ["0001-01-01", "1000-01-01", "9999-12-31"],
    "days": ["9999-12-29", "9999-12-30", "9999-12-31"],
    "usual ones": ["1900-01-01", "1950-01-01", "2000-01-01"],
}


@pytest.mark.parametrize("case", ENDS)
def test_pictures_reach_to_the_ends_of_the_calendar(tmp_path, case):
    pytest.importorskip("matplotlib")
    dates, steps = np.array(ENDS[case], "datetime64[D]"), np.arange(3)
    scores = np.array([-0.6, -0.7, -0.65])
    evaluation = Evaluation(dates, np.array([1]), {"dsg-s": Scores(steps, scores, 1.0)}, {})
    draw_scores(evaluation, tmp_path / "scores.png", {"dsg-s": (dates, scores)})
    found = known_atlas(np.ones((2, 3), bool)).atlas.similarity("word0", "word1")
    draw_similarity([dataclasses.replace(found, dates=dates)], tmp_path / "pair.png")
    for name in ("scores.png", "pair.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
