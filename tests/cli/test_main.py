import pytest

from driftline.cli import main as module
from driftline.cli.main import main


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "demo" in capsys.readouterr().out


def test_the_demo_prints_a_table_and_writes_two_pictures(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "level falls from 10" in out
    assert "it fell with probability 0.99" in out
    for name in ("nile.png", "coal.png"):
        assert (tmp_path / "new" / name).read_bytes().startswith(b"\x89PNG")
        assert name in out


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
