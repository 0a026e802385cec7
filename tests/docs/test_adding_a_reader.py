"""The example for authors of readers, put as one file where the page says; nothing else is edited."""

import datetime
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from driftline import words
from driftline.cli.main import main
from driftline.words.texts import file_formats, formats

PAGE = Path(__file__).parents[2] / "docs" / "develop" / "adding-a-reader.md"
PACKAGE = "META-INF/container.xml", "<container/>"
CHAPTERS = (
    ("one.xhtml", "<html><head><title>No word</title></head><body><h1>The</h1>c<i>a</i>t &amp; dog</body>"),
    ("two.html", "<p>sat<br/>down</p><script>var hidden = '<p>';</script>"),
)


@pytest.fixture(autouse=True)
def _installed(tmp_path, monkeypatch):
    """The example as a module beside the other formats."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    folder = tmp_path / "formats"
    folder.mkdir()
    (folder / "epub.py").write_text(block)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(folder)])
    file_formats.formats_by_suffix.cache_clear()
    yield
    file_formats.formats_by_suffix.cache_clear()
    sys.modules.pop(f"{formats.__name__}.epub", None)


def book(path, chapters=CHAPTERS, method=zipfile.ZIP_DEFLATED):
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in (PACKAGE, *chapters):
            archive.writestr(name, content)
    return path


def test_a_folder_of_books_is_dated_by_name(tmp_path):
    book(tmp_path / "books" / "1850-12-31.epub")
    book(tmp_path / "books" / "novel_1851.EPUB", [("a.htm", "<p>été</p>".encode())])
    first, second = words.read(tmp_path / "books")
    assert first.date == datetime.date(1850, 12, 31)
    assert words.Tokeniser()(first.text) == ["the", "cat", "dog", "sat", "down"]
    assert second.text.split() == ["été"]


def test_books_that_a_table_lists_are_read_too(tmp_path):
    book(tmp_path / "books" / "a.epub")
    table = tmp_path / "books.csv"
    table.write_text("date,file\n1850,a.epub\n")
    (found,) = words.read(tmp_path / "books", table=table)
    assert words.Tokeniser()(found.text)[:2] == ["the", "cat"]


def test_the_command_line_counts_books_and_knows_them_from_counts(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for year in (1850, 1851):
        book(tmp_path / "books" / f"{year}.epub", [*CHAPTERS, ("three.html", f"<!-- <p>in {year}</p> -->")])
    assert main(["words", "count", "books", "-o", "books.counts", "--vocabulary", "5"]) == 0
    counts = words.load_counts("books.counts")
    np.testing.assert_array_equal(counts.occurrences, np.ones((2, 5)))
    assert [file["name"] for file in counts.provenance["files"]] == ["1850.epub", "1851.epub"]
    capsys.readouterr()
    assert main(["words", "fit", "books/1850.epub", "-o", "x.atlas"]) == 1
    assert "1850.epub holds texts and not counts" in capsys.readouterr().err


def bomb(path):
    return book(path, [("a.html", b"a " * (10 << 20))])


LIMITS = words.Limits(document=1000)
REFUSED = {
    "not an archive": (lambda path: path.write_bytes(b"no book"), {}, "not a sound EPUB file .*get it again"),
    "no chapter": (lambda path: book(path, []), {}, r"no chapter \(.xhtml, .html, .htm\) in it"),
    "a long chapter": (
        lambda path: book(path, [("a.html", "a" * 1001)]),
        {"limits": LIMITS},
        "more than 1,000",
    ),
    "two long chapters": (
        lambda path: book(path, [("a.html", "a" * 600), ("b.html", "a" * 600)]),
        {"limits": LIMITS},
        "a document of more than 1,000 bytes; split it, or allow it with",
    ),
    "a bomb": (bomb, {"limits": words.Limits(document=1 << 26)}, "looks like a decompression bomb"),
    "another packing": (
        lambda path: book(path, method=zipfile.ZIP_LZMA),
        {},
        "one.xhtml: encrypted, or packed in",
    ),
    "other bytes": (
        lambda path: book(path, [("a.html", b"\xff")]),
        {},
        r"a.html: byte 1 \(0xff\) is not utf-8",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_books_that_are_too_large_or_none_are_refused_by_name(tmp_path, name):
    make, options, message = REFUSED[name]
    path = tmp_path / "books" / "1850.epub"
    path.parent.mkdir()
    make(path)
    with pytest.raises(ValueError, match=rf"^1850\.epub.*{message}"):
        list(words.read(path.parent, **options))


def test_whatever_is_damaged_in_a_book_is_an_error_in_words_or_none(tmp_path):
    whole = book(tmp_path / "1850.epub").read_bytes()
    rng, path = np.random.default_rng(0), tmp_path / "books" / "1850.epub"
    path.parent.mkdir()
    said = []
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole))] if rng.random() < 0.2 else damaged)
        try:
            list(words.read(path.parent))
        except ValueError as error:
            said.append(str(error))
    assert 100 < len(said) < 400
    assert all(each.startswith("1850.epub") for each in said)


ODD = {
    "tags that are never closed": "seen " + "<a " * 300_000,
    "comments that are never closed": "seen " + "<!-- a>" * 300_000,
    "a character of many digits": f"seen {'&#' + '9' * 5000 + ';'}",
    "characters that are none": "seen &nothing; &#x110000;",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_pages_are_read_in_linear_time(tmp_path, name):
    """In quadratic time, the first two would take hours."""
    book(tmp_path / "books" / "1850.epub", [("a.html", ODD[name])])
    (found,) = words.read(tmp_path / "books")
    assert found.text.split()[0] == "seen"
