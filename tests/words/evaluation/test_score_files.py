"""Files of scores, and checkpoints, whose checksum fits and whose content does not hold together."""

import copy

import numpy as np
import pytest

from driftline.words.evaluation.scores import Evaluation
from support.file_kinds import KINDS

SCORES = {
    "dates do not increase": lambda f: f.update(dates=f["dates"][::-1]),
    "dates are not text": lambda f: f.update(dates=[1, 2, 3]),
    "held_out are not among the dates": lambda f: f.update(held_out=[1, 3]),
    "held_out do not increase": lambda f: f.update(held_out=[2, 1]),
    "'guess' is none of": lambda f: f["methods"].update(guess=f["methods"]["sgi"]),
    "steps and scores of sgi do not agree": lambda f: f["methods"]["sgi"].update(scores=[-0.5]),
    "scores of sgi are not numbers": lambda f: f["methods"]["sgi"].update(scores=[-0.5, None]),
    "seconds of sgi is not a number": lambda f: f["methods"]["sgi"].update(seconds=-1.0),
    "mean of sgi is not that of its scores": lambda f: f["methods"]["sgi"].update(mean=-0.5),
    "has no step that all its methods predicted": lambda f: f.update(held_out=[0]),
    "sgi has other entries than scores": lambda f: f["methods"]["sgi"].pop("mean"),
    "it has no settings": lambda f: f.pop("settings"),
    "'more' in it": lambda f: f.update(more=1),
    "passes of sgi are not numbers": lambda f: f["made_from"]["passes"].update(sgi="3"),
}
STATES = {
    "it has no now_words": lambda a, f: a.pop("now_words"),
    "words has shape (3, 2)": lambda a, f: a.update(words=a["words"][:3]),
    "words has a number that is not finite": lambda a, f: a["words"].__setitem__((0, 0), np.nan),
    "word_variances has a negative variance": lambda a, f: a["word_variances"].__setitem__((0, 0), -1.0),
    "done is not a whole number": lambda a, f: f.update(done=True),
    "the history is not a list": lambda a, f: f.update(history={}),
    "the history is not in order": lambda a, f: f["history"].append(f["history"][0]),
    "objective in the history is not a number": lambda a, f: f["history"][0].update(objective="low"),
    "the history has the phase 3": lambda a, f: f["history"][0].update(phase=3),
    "'history'": lambda a, f: f.pop("history"),
}


def made(kind, path):
    kind.save(kind.make(), path)
    return copy.deepcopy(kind.opened(path))


@pytest.mark.parametrize("what", SCORES)
def test_scores_that_do_not_hold_together_are_refused(what, tmp_path):
    kind, path = KINDS["scores"], tmp_path / "some.json"
    _, facts = made(kind, path)
    SCORES[what](facts)
    kind.sealed(path, {}, facts)
    with pytest.raises(ValueError, match=r"some\.json.*; write it again") as caught:
        kind.load(path)
    assert what in str(caught.value)


def test_a_changed_digit_of_scores_is_noticed(tmp_path):
    path = tmp_path / "some.json"
    KINDS["scores"].save(KINDS["scores"].make(), path)
    path.write_text(path.read_text().replace("-0.625", "-0.626"))
    with pytest.raises(ValueError, match=r"some\.json is not a file of scores \(its content does not match"):
        Evaluation.load(path)


@pytest.mark.parametrize("what", STATES)
def test_states_of_fits_that_do_not_hold_together_are_refused(what, tmp_path):
    kind, path = KINDS["checkpoint of dsg-f"], tmp_path / "some.part"
    arrays, facts = made(kind, path)
    STATES[what](arrays, facts)
    kind.sealed(path, arrays, facts)
    with pytest.raises(
        ValueError, match=r"some\.part does not hold the state of a fit .*begin again"
    ) as caught:
        kind.load(path)
    assert what in str(caught.value)
