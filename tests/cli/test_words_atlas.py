import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from driftline import words
from driftline.cli.main import main
from driftline.cli.words import fit
from support.corpora import small_texts


@pytest.fixture
def folder(tmp_path, monkeypatch, made):
    monkeypatch.chdir(tmp_path)
    shutil.copy(made / "small.atlas", tmp_path)
    return tmp_path


@pytest.fixture
def ask(folder, capsys):
    def run(command, *arguments, fails=False):
        code = main(["words", command, "small.atlas", *map(str, arguments)])
        captured = capsys.readouterr()
        assert code == fails, captured.err
        return captured.err if fails else captured.out

    return run


def test_neighbors_at_a_date(ask):
    assert (
        ask("neighbors", "plane", "--at", 1970, "-n", 3)
        == f"{words.load('small.atlas').neighbors('plane', 1970, 3)}\n"
    )


def test_neighbors_at_three_dates_stand_beside_each_other(ask):
    out = ask("neighbors", "plane", "-n", 4).splitlines()
    assert out[0] == "Closest to plane"
    assert re.findall(r"\d{4}-\d\d-\d\d", out[2]) == ["1900-01-01", "1930-01-01", "1970-01-01"]
    atlas = words.load("small.atlas")
    first, _, last = (atlas.neighbors("plane", when, 4) for when in (1900, 1930, 1970))
    for row, here, there in zip(out[3:7], first.words, last.words, strict=True):
        assert row.startswith(f"{here} ")
        assert f"    {there} " in row
    assert f"{first.expected[0]:.2f}  [{first.lower[0]:5.2f}, {first.upper[0]:5.2f}]" in out[3]


def test_what_a_word_was_at_another_date(ask):
    atlas = words.load("small.atlas")
    expected = atlas.counterparts("plane", 1970, 1900, 2, min_count=5, window=0)
    options = ("-n", 2, "--min-count", 5, "--window", 0)
    assert ask("neighbors", "plane", "--at", 1900, "--like", 1970, *options) == f"{expected}\n"
    assert "Closest to plane as it was at 1970-01-01" in ask("neighbors", "plane", "--like", 1970)


def test_json_has_all_numbers(ask):
    atlas = words.load("small.atlas")
    (found,) = json.loads(ask("neighbors", "plane", "--at", 1900, "--json"))
    expected = atlas.neighbors("plane", 1900)
    assert found["date"] == "1900-01-01"
    assert found["words"] == list(expected.words)
    np.testing.assert_array_equal(found["lower"], expected.lower)
    found = json.loads(ask("similarity", "plane", "ship", "--json"))
    np.testing.assert_array_equal(found["upper"], atlas.similarity("plane", "ship").upper)
    assert found["dates"][-1] == "1970-01-01"
    found = json.loads(ask("changed", "--from", 1900, "--to", 1970, "--json"))
    np.testing.assert_array_equal(found["probabilities"], atlas.changed(1900, 1970).probabilities)


def test_similarity_is_a_table_and_a_picture(ask, folder):
    out = ask("similarity", "plane", "ship", "--plot", "pair.png")
    assert out == f"{words.load('small.atlas').similarity('plane', 'ship')}\n\nPicture: pair.png\n"
    assert (folder / "pair.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_similarity_is_shown_before_a_full_disk_is_told(folder, capsys, monkeypatch, options):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main(["words", "similarity", "small.atlas", "plane", "ship", "--plot", "pair.png", *options]) == 1
    captured = capsys.readouterr()
    assert "1970-01-01" in captured.out
    assert captured.err == "driftline: could not write pair.png: the disk is full; choose another place\n"
    assert {path.name for path in folder.iterdir()} == {"small.atlas"}


def test_long_tables_are_thinned(ask, monkeypatch):
    monkeypatch.setattr("driftline.cli.words.similarity.ROWS", 3)
    out = ask("similarity", "plane", "ship")
    assert re.findall(r"^\d{4}", out, re.MULTILINE) == ["1900", "1940", "1970"]
    assert "3 of 8 dates; --json has all" in out


def test_the_word_that_moves_has_changed_most(ask, folder):
    out = ask("changed", "--from", 1900, "--to", 1970)
    assert out == f"{words.load('small.atlas').changed(1900, 1970)}\n"
    assert out.splitlines()[2].split()[0] == "plane"
    (folder / "stop").write_text("plane\nthat\n")
    listed = ask("changed", "--from", 1900, "--to", 1970, "-n", 4, "--stop", "stop").splitlines()[2:]
    assert len(listed) == 4
    assert not {"plane", "that"} & {line.split()[0] for line in listed}
    (folder / "stop").write_text("Plane\n")
    assert "plane" not in ask("changed", "--from", 1900, "--to", 1970, "-n", 4, "--stop", "stop")
    (folder / "stop").write_bytes(b"\xe9\n")
    err = ask("changed", "--from", 1900, "--to", 1970, "--stop", "stop", fails=True)
    assert err.endswith("(0xe9) is not utf-8-sig text; convert the file to UTF-8 first\n")


def test_neighbors_are_shown_where_the_word_has_a_vector(folder, capsys):
    for year, words_of_year in {1900: ("a", "b"), 1910: ("a", "b", "c"), 1920: ("b", "c")}.items():
        rows = "".join(f"{word} {k + 1} 1\n" for k, word in enumerate(words_of_year))
        (folder / f"{year}.vec").write_text(f"{len(words_of_year)} 2\n{rows}")
    words.import_word2vec(folder).save("imported.atlas")
    assert main(["words", "neighbors", "imported.atlas", "a"]) == 0
    assert re.findall(r"\d{4}-\d\d-\d\d", capsys.readouterr().out) == ["1900-01-01", "1910-01-01"]
    assert main(["words", "neighbors", "imported.atlas", "a", "--at", "1920"]) == 1
    err = capsys.readouterr().err
    assert re.match("driftline: 'a' has no vector at 1920-01-01, .*1910-01-01 is the nearest.*\n$", err)


def test_exports_are_those_of_the_library(ask, folder):
    atlas = words.load("small.atlas")
    out = ask("export", "-o", "vectors")
    assert re.match(r"Vectors: vectors/1900-01-01.txt to 1970-01-01.txt, 8 files \(\d+ kB\)", out)
    out = ask("export", "-o", "x.csv", "--format", "csv", "--at", 1900, 1950)
    assert re.match(r"Vectors: x.csv \(\d+ kB\)", out)
    atlas.export("y.csv", "csv", when=[1900, 1950])
    assert (folder / "x.csv").read_bytes() == (folder / "y.csv").read_bytes()
    ask("export", "-o", "x.npz", "--format", "npz")
    with np.load("x.npz") as found:
        np.testing.assert_array_equal(found["mean"][0], atlas.words.at_step(0)[0].astype(np.float32))


BAD = {
    "an unknown word": ("neighbors", ("plan",), "^driftline: 'plan' is not one of the 31 .* mean 'plane'.$"),
    "two unknown words": ("similarity", ("plane", "moon"), "^driftline: 'moon' is not one"),
    "no date": ("neighbors", ("plane", "--at", "soon"), "'soon' is not a date"),
    "a date far away": ("neighbors", ("plane", "--at", 2500), "'2500' is .* days from the nearest step"),
    "one date": ("changed", ("--from", 1900, "--to", 1900), "are both at the step 1900-01-01"),
    "rare words only": (
        "changed",
        ("--from", 1900, "--to", 1970, "--min-count", 10**6),
        "lower --min-count or widen --window$",
    ),
    "a certainty": (
        "changed",
        ("--from", 1900, "--to", 1970, "--probability", 1),
        "--probability 1.0; a number",
    ),
    "no such list": ("changed", ("--from", 1900, "--to", 1970, "--stop", "none"), "none"),
    "a window of less than nothing": ("neighbors", ("plane", "--window", -1), "--window -1; a whole number"),
    "a picture of no known kind": ("similarity", ("plane", "ship", "--plot", "x.xyz"), "xyz"),
    "a picture over the atlas": (
        "similarity",
        ("plane", "ship", "--plot", "small.atlas"),
        "would be overwritten",
    ),
    "vectors over the atlas": ("export", ("-o", "small.atlas", "--format", "csv"), "would be overwritten"),
    "vectors over the atlas, again": ("export", ("-o", "small.atlas"), "could not write small.atlas"),
    "vectors into no folder": ("export", ("-o", "no/x.csv", "--format", "csv"), "there is no folder no"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing_behind(ask, folder, case):
    command, options, message = BAD[case]
    before = (folder / "small.atlas").read_bytes()
    err = ask(command, *options, fails=True)
    assert err.count("\n") == 1
    assert re.search(message, err.rstrip("\n")), err
    assert {path.name for path in folder.iterdir()} == {"small.atlas"}
    assert (folder / "small.atlas").read_bytes() == before


QUERIES = {
    "neighbors": ("plane",),
    "similarity": ("plane", "ship"),
    "changed": ("--from", 1900, "--to", 1970),
    "export": ("-o", "vectors"),
}


@pytest.mark.parametrize("command", QUERIES)
def test_damaged_atlases_are_refused(ask, folder, made, command):
    content = (folder / "small.atlas").read_bytes()
    flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
    for damaged in (content[:-10], content[:100], flipped, b""):
        (folder / "small.atlas").write_bytes(damaged)
        err = ask(command, *QUERIES[command], fails=True)
        assert re.match("driftline: small.atlas is damaged.*; make it again\n$", err)
    (folder / "small.atlas").write_bytes((made / "counts.counts").read_bytes())
    assert "small.atlas holds counts of words" in ask(command, *QUERIES[command], fails=True)
    (folder / "small.atlas").unlink()
    assert ask(command, *QUERIES[command], fails=True) == "driftline: there is no file small.atlas\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [("neighbors",), ("neighbors", "plane", "-n", "0"), ("changed",)])
def test_wrong_usage(ask, arguments):
    with pytest.raises(SystemExit) as stop:
        ask(*arguments)
    assert stop.value.code == 2


def test_answers_do_not_need_jax(folder):
    code = (
        "import sys\nfrom driftline.cli.main import main\n"
        "assert main(['words', 'neighbors', 'small.atlas', 'plane']) == 0\nsys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_stopped_words_are_not_counted(ask, folder):
    atlas = words.load("small.atlas")
    found = atlas.changed(1900, 1970, n=len(atlas.vocabulary), probability=0.01)
    assert found.num_changed >= 1
    (folder / "stop").write_text(f"{found.words[0]}\n{found.words[-1]}\ngone\n")
    both = sum(p >= 0.01 for p in found.probabilities[[0, -1]])
    options = ("--probability", 0.01, "-n", 2, "--stop", "stop")
    title = ask("changed", "--from", 1900, "--to", 1970, *options).splitlines()[0]
    assert f"{found.num_compared - 2} words compared, {found.num_changed - both} changed" in title


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", "1900", "1945", "small.atlas", "plane"),
        ("small.atlas", "--at", "1900", "1945", "plane"),
        ("-n", "10", "--at", "1900", "1945", "small.atlas", "plane"),
        ("--at", "1900", "1945", "--", "small.atlas", "plane"),
    ],
)
def test_dates_may_come_first(folder, capsys, arguments):
    assert main(["words", "neighbors", "small.atlas", "plane", "--at", "1900", "1945"]) == 0
    expected = capsys.readouterr().out
    assert main(["words", "neighbors", *arguments]) == 0
    assert capsys.readouterr().out == expected


def test_dates_to_export_may_come_first(folder, capsys):
    assert main(["words", "export", "--at", "1900", "1950", "small.atlas", "-o", "vectors"]) == 0
    assert "2 files" in capsys.readouterr().out


def test_a_date_that_is_none_is_told_as_such(folder, capsys):
    assert main(["words", "neighbors", "small.atlas", "plane", "--at", "1900", "19x5"]) == 1
    assert "'19x5' is not a date" in capsys.readouterr().err
    assert main(["words", "neighbors", "small.atlas", "plane", "--at", "5"]) == 1
    assert "years have four digits: write 0005" in capsys.readouterr().err


def test_dates_outside_are_refused_with_the_span(ask):
    err = ask("neighbors", "plane", "--at", 1990, fails=True)
    assert "'1990' is" in err
    assert "the steps go from 1900-01-01 to 1970-01-01: choose a date in this span" in err


@pytest.fixture
def unfinished(folder):
    import dataclasses

    atlas = words.load("small.atlas")
    dataclasses.replace(atlas, converged=False, message="it was stopped").save("unfinished.atlas")
    return words.load("unfinished.atlas")


CAVEAT = "This fit has not converged: it was stopped."


def test_answers_of_an_unfinished_fit_begin_with_a_caveat(unfinished, capsys):
    for command in (
        ("neighbors", "unfinished.atlas", "plane"),
        ("neighbors", "unfinished.atlas", "plane", "--at", "1900"),
        ("similarity", "unfinished.atlas", "plane", "ship"),
        ("changed", "unfinished.atlas", "--from", "1900", "--to", "1970"),
    ):
        assert main(["words", *command]) == 0
        assert capsys.readouterr().out.splitlines()[0] == CAVEAT
        assert main(["words", *command, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        for each in found if isinstance(found, list) else [found]:
            assert each["caveat"] == CAVEAT


def test_an_unfinished_fit_has_no_probabilities_unless_asked(unfinished, capsys):
    command = ["words", "changed", "unfinished.atlas", "--from", "1900", "--to", "1970"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "no probabilities" in out
    assert "probability" not in out.splitlines()[2]
    assert main([*command, "--anyway"]) == 0
    assert capsys.readouterr().out == f"{unfinished.changed(1900, 1970, anyway=True)}\n"
    assert "probability" in f"{unfinished.changed(1900, 1970, anyway=True)}".splitlines()[2]


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """A folder with counts of two steps in parts, and an atlas fitted to them."""
    folder = tmp_path_factory.mktemp("brief")
    counts = words.count(
        [(date, line) for date, text in small_texts(2) for line in text.splitlines()],
        31,
        parts=4,
        progress=False,
    )
    counts.save(folder / "counts.counts")
    words.fit(counts, dim=2, progress=False).save(folder / "brief.atlas")
    return folder


def test_few_steps_have_no_probabilities_unless_asked(brief, capsys, monkeypatch):
    monkeypatch.chdir(brief)
    command = ["words", "changed", "brief.atlas", "--from", "1900", "--to", "1910"]
    caveat = "With 2 steps the noise between steps cannot be measured"
    for options, has_probabilities in (([], False), (["--anyway"], True)):
        assert main([*command, *options]) == 0
        out = capsys.readouterr().out.splitlines()
        assert out[0].startswith(caveat)
        assert ("probability" in out[2].split()) == has_probabilities
        assert main([*command, *options, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["caveat"] == out[0]
        assert (found["probabilities"] is not None) == has_probabilities
    assert main(["words", "similarity", "brief.atlas", "plane", "ship"]) == 0
    assert capsys.readouterr().out.startswith(caveat)


def test_the_fit_says_that_noise_was_not_measured(brief):
    atlas = words.load(brief / "brief.atlas")
    assert atlas.learnt["dispersion"] is None
    summary = fit._summary(atlas, brief / "brief.atlas", 1.0)
    assert "noise between steps not measured, as there are too few steps" in summary


def test_shuffled_dates_judge_the_probabilities_of_few_steps(brief, capsys, monkeypatch):
    monkeypatch.chdir(brief)
    command = ["words", "changed", "brief.atlas", "--from", "1900", "--to", "1910", "-n", "3"]
    assert main([*command, "--null", "2", "--counts", "counts.counts"]) == 0
    out = capsys.readouterr().out.splitlines()
    found = words.load("brief.atlas").changed(1900, 1910, n=3, anyway=True)
    assert out[0].startswith("Shuffled dates, change from 1900-01-01 to 1910-01-01 against 2 shuffles")
    assert out[1] == found.caveat
    assert [line.split()[0] for line in out[4:]] == list(found.words)
    assert out[3].split()[-3:] == ["count_end", "false", "discoveries"]
    assert "probability" in out[3].split()


def test_shuffled_dates_tell_of_false_discoveries(folder, made, ask, capsys):
    shutil.copy(made / "counts.counts", folder)
    ends = ("--from", 1900, "--to", 1970, "-n", 4)
    out = ask("changed", *ends, "--null", 2, "--counts", "counts.counts").splitlines()
    atlas = words.load("small.atlas")
    expected = words.null(words.load_counts("counts.counts"), atlas, 1900, 1970, times=2)
    found = atlas.changed(1900, 1970, n=4)
    assert out[0].startswith("Shuffled dates, change from 1900-01-01 to 1970-01-01 against 2 shuffles")
    assert out[1].startswith("Whole steps were shuffled, since the counts have no parts")
    table = str(found).splitlines()
    assert out[2] == table[0]
    assert out[3] == f"{table[1]}  false discoveries"
    for line, row, rate in zip(out[4:], table[2:], expected.rates_of(found.words), strict=True):
        assert line == f"{row}  {f'{100 * rate:.0f} %':>17}"
    both = json.loads(ask("changed", *ends, "--null", 2, "--counts", "counts.counts", "--json"))
    assert both[0]["words"] == list(found.words)
    np.testing.assert_allclose(both[1]["rates"], expected.rates)
    for one in (("--null", 2), ("--counts", "counts.counts")):
        assert "--null and --counts go together" in ask("changed", *ends, *one, fails=True)
