"""The example for authors of queries: two files, put where the page says; nothing else is edited."""

import importlib
import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import driftline.cli.words as commands
import driftline.words.atlas as queries
from driftline.cli.main import main
from support.atlases import known_atlas

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "adding-a-query.md"


@pytest.fixture(autouse=True)
def _installed(tmp_path, monkeypatch):
    """The examples as modules beside the other queries and commands."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    places = {"closest_pairs": queries, "pairs": commands}
    for (name, package), block in zip(places.items(), blocks, strict=True):
        folder = tmp_path / f"{name}-example"
        folder.mkdir()
        (folder / f"{name}.py").write_text(block)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield
    for name, package in places.items():
        sys.modules.pop(f"{package.__name__}.{name}", None)
        vars(package).pop(name, None)


@pytest.fixture(params=[1, 2, 6])
def atlas(request):
    """Nine words over some steps, of which one is there at the first step only."""
    present = np.ones((9, request.param), bool)
    present[3, 1:] = False
    return known_atlas(present, dim=4).atlas


def test_pairs_are_those_of_the_mean_similarity(atlas):
    query = importlib.import_module("driftline.words.atlas.closest_pairs")
    means = {
        pair: np.nan_to_num(atlas.similarity(*pair).cosine).mean()
        for pair in itertools.combinations(atlas.vocabulary, 2)
    }
    expected = sorted(means, key=lambda pair: -means[pair])
    for n in (5, 99):
        found = query.closest_pairs(atlas, atlas.dates[0], atlas.dates[-1], n, min_count=0)
        assert found.pairs == tuple(expected[:n])
        np.testing.assert_allclose(found.similarities, [means[pair] for pair in expected[:n]], atol=1e-9)


def test_blocks_of_the_matrix_do_not_matter(atlas, monkeypatch):
    query = importlib.import_module("driftline.words.atlas.closest_pairs")
    span = atlas.dates[-1], atlas.dates[0]
    whole = query.closest_pairs(atlas, *span, 7, min_count=0)
    monkeypatch.setattr(query, "ROWS", 2)
    assert query.closest_pairs(atlas, *span, 7, min_count=0).pairs == whole.pairs


def test_the_command_prints_what_the_query_says(atlas, tmp_path, monkeypatch, capsys):
    query = importlib.import_module("driftline.words.atlas.closest_pairs")
    monkeypatch.chdir(tmp_path)
    atlas.save("x.atlas")
    span = str(atlas.dates[0]), str(atlas.dates[-1])
    asked = ["words", "pairs", "x.atlas", "--from", span[0], "--to", span[1], "--min-count", "0", "-n", "3"]
    assert main(asked) == 0
    assert capsys.readouterr().out == f"{query.closest_pairs(atlas, *span, 3, min_count=0)}\n"
    assert main([*asked, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["pairs"]) == 3
    assert main([*asked[:-4], "--min-count", "1000000"]) == 1
    assert "lower --min-count or take a longer span" in capsys.readouterr().err


def test_help_lists_the_command_between_the_questions_and_the_exports(capsys):
    with pytest.raises(SystemExit):
        main(["words", "--help"])
    listed = re.findall(r"^    (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert listed[-4:] == ["changed", "pairs", "export", "import"]
