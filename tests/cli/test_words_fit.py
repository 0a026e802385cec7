import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from driftline import words
from driftline.cli.main import main
from support.processes import PLAN, fit, stop_at_checkpoint
from support.words import stop_before

QUICK = ("--dim", "2", "--passes", "2", "2")


@pytest.fixture
def folder(tmp_path, monkeypatch, made):
    monkeypatch.chdir(tmp_path)
    shutil.copy(made / "counts.counts", tmp_path)
    return tmp_path


def run(*arguments):
    return main(["words", "fit", "counts.counts", *map(str, arguments)])


def test_the_atlas_is_that_of_the_library(folder, capsys):
    options = (
        "--drift",
        "0.02",
        "--scale",
        "0.9",
        "--prior",
        "stationary",
        "--ratio",
        2,
        "--exponent",
        "0.5",
    )
    assert run(*QUICK, *options, "--seed", 3, "--hold-out", 1, "4:8:3", "-o", "got.atlas") == 0
    counts = words.load_counts("counts.counts")
    named = {"drift": 0.02, "scale": 0.9, "prior": "stationary", "ratio": 2.0, "exponent": 0.5, "seed": 3}
    expected = words.fit(counts, dim=2, passes=(2, 2), hold_out=[1, 4, 7], progress=False, **named)
    expected.save("expected.atlas")
    assert (folder / "got.atlas").read_bytes() == (folder / "expected.atlas").read_bytes()
    assert not (folder / "got.atlas.part").exists()
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line)
    assert re.match(r"about 0\.\d GB, of [\d.]+ GB that are free", rows["memory"])
    assert rows["steps"] == "5, from 1900-01-01 to 1960-01-01"
    assert rows["words"] == "31, in 2 dimensions"
    assert rows["ELBO"] == f"{expected.elbo:,.0f} nats"
    assert rows["ended"] == "NOT CONVERGED: the level phase reached its limit of 2 passes"
    assert re.match(
        r"width 0.9, drift 0.02 a year on average; noise between steps [\d.]+ times", rows["prior"]
    )
    assert re.match(r"got.atlas \(\d+ kB\)", rows["Atlas:"])
    assert rows["Next:"] == "driftline words changed got.atlas --from 1900 --to 1960"


@pytest.mark.parametrize("method", ["dsg-f", "sgp", "sgi"])
def test_the_other_methods(folder, method, capsys):
    assert run("--method", method, "--dim", 2, "--passes", 2, "-o", "x.atlas") == 0
    assert words.load("x.atlas").settings["method"] == method
    assert ("ELBO" in capsys.readouterr().out) == (method == "dsg-f")  # points have none


BAD = {
    "a dimension of none": (("--dim", 0), "--dim 0; a whole number of at least 1"),
    "an infinite drift": (("--drift", "inf"), "--drift inf; a positive number"),
    "passes of another method": (
        ("--method", "sgi", "--passes", 1, 2),
        r"--passes \(1, 2\); sgi with --optim",
    ),
    "a step that is not there": (("--hold-out", 8), "step 8, but the counts have steps 0 to 7"),
    "steps that are not there": (("--hold-out", "8:20"), "--hold-out 8:20 is none of the steps, .* 0 to 7;"),
    "no step between": (("--hold-out", "1", "5:2:2"), "--hold-out 5:2:2 is none of the steps"),
    "nothing left": (("--hold-out", "1:"), "1 time steps are left to fit; .*: hold out fewer"),
    "no checkpoint": (("--resume",), "there is no checkpoint x.atlas.part to go on from"),
    "a checkpoint that is the atlas": (("--checkpoint", "x.atlas"), "--checkpoint 'x.atlas' is the file"),
    "the counts as a checkpoint": (("--checkpoint", "counts.counts"), "is one of the files to read"),
    "the counts as an atlas": (("-o", "counts.counts"), "is one of the files to read"),
    "no such folder": (("-o", "nowhere/x.atlas"), "there is no folder nowhere"),
    "a folder": (("-o", "."), "is a folder; name a file, such as words.atlas"),
    "no time": (("--minutes", 0), "--minutes 0.0; a positive number is needed"),
    "no seeds": (("--seeds", 0), "--seeds 0; a whole number of at least 2"),
    "time that runs backwards": (("--every", -1), "--every -1.0; a number of seconds"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing_behind(folder, capfd, case):
    options, message = BAD[case]
    out = () if "-o" in options else ("-o", "x.atlas")
    assert run(*options, *out) == 1
    captured = capfd.readouterr()
    assert captured.err.count("\n") == 1
    assert re.search(f"^driftline: .*{message}", captured.err), captured.err
    assert {path.name for path in folder.iterdir()} == {"counts.counts"}


@pytest.mark.parametrize(
    "option",
    [
        ("--hold-out", "x"),
        ("--hold-out", "1:2:0"),
        ("--method", "word2vec"),
        ("--dim", "x"),
        ("--dim", "-3"),
        ("--dim", "2.5"),
        ("--minutes", "soon"),
        ("--seeds", "two"),
    ],
)
def test_wrong_usage(folder, capsys, option):
    with pytest.raises(SystemExit) as stop:
        run("-o", "x.atlas", *option)
    assert stop.value.code == 2
    assert "usage: driftline words fit" in capsys.readouterr().err


def test_damaged_counts_are_refused(folder, capsys):
    content = (folder / "counts.counts").read_bytes()
    flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
    for damaged in (content[:-10], flipped, b"", b"date,text\n1850,a b\n"):
        (folder / "counts.counts").write_bytes(damaged)
        assert run("-o", "x.atlas") == 1
        assert re.match("driftline: counts.counts .*\n$", capsys.readouterr().err)


def test_too_little_memory_is_told_with_advice(folder, capsys, monkeypatch):
    monkeypatch.setattr("driftline.words.fitting.memory.available", lambda: 10**8)
    assert run("-o", "x.atlas") == 1
    err = capsys.readouterr().err
    assert re.match(
        r"driftline: this fit needs about 0.6 GB and 0.1 GB are free: take a smaller --dim \(", err
    )
    assert {path.name for path in folder.iterdir()} == {"counts.counts"}


@pytest.fixture(scope="module")
def whole(made, tmp_path_factory):
    """The atlas of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copy(made / "counts.counts", folder)
    out, err = fit(folder).communicate(timeout=300)
    assert not err, err
    assert "Next:" in out
    return (folder / "out.atlas").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_fit_that_is_stopped_goes_on_to_the_same_atlas(folder, whole, capsys, number):
    part = folder / "out.atlas.part"
    process = fit(folder)
    stop_at_checkpoint(process, part, number)
    _, err = process.communicate(timeout=60)
    assert part.exists()
    assert not (folder / "out.atlas").exists()
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        told = "what is done is in out.atlas.part: the same command with --resume goes on from there"
        assert err == f"driftline: interrupted; {told}\n"
    (folder / ".out.atlas.part.0123456789ab").write_text(
        "a half, as a kill in the middle of a write leaves it"
    )
    # Not by mistake anew, nor with other settings.
    assert run(*PLAN, "-o", "out.atlas") == 1
    assert "go on with --resume, or delete it" in capsys.readouterr().err
    assert run(*PLAN, "--seed", 1, "-o", "out.atlas", "--resume") == 1
    assert "is a checkpoint of another fit" in capsys.readouterr().err
    process = fit(folder, "--resume")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (folder / "out.atlas").read_bytes() == whole
    assert {path.name for path in folder.iterdir()} == {"counts.counts", "out.atlas"}


def test_a_damaged_checkpoint_is_refused(folder, capsys):
    (folder / "x.atlas.part").write_bytes(b"\x10" + bytes(50))
    assert run(*QUICK, "-o", "x.atlas", "--resume") == 1
    assert re.match("driftline: x.atlas.part is damaged .*\n$", capsys.readouterr().err)


def test_a_full_disk_is_one_line_and_leaves_the_old_atlas(folder):
    (folder / "out.atlas").write_text("old")
    code = (
        "import resource, sys; from driftline.cli.main import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "words", "fit", "counts.counts", "-o", "out.atlas", *QUICK]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert re.match("driftline: could not write out.atlas: .*; choose another place\n$", done.stderr)
    assert (folder / "out.atlas").read_text() == "old"
    assert {path.name for path in folder.iterdir()} == {"counts.counts", "out.atlas"}


def test_evaluation_prints_and_writes_a_table_and_draws_it(folder, capsys):
    passes = ("--passes", "dsg-s=2,2", "sgi=2", "--dim", "2")
    command = ["words", "evaluate", "counts.counts", "--methods", "sgi", "dsg-s", *passes]
    assert main([*command, "--hold-out", "3", "5", "-o", "new/scores"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert re.search(r"^dsg-s +-\d\.\d{4} ", captured.out, re.MULTILINE)
    assert "Scores: new/scores/scores.json and new/scores/scores.png" in captured.out
    assert (folder / "new/scores/scores.png").read_bytes().startswith(b"\x89PNG")
    text = (folder / "new/scores/scores.json").read_text()
    assert np.isclose(float(re.search(r'"mean_held_out": (-[\d.]+)', text)[1]), -0.69, atol=0.1)


def test_evaluation_refuses_wrong_settings_before_it_begins(folder, capsys):
    command = ["words", "evaluate", "counts.counts", "-o", "scores"]
    assert main([*command, "--passes", "dsg-s=2"]) == 1
    assert re.match(r"driftline: --passes \(2,\); dsg-s .*\n$", capsys.readouterr().err)
    assert main([*command, "--hold-out", "99"]) == 1
    assert capsys.readouterr().err == "driftline: --hold-out has step 99, but the counts have steps 0 to 7\n"
    assert main([*command, "--hold-out", "30:40"]) == 1
    assert "--hold-out 30:40 is none of the steps" in capsys.readouterr().err
    assert not (folder / "scores").exists()
    with pytest.raises(SystemExit) as stop:
        main([*command, "--passes", "dsg-s"])
    assert stop.value.code == 2


def evaluate(*options):
    """Compare two methods on a step, quickly."""
    quick = ("--methods", "sgi", "sgp", "--passes", "sgi=2", "sgp=2", "--dim", 2, "--hold-out", 3)
    return main(["words", "evaluate", "counts.counts", "-o", "scores", *map(str, (*quick, *options))])


@pytest.mark.filterwarnings("default:could not write")
@pytest.mark.parametrize("name", ["scores.json", "scores.png"])
def test_scores_are_shown_before_a_full_disk_is_told(folder, capsys, monkeypatch, name):
    replace = os.replace

    def full(source, target):
        if str(target).endswith(name):
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr("os.replace", full)
    assert evaluate() == 1
    captured = capsys.readouterr()
    assert re.search(r"^sgp +-\d\.\d{4} ", captured.out, re.MULTILINE)
    assert captured.err.endswith(f"could not write scores/{name}: the disk is full; choose another place\n")
    assert {path.name for path in (folder / "scores").iterdir()} == {"scores.json"} - {name}


def test_scores_go_on_after_ctrl_c(folder, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        stop_before(patch, "sgp")
        assert evaluate() == 130
    told = "what is done is in scores/scores.json: the same command with --resume goes on from there"
    assert capsys.readouterr().err == f"driftline: interrupted; {told}\n"
    # Not by mistake anew, nor with other settings.
    assert evaluate() == 1
    assert "unfinished, without sgp: go on with --resume, or delete it first" in capsys.readouterr().err
    assert evaluate("--resume", "--seed", 1) == 1
    assert "another comparison (seed 0, now 1)" in capsys.readouterr().err
    assert evaluate("--resume") == 0
    assert re.search(r"^sgi .*\nsgp ", capsys.readouterr().out, re.MULTILINE)


def test_ctrl_c_before_anything_is_done_promises_nothing(folder, capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    assert evaluate() == 0
    monkeypatch.setattr("driftline.words.evaluation.comparison.predict", stopped)
    capsys.readouterr()
    assert evaluate() == 130
    assert capsys.readouterr().err == "driftline: interrupted\n"


def test_evaluation_refuses_a_place_for_its_scores_before_it_begins(folder, capsys, monkeypatch):
    monkeypatch.setattr("driftline.words.load_counts", pytest.fail, raising=False)
    (folder / "note").write_text("mine")
    (folder / "nowhere").symlink_to("gone")
    (folder / "taken/scores.png").mkdir(parents=True)
    for options, message in (
        (("-o", "note"), "note is not a folder; name another for the scores"),
        (("-o", "note/scores"), ".*note is not a folder; name another for the scores"),
        (("-o", "nowhere"), "nowhere is not a folder; name another for the scores"),
        (("-o", "taken"), "taken/scores.png is a folder; name a file"),
        (("--resume",), "there are no scores scores/scores.json to go on from; begin without --resume"),
    ):
        assert evaluate(*options) == 1
        assert re.match(f"driftline: {message}", capsys.readouterr().err), message
    assert (folder / "note").read_text() == "mine"
    assert not (folder / "scores").exists()


def test_evaluation_does_not_write_over_its_counts(folder, capsys):
    (folder / "scores").mkdir()
    (folder / "counts.counts").rename(folder / "scores/scores.json")
    command = ["words", "evaluate", "scores/scores.json", "-o", "scores"]
    assert main(command) == 1
    assert "is one of the files to read and would be overwritten" in capsys.readouterr().err


def test_two_fits_do_not_write_to_one_place(folder, capsys):
    process = fit(folder)
    try:
        stop_at_checkpoint(process, folder / "out.atlas.part", signal.SIGSTOP)
        for options in (("-o", "out.atlas"), ("-o", "x.atlas", "--checkpoint", "out.atlas.part")):
            assert run(*QUICK, *options) == 1
            err = capsys.readouterr().err
            assert re.match(
                r"driftline: another process is writing out\.atlas.* at this moment; wait .* with -o\n$", err
            )
    finally:
        process.kill()
        process.communicate()
    # The lock went with the process, and what is left of it does no harm.
    assert (folder / ".out.atlas.lock").exists()
    assert run(*PLAN, "-o", "out.atlas", "--resume") == 0
    assert {path.name for path in folder.iterdir()} == {"counts.counts", "out.atlas"}


@pytest.mark.parametrize("name", ["texts.csv", "1850.txt.gz", "folder"])
@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_texts_in_place_of_counts_are_to_be_counted_first(folder, capsys, command, name):
    (folder / name).mkdir() if name == "folder" else (folder / name).write_text("date,text\n")
    assert main(["words", command, name, "-o", "out"]) == 1
    stem = name.split(".")[0]
    assert capsys.readouterr().err == (
        f"driftline: {name} holds texts and not counts; count it first: driftline words count {name} -o "
        f"{stem}.counts\n"
    )


def test_options_with_several_values_may_come_first(folder):
    options = ("--dim", "2", "--passes", "2", "2")
    assert main(["words", "fit", "-o", "a.atlas", *options, "counts.counts"]) == 0
    assert main(["words", "fit", "--hold-out", "1", "4:8:3", "counts.counts", *options, "-o", "b.atlas"]) == 0
    assert words.load("b.atlas").provenance["left_out"] == [1, 4, 7]
    methods = ("--methods", "sgi", "sgp", "counts.counts")
    quick = ("--passes", "sgi=2", "sgp=2", "--dim", "2", "--hold-out", "3")
    assert main(["words", "evaluate", *methods, "-o", "scores", *quick]) == 0


@pytest.mark.parametrize("content", ['{"scores": [1, 2]}', "my scores", "[]", ""])
def test_scores_of_others_are_not_overwritten(folder, capsys, content):
    (folder / "scores").mkdir()
    (folder / "scores/scores.json").write_text(content)
    assert evaluate() == 1
    assert capsys.readouterr().err == (
        "driftline: scores/scores.json is not a file of scores and would be overwritten; name another "
        "place, or move it\n"
    )
    assert (folder / "scores/scores.json").read_text() == content


def rows_of(out):
    return dict(line.split(maxsplit=1) for line in out.splitlines() if line)


def test_a_free_dimension_and_an_end_are_told(folder, capsys):
    assert run("--dim", "auto", "-o", "x.atlas") == 0
    atlas, rows = words.load("x.atlas"), rows_of(capsys.readouterr().out)
    assert rows["ended"] == "converged"
    assert atlas.converged
    assert atlas.settings["dim"] == atlas.dim
    assert "dim" in atlas.learnt["free"]
    assert rows["words"] == f"31, in {atlas.dim} dimensions"
    assert rows["prior"].startswith(f"width {atlas.learnt['scale']:.3g}, drift ")
    assert run("-o", "default.atlas") == 0
    assert (folder / "default.atlas").read_bytes() == (folder / "x.atlas").read_bytes()


def test_a_limit_of_time_is_told(folder, capsys):
    assert run("--dim", 2, "--minutes", "0.000001", "-o", "x.atlas") == 0
    rows = rows_of(capsys.readouterr().out)
    assert rows["ended"] == "NOT CONVERGED: stopped after the 1e-06 minutes that were given"
    assert words.load("x.atlas").converged is False


@pytest.mark.filterwarnings("default:the texts support")
def test_dimensions_that_no_text_supports_are_told(folder, capsys):
    assert run("--dim", 8, "--passes", 40, 2, "-o", "x.atlas") == 0
    told = r"driftline: the texts support [12] of 8 dimensions; leave --dim out \(--dim auto\), and the fit "
    assert re.match(f"{told}takes as many as its ELBO prefers\n$", capsys.readouterr().err)


def test_several_seeds_tell_how_far_they_agree(folder, capsys):
    (folder / "x.atlas.part-of-mine").write_text("mine")
    assert run(*QUICK, "--seeds", 2, "-o", "x.atlas") == 0
    rows = rows_of(capsys.readouterr().out)
    atlas = words.load("x.atlas")
    agreed = atlas.provenance["seeds"]
    assert agreed["fits"] == 2
    share = f"2 fits share {100 * agreed['share']:.0f} % of {agreed['n']} nearest words"
    assert rows["seeds"].startswith(share)
    assert "rank correlation of change" in rows["seeds"]
    assert rows["seeds"].endswith(f"ELBOs within {agreed['elbo_difference']:,.0f} nats")
    # No checkpoint is left, and what only has a name like one is.
    assert {path.name for path in folder.iterdir()} == {
        "counts.counts",
        "x.atlas",
        "x.atlas.part-of-mine",
    }


def test_several_seeds_go_on_from_their_checkpoints(folder, capsys, monkeypatch):
    from driftline.words.fitting import training

    options = (*QUICK, "--seeds", 2, "--every", 0)
    assert run(*options, "-o", "whole.atlas") == 0
    fit = training.fit

    def stopped(counts, *rest, **settings):
        if settings.get("seed") == 1:
            raise KeyboardInterrupt
        return fit(counts, *rest, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(training, "fit", stopped)
        assert run(*options, "-o", "x.atlas") == 130
    assert "--resume goes on from there" in capsys.readouterr().err
    assert (folder / "x.atlas.part.seed0").exists()
    assert run(*options, "-o", "x.atlas") == 1
    assert "x.atlas.part.seed0 is the checkpoint of an unfinished fit" in capsys.readouterr().err
    assert run(*options, "-o", "x.atlas", "--resume") == 0
    assert (folder / "x.atlas").read_bytes() == (folder / "whole.atlas").read_bytes()
    assert {path.name for path in folder.iterdir()} == {"counts.counts", "whole.atlas", "x.atlas"}
