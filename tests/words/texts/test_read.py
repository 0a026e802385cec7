import codecs
import datetime
import gzip
import json
import os
import re
import sys
import threading
import tracemalloc

import pytest

from driftline import words
from driftline.words import Document

DOCUMENTS = [
    Document(datetime.date(1850, 1, 1), "the cat"),
    Document(datetime.date(1850, 12, 31), 'said "no",\nand left'),
    Document(datetime.date(1851, 2, 1), "été"),
]
ROWS = [("1850", "the cat"), ("1850-12-31T10:00", 'said "no",\nand left'), ("1851-02", "été")]
CSV = "id,text,date\n" + "".join('7,"{}",{}\n'.format(text.replace('"', '""'), date) for date, text in ROWS)
JSONL = "".join(json.dumps({"date": date, "text": text, "n": 1}) + "\n\n" for date, text in ROWS)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture(
    params=["csv", "csv-bom", "csv-semicolon", "jsonl", "ndjson.gz", "tsv-quoted", "csv.zst", "parquet"]
)
def table(request, tmp_path):
    kind = request.param
    if kind == "csv-bom":
        rows = "".join('{},"{}"\n'.format(date, text.replace('"', '""')) for date, text in ROWS)
        return words.read(write(tmp_path / "x.csv", "\ufeffdate,text\n" + rows))
    if kind == "csv-semicolon":
        rows = "".join('"{}";{}\n'.format(text.replace('"', '""'), date) for date, text in ROWS)
        return words.read(write(tmp_path / "x.csv", "text;date\r\n" + rows))
    if kind == "tsv-quoted":
        rows = "".join('"{}"\t{}\n'.format(text.replace('"', '""'), date) for date, text in ROWS)
        return words.read(write(tmp_path / "x.tsv", "text\tdate\n" + rows), quoted=True)
    if kind == "csv.zst":
        zstandard = pytest.importorskip("zstandard")
        return words.read(write(tmp_path / "x.csv.zst", zstandard.ZstdCompressor().compress(CSV.encode())))
    if kind == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {"date": [date for date, _ in ROWS], "text": [text for _, text in ROWS], "n": [1, 2, 3]}
        parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
        return words.read(tmp_path / "x.parquet")
    content = CSV if kind == "csv" else JSONL
    return words.read(
        write(tmp_path / f"x.{kind}", gzip.compress(content.encode()) if kind.endswith("gz") else content)
    )


def test_tables_of_every_kind_hold_the_same_documents(table):
    assert list(table) == DOCUMENTS
    assert list(table) == DOCUMENTS, "a corpus can be read again"


def test_tabs_are_read_without_quotes(tmp_path):
    path = write(tmp_path / "x.tsv", 'when\tsays\n1850\t"a\n1851\tb"\n')
    assert [text for _, text in words.read(path, date="when", text="says")] == ['"a', 'b"']


def test_a_corpus_can_be_cut_to_dates(table):
    assert list(table.between(end=1850)) == DOCUMENTS[:2]
    assert list(table.between("1850-12", "1851-02")) == DOCUMENTS[1:]
    assert list(table.between("1850-12-31", datetime.date(1850, 12, 31))) == DOCUMENTS[1:2]
    with pytest.raises(ValueError, match="start 1851 is after end 1850"):
        table.between(1851, 1850)


def test_a_corpus_that_is_cut_twice_keeps_both_limits(table):
    assert list(table.between(end=1850).between("1850-12")) == DOCUMENTS[1:2]
    assert list(table.between("1850-12-01").between(start=1850)) == DOCUMENTS[1:]
    assert list(table.between(1850, 1850).between()) == DOCUMENTS[:2]
    with pytest.raises(ValueError, match="leaves no day: 1851-01-01 is after 1850-12-31; cut the whole"):
        table.between(end=1850).between(1851)


def test_a_folder_of_tables_is_one_corpus(tmp_path):
    write(tmp_path / "b.csv", "date,text\n1851,two\n")
    write(tmp_path / "deep" / "c.jsonl", '{"date": 1852, "text": "three"}')
    write(tmp_path / "a.csv.gz", gzip.compress(b"date,text\n1850,one\n"))
    write(tmp_path / ".hidden.csv", "nonsense")
    assert [text for _, text in words.read(tmp_path)] == ["one", "two", "three"]
    assert [text for _, text in words.read(tmp_path, pattern="b*")] == ["two"]


def test_a_folder_of_texts_is_dated_by_names(tmp_path):
    write(tmp_path / "speech_1851.txt", "\ufefftwo")
    write(tmp_path / "1850-05-01.txt.gz", gzip.compress(b"one\nmore"))
    write(tmp_path / "notes.pdf", b"\xff")
    assert list(words.read(tmp_path)) == [
        Document(datetime.date(1850, 5, 1), "one\nmore"),
        Document(datetime.date(1851, 1, 1), "two"),
    ]
    by_pattern = words.read(tmp_path, pattern="speech*", date_pattern=r"_(\d+)")
    assert [text for _, text in by_pattern] == ["two"]


def test_names_that_begin_with_the_day_need_to_be_described(tmp_path):
    write(tmp_path / "31-12-1850.txt", "one")
    with pytest.raises(ValueError, match=r"^31-12-1850\.txt: 31-12-1850 in the name may begin with the day"):
        list(words.read(tmp_path))
    with pytest.raises(ValueError, match="date_format='%d-%m-%Y' alone does not say where .*date_pattern="):
        words.read(tmp_path, date_format="%d-%m-%Y")
    found = words.read(tmp_path, date_format="%d-%m-%Y", date_pattern=r"\d+-\d+-\d{4}")
    assert list(found) == [Document(datetime.date(1850, 12, 31), "one")]


def test_names_that_say_more_than_a_year_need_to_be_described(tmp_path):
    write(tmp_path / "12-1851.txt", "one")
    with pytest.raises(
        ValueError, match=r"^12-1851\.txt: 12-1851 in the name may be more of a date than 1851"
    ):
        list(words.read(tmp_path))
    found = words.read(tmp_path, date_format="%m-%Y", date_pattern=r"\d+-\d{4}")
    assert list(found) == [Document(datetime.date(1851, 12, 1), "one")]


def test_tables_and_names_agree_on_dates(tmp_path):
    dates = ("1900", "1900-1", "1900-01", "1900-1-5", "1900-01-5", "1900_1_5", "1900.12.31", "19001231")
    table = write(tmp_path / "x.csv", "date,text\n" + "".join(f"{date},{date}\n" for date in dates))
    for date in dates:
        write(tmp_path / "texts" / f"{date}.txt", date)
    assert sorted(words.read(table)) == sorted(words.read(tmp_path / "texts"))


NOT_FOR = {
    "texts": {"date": "when", "text": "says", "delimiter": ";", "quoted": False},
    "tables": {"date_pattern": r"\d+"},
    "tables/x.csv": {"pattern": "*.csv", "date_pattern": r"\d+"},
    "listed": {"pattern": "*.txt", "date_pattern": r"\d+"},
}


@pytest.mark.parametrize(
    ("source", "option"), [(source, name) for source in NOT_FOR for name in NOT_FOR[source]]
)
def test_options_that_do_not_apply_are_refused(tmp_path, source, option):
    table = write(tmp_path / "tables" / "x.csv", "date,file,text\n1850,1850.txt,a\n")
    write(tmp_path / "texts" / "1850.txt", "a")
    value = NOT_FOR[source][option]
    others = {"table": table} if source == "listed" else {}
    place = tmp_path / ("texts" if source == "listed" else source)
    assert len(list(words.read(place, **others))) == 1
    with pytest.raises(
        ValueError, match=f"^{option}={re.escape(repr(value))} is for .*, but .*; leave it out"
    ):
        words.read(place, **others, **{option: value})


def test_a_folder_of_texts_can_be_dated_by_a_table(tmp_path):
    write(tmp_path / "texts" / "a.txt", "one")
    write(tmp_path / "texts" / "b.txt", "two")
    table = write(tmp_path / "list.csv", "name,when\nb.txt,3/1850\na.txt,4/1850\n")
    corpus = words.read(tmp_path / "texts", table=table, text="name", date="when", date_format="%m/%Y")
    assert list(corpus) == [
        Document(datetime.date(1850, 3, 1), "two"),
        Document(datetime.date(1850, 4, 1), "one"),
    ]
    for wrong in ("c.txt", "../list.csv"):
        write(table, f"name,when\nb.txt,3/1850\n{wrong},4/1850\n")
        with pytest.raises(ValueError, match=r"list\.csv, row 2 \(line 3\): there is no file"):
            next(iter(corpus))


def test_encodings_are_honoured(tmp_path):
    path = write(tmp_path / "x.csv", "date,text\n1850,été\n".encode("latin-1"))
    assert [text for _, text in words.read(path, encoding="latin-1")] == ["été"]
    with pytest.raises(ValueError, match="does not end lines as ASCII does; convert"):
        words.read(path, encoding="utf-16")
    with pytest.raises(ValueError, match="is not known"):
        words.read(path, encoding="utf-9")
    marked = write(tmp_path / "y.csv", "date,text\n1850,été\n".encode("utf-8-sig"))
    assert [text for _, text in words.read(marked, encoding="utf-8-sig")] == ["été"]


BAD = {
    "no date column in CSV": (
        "x.csv",
        "day,text\n1850,a\n",
        r"x\.csv: no column 'date' for the date among 'day', 'text'; pass date=",
    ),
    "no text column in CSV": (
        "x.csv",
        "date,body\n1850,a\n",
        r"x\.csv: no column 'text' for the text among 'date', 'body'; pass text=",
    ),
    "no date in a JSON line": (
        "x.jsonl",
        '{"date": 1850, "text": ""}\n{"text": "a"}',
        r"x\.jsonl, line 2: no column 'date'",
    ),
    "an unparsable date": (
        "x.csv",
        "date,text\n1850,a\nsoon,b\n",
        r"x\.csv, row 2 \(line 3\): 'soon' is not a date.*date_format=",
    ),
    "an unparsable date in JSON": (
        "x.jsonl",
        '{"date": [1], "text": "a"}',
        r"x\.jsonl, line 1: \[1\] is not a date",
    ),
    "a missing date": ("x.csv", "date,text\n,a\n", r"row 1 \(line 2\): the date is missing; fill it in"),
    "a field too many": (
        "x.csv",
        "date,text\n1850,a,b\n",
        r"row 1 \(line 2\): 3 fields, but the header names 2",
    ),
    "a quote that stays open": (
        "x.csv",
        'date,text\n1850,a\n1851,"a\n1852,b\n1853,c\n',
        r"x\.csv, line 3: not CSV .* the row that begins there",
    ),
    "a bad date in a row of several lines": (
        "x.csv",
        'date,text\n1850,"a\na\na"\n\nsoon,"b\nb"\n',
        r"x\.csv, row 2 \(line 6\): 'soon'",
    ),
    "no line at all": ("x.csv", "", r"x\.csv is empty"),
    "no JSON": ("x.jsonl", '{"date": 1850, "text": "a"}\n{"date"', r"x\.jsonl, line 2: not JSON"),
    "JSON too deep": ("x.jsonl", "[" * 100_000, r"x\.jsonl, line 1: not JSON"),
    "JSON that is not an object": ("x.jsonl", "[1]", r"x\.jsonl, line 1: a JSON list"),
    "a text that is a number": (
        "x.jsonl",
        '{"date": 1850, "text": 5}',
        r"line 1: the text is 5, not a string",
    ),
    "bytes that are not text": (
        "x.csv",
        b"date,text\n1850,a\n1850,\xe9t\xe9\n",
        r"x\.csv, line 3: byte 6 \(0xe9\) is not utf-8.*encoding='latin-1'",
    ),
    "UTF-16": (
        "x.csv",
        "date,text\n1850,a\n".encode("utf-16-le"),
        r"x\.csv, line 1: byte 2 is a zero.*UTF-16; convert",
    ),
    "UTF-16 with its mark": (
        "x.csv",
        "date,text\n1850,a\n".encode("utf-16"),
        r"^x\.csv, line 1: UTF-16, by its first two bytes; convert the file to UTF-8 first, as with `iconv",
    ),
    "a text in UTF-16": (
        "folder/1850.txt",
        codecs.BOM_UTF16_BE + "a".encode("utf-16-be"),
        r"^1850\.txt: UTF-16, by its first two bytes; convert",
    ),
    "lines that end with a carriage return": (
        "x.csv",
        "date,text\r1850,a\r1851,b\r",
        r"^x\.csv, line 1: a carriage return without a line feed; if lines end so, .*`tr '\\r' '\\n' < x",
    ),
    "a carriage return in a field": (
        "x.tsv",
        "date\ttext\n1850\ta\n1851\tb\rb\n",
        r"^x\.tsv, line 3: a carriage return without .*; if it stands in a field, put a space there$",
    ),
    "a name without a date": ("folder/a.txt", "a", r"a\.txt: no date in the name"),
    "a text file of bytes": ("folder/1850.txt", b"\x89PNG\xff", r"1850\.txt: byte 1 \(0x89\) is not utf-8"),
    "no Parquet": ("x.parquet", "PAR1 not", r"x\.parquet"),
    "packed Parquet": (
        "x.parquet.gz",
        gzip.compress(b"PAR1"),
        r"^x\.parquet\.gz: a packed Parquet file cannot be read in place; unpack it first, as with `gunzip`",
    ),
    "Parquet packed with zstd": (
        "x.parquet.zst",
        b"\x28\xb5\x2f\xfd rest",
        r"^x\.parquet\.zst: a packed Parquet file .*`unzstd`",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_place_and_with_a_remedy(tmp_path, case):
    name, content, message = BAD[case]
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    path = write(tmp_path / name, content)
    corpus = words.read(path.parent if path.parent != tmp_path else path)
    with pytest.raises(ValueError, match=message):
        list(corpus)


def test_paths_that_lead_nowhere_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        words.read(tmp_path / "x.csv")
    with pytest.raises(
        ValueError, match=r"'\.xlsx' is not a kind of table that can be read; tables end in \.csv"
    ):
        words.read(write(tmp_path / "x.xlsx", "a"))
    with pytest.raises(ValueError, match="none of its 1 files"):
        words.read(tmp_path)
    write(tmp_path / "1850.txt", "a")
    write(tmp_path / "x.csv", "a")
    with pytest.raises(
        ValueError,
        match=r"holds texts, such as 1850\.txt, and tables, such as x\.csv; pass pattern='\*\*/\*\.txt'",
    ):
        words.read(tmp_path)
    with pytest.raises(ValueError, match="is not a table"):
        words.read(tmp_path, table=tmp_path / "1850.txt")


OPTIONS = {
    "delimiter": ("::", "delimiter='::'; one character"),
    "date_pattern": ("(", r"date_pattern='\(' is not a regular expression"),
    "date_format": ("%d %B", "date_format='%d %B' says nothing of the year"),
    "pattern": ("/etc/*", "pattern='/etc/\\*'; it is relative to the folder"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_cannot_be_are_refused_at_once(tmp_path, option):
    value, message = OPTIONS[option]
    with pytest.raises(ValueError, match=message):
        words.read(write(tmp_path / "x.csv", "date,text\n1850,a\n").parent, **{option: value})


def test_one_text_is_no_corpus(tmp_path):
    with pytest.raises(ValueError, match=r"1850\.txt is one text.*pass a folder"):
        words.read(write(tmp_path / "1850.txt", "a"))


def test_an_end_that_is_no_date_is_named(table):
    with pytest.raises(ValueError, match="end='soon' is not a date; write it like 1850"):
        table.between(end="soon")


def test_parquet_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"x\.parquet is a Parquet file.*driftline\[parquet\]"):
        list(words.read(write(tmp_path / "x.parquet", "PAR1")))


def test_a_parquet_bomb_is_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"date": ["1850"] * 64, "text": ["a" * (1 << 20)] * 64})
    parquet.write_table(table, tmp_path / "x.parquet", use_dictionary=False, compression="zstd")
    with pytest.raises(ValueError, match=r"x\.parquet.*decompression bomb"):
        list(words.read(tmp_path / "x.parquet"))


def parquet_file(path, **columns):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table(columns), path)
    return path


def test_damaged_parquet_is_refused_by_name(tmp_path):
    numbers = range(1000, 3000)
    path = parquet_file(
        tmp_path / "x.parquet", date=[str(i) for i in numbers], text=[f"w{i}" for i in numbers]
    )
    good = path.read_bytes()
    messages = []
    for n in range(4, len(good), 211):
        path.write_bytes(good[:n] + bytes([good[n] ^ 0xFF]) + good[n + 1 :])
        try:
            list(words.read(path))  # some flips pass: not every byte has a checksum
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert all(message.startswith("x.parquet") for message in messages)


def test_parquet_with_bytes_that_are_not_text_names_the_rows(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    ends, data = pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0"), pyarrow.py_buffer(b"a\xff\xfe")
    text = pyarrow.StringArray.from_buffers(2, ends, data)
    path = parquet_file(tmp_path / "x.parquet", date=["1850", "1851"], text=text)
    with pytest.raises(ValueError, match=r"x\.parquet, rows 1 to 2: bytes that are not UTF-8"):
        list(words.read(path))


def test_a_parquet_dictionary_of_long_texts_is_read_in_little_memory(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 256, pyarrow.int32()), ["a" * (1 << 20)])
    path = parquet_file(tmp_path / "x.parquet", date=["1850"] * 256, text=texts)
    tracemalloc.start()
    assert sum(len(text) for _, text in words.read(path)) == 256 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    with pytest.raises(ValueError, match=r"x\.parquet, row 1: a document of more than 1,000 bytes"):
        list(words.read(path, limits=words.Limits(document=1000)))


def test_names_of_files_need_not_be_text(tmp_path):
    for year in (b"1850", b"1851"):
        with open(os.fsencode(tmp_path) + b"/" + year + b"-\xe9.txt", "w") as file:
            file.write(f"a b {int(year)}")
    words.count(words.read(tmp_path), 2).save(tmp_path / "counts")
    names = [record["name"] for record in words.load_counts(tmp_path / "counts").provenance["files"]]
    assert names == ["1850-\udce9.txt", "1851-\udce9.txt"]


def test_files_of_a_folder_that_are_not_read_are_named(tmp_path):
    for name in ("1850.txt", "1851.txt", "a.docx", "b/c.pdf", "notes", "z.html", ".hidden"):
        write(tmp_path / name, f"a b {name}")
    counts = words.count(words.read(tmp_path), 2)
    assert counts.provenance["skipped_files"] == ["a.docx", "b/c.pdf", "notes", "z.html"]
    assert counts.provenance["num_skipped_files"] == 4
    assert counts.skipped == "files not read: 4, such as a.docx, b/c.pdf, notes"
    assert words.count(words.read(tmp_path, pattern="**/*.txt"), 2).skipped == ""


def test_tables_beside_other_files_name_these(tmp_path):
    write(tmp_path / "a.csv", "date,text\n1850,a b\n1851,a b\n")
    write(tmp_path / "readme", "about")
    assert words.count(words.read(tmp_path), 2).skipped == "files not read: 1, readme"


def test_texts_that_a_table_does_not_list_are_named(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        write(tmp_path / "texts" / name, f"a b {name}")
    write(tmp_path / "list.csv", "file,date\na.txt,1850\n../texts/b.txt,1851\n")
    counts = words.count(words.read(tmp_path / "texts", table=tmp_path / "list.csv"), 2)
    assert counts.skipped == "files not read: 1, c.txt"


def test_links_to_folders_are_not_followed_but_named(tmp_path):
    write(tmp_path / "elsewhere" / "1852.txt", "a b c")
    for name in ("1850.txt", "1851.txt"):
        write(tmp_path / "texts" / name, f"a b {name}")
    (tmp_path / "texts" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "texts" / "circle").symlink_to(tmp_path / "texts")
    (tmp_path / "texts" / "1853.txt").symlink_to(tmp_path / "gone")
    for pattern in (None, "**/*.txt"):
        corpus = words.read(tmp_path / "texts", pattern=pattern)
        assert len(list(corpus)) == 2
        assert words.count(corpus, 2).provenance["skipped_files"] == ["1853.txt", "circle", "more"]


@pytest.mark.parametrize(("plain", "packed"), [("a.csv", "a.csv.gz"), ("1850.txt", "1850.txt.GZ")])
def test_a_file_beside_its_packed_copy_is_refused(tmp_path, plain, packed):
    write(tmp_path / plain, "date,text\n1850,a b\n")
    write(tmp_path / packed, gzip.compress(b"date,text\n1850,a b\n"))
    with pytest.raises(ValueError, match=rf"{plain} and .*{packed} look like one file.*remove or rename"):
        words.read(tmp_path)


def test_files_with_the_same_content_are_named(tmp_path):
    for name in ("1850.txt", "1851.txt", "1851-1.txt"):
        write(tmp_path / name, "a b")
    for name in ("1852.txt", "1853.txt"):
        write(tmp_path / name, "b a")
    message = r"1850\.txt and 1851-1\.txt and 1 more have the same content, .* and so with 1 other contents;"
    with pytest.warns(UserWarning, match=message):
        words.count(words.read(tmp_path), 2)


def test_a_file_that_a_table_lists_twice_is_named(tmp_path):
    for name in ("a.txt", "b.txt"):
        write(tmp_path / "texts" / name, f"a b {name}")
    write(tmp_path / "list.csv", "file,date\na.txt,1850\na.txt,1850\nb.txt,1851\n")
    with pytest.warns(UserWarning, match=r"a\.txt was read 2 times"):
        words.count(words.read(tmp_path / "texts", table=tmp_path / "list.csv"), 2)


def test_no_text_between_two_dates_says_which_were_asked_for(tmp_path):
    write(tmp_path / "a.csv", "date,text\n1850,a b\n")
    with pytest.raises(ValueError, match="no document; .* dates asked for, 1900-01-01 to 1901-12-31, and"):
        words.count(words.read(tmp_path / "a.csv").between(1900, 1901), 2)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "csv.gz"])
def test_a_pipe_is_read_as_often_as_a_file(tmp_path, kind):
    content = (JSONL if kind == "jsonl" else CSV).encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(
        target=pipe.write_bytes, args=[gzip.compress(content) if "gz" in kind else content]
    )
    writer.start()
    corpus = words.read(pipe)
    writer.join()
    assert list(corpus) == list(corpus) == DOCUMENTS
    folder = corpus.reader.folder
    assert folder.is_dir()
    del corpus
    assert not folder.exists()


def test_a_pipe_is_one_table(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pattern='\*' is for folders.*pipe is one table"):
        words.read(tmp_path / "pipe", pattern="*")
