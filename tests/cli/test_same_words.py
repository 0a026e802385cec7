"""Options say what the arguments of Python say, by the same word."""

import argparse
import inspect

import pytest

from driftline import words
from driftline.cli import words as commands
from driftline.cli.main import main
from support.atlases import known_atlas

# Of arguments that are no options: which they are, and why.
ELSEWHERE = {
    "count": {"corpus": "TEXTS", "progress": "a terminal decides", "buffer": "changes no result"},
    "fit": {"counts": "COUNTS", "start": "an atlas in memory", "progress": "a terminal decides"},
    "evaluate": {
        "counts": "COUNTS",
        "path": "-o",
        "tell": "a terminal decides",
        "settings": "each by its name",
    },
    "neighbors": {"word": "WORD"},
    "similarity": {"a": "A", "b": "B"},
    "changed": {"bands": "always shown", "share": "stays a half"},
    "export": {"place": "-o"},
}
FUNCTIONS = {
    "count": words.count,
    "fit": words.fit,
    "evaluate": words.evaluate,
    **{name: getattr(words.Atlas, name) for name in ("neighbors", "similarity", "changed", "export")},
}


def options_of(command):
    parser = argparse.ArgumentParser()
    commands.add_parser(parser.add_subparsers())
    (found,) = (each for each in parser._actions if isinstance(each.choices, dict))
    (inner,) = (each for each in found.choices["words"]._actions if isinstance(each.choices, dict))
    actions = inner.choices[command]._actions
    return {name.lstrip("-").replace("-", "_") for action in actions for name in action.option_strings}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_every_argument_is_an_option_of_its_name(command):
    arguments = set(inspect.signature(FUNCTIONS[command]).parameters) - {"self"}
    missing = arguments - options_of(command)
    assert missing == ELSEWHERE[command].keys()


SAME = {
    "neighbors": (("word3",), {"--at": "--when"}),
    "changed": ((), {"--from": "--start", "--to": "--end"}),
    "export": (("-o", "vectors.csv", "--format", "csv"), {"--at": "--when"}),
}


@pytest.mark.parametrize("command", SAME)
def test_both_spellings_give_the_same_answer(command, tmp_path, monkeypatch, capsys):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    atlas = known_atlas(np.ones((9, 6), bool)).atlas
    atlas.save("x.atlas")
    arguments, spellings = SAME[command]
    dates = [str(atlas.dates[0]), str(atlas.dates[-1])]
    answers = []
    for names in (spellings.keys(), spellings.values()):
        asked = [part for name, date in zip(names, dates, strict=False) for part in (name, date)]
        assert main(["words", command, "x.atlas", *arguments, *asked]) == 0
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1] != ""


def test_neighbors_like_another_date_are_counterparts():
    import numpy as np

    atlas = known_atlas(np.ones((9, 6), bool)).atlas
    first, last = atlas.dates[0], atlas.dates[-1]
    found, wanted = atlas.neighbors("word3", first, like=last), atlas.counterparts("word3", last, first)
    assert found.words == wanted.words
    np.testing.assert_array_equal(found.expected, wanted.expected)
    assert found.vector_date == last
