"""`words.read`: from a path to a corpus, whatever the path leads to."""

import os
import re
from pathlib import Path
from typing import Any

from driftline.words.texts import pipes
from driftline.words.texts.corpus import Corpus
from driftline.words.texts.file_formats import (
    Dialect,
    TableFormat,
    suffixes_of,
    table_format,
    text_format,
)
from driftline.words.texts.folders import list_folder
from driftline.words.texts.sources import ListedTexts, NamedTexts, Tables
from driftline.words.texts.streams import Limits
from driftline.words.texts.suffixes import suffix_of

APPLIES = {
    "date": "tables",
    "text": "tables",
    "table": "folders of texts",
    "delimiter": "tables",
    "quoted": "tables",
    "pattern": "folders whose files are not listed by table=",
    "date_pattern": "folders of texts with dates in their names",
}


def read(
    path: str | os.PathLike,
    *,
    date: str | None = None,
    text: str | None = None,
    table: str | os.PathLike | None = None,
    pattern: str | None = None,
    date_pattern: str | None = None,
    date_format: str | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    quoted: bool | None = None,
    limits: Limits | None = None,
) -> Corpus:
    r"""A corpus of dated texts on disk; nothing is read yet, and never more than a little at a time.

    A path may lead to

    - a table (.csv, .tsv, .jsonl, .parquet) with a date and a text in every row;
    - a folder of such tables, read one after the other in the order of their names;
    - a folder of texts (.txt, .text, .md) with dates in their names, such as 1850-12-31.txt or
      speech_1850.txt, or with a table that lists them;
    - a pipe, or "-" for standard input, with a table of any kind; it is copied to a temporary file at once.

    Files of a folder that are none of these are not read, and the counts say which; hidden files, whose names
    begin with a dot, are left out without a word. Links to folders are not followed. Each but Parquet, which
    packs its columns itself, may be packed with gzip or zstd (.gz, .zst). Dates look like 1850, 1850-12,
    1850-12-31 or 1850-12-31T10:00; the time of day is dropped. 1850.5 is the middle of 1850. Rows need not be
    sorted.

    Args:
        path: A file or a folder.
        date: Name of the column of dates, in a table ("date" if not given).
        text: Name of the column of texts ("text" if not given); with `table`, of file names ("file").
        table: A table that lists the files of the folder, by name relative to it, and their dates.
        pattern: Which files of a folder to read, as for `pathlib.Path.glob`; all if not given.
        date_pattern: A regular expression that finds the date in a file's name, such as r"_(\d{4})\.txt".
        date_format: How dates are written, as for `datetime.strptime`, if they do not start with the year;
            in names of files together with `date_pattern`.
        encoding: Of the texts.
        delimiter: Between the fields of a CSV file; found in its header if not given.
        quoted: Whether fields of a CSV or TSV file may stand in quotes; by default not if tabs part them.
        limits: Longest document and largest expansion of packed files that are accepted.

    Options that do not apply to what the path leads to are refused.

    Returns:
        A corpus to iterate over or to hand to `words.count`.
    """
    path = Path(path)
    limits = Limits() if limits is None else limits
    dialect = Dialect(encoding, delimiter, quoted)
    _check(dialect, date_pattern, date_format)
    columns = date or "date", text or "text"
    if pipes.is_pipe(path):
        _refuse(f"{path} is one table", table=table, pattern=pattern, date_pattern=date_pattern)
        return _from_pipe(path, columns, date_format, dialect, limits)
    if not path.is_file() and not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder {path}")
    if table is not None:
        _check_table(Path(table))
        _refuse(f"table= lists the files of {path}", pattern=pattern, date_pattern=date_pattern)
        columns = date or "date", text or "file"
        return Corpus(ListedTexts(path, Path(table), columns, date_format, dialect, limits))
    if path.is_file():
        _check_file(path)
        _refuse(f"{path} is one table", pattern=pattern, date_pattern=date_pattern)
        return Corpus(Tables(path.parent, (path,), columns, date_format, dialect, limits))
    texts, shards, skipped = list_folder(path, pattern)
    if not texts:
        _refuse(f"{path} is a folder of tables", date_pattern=date_pattern)
        return Corpus(Tables(path, shards, columns, date_format, dialect, limits, skipped))
    what = f"{path} is a folder of texts, of which table= lists none"
    _refuse(what, date=date, text=text, delimiter=delimiter, quoted=quoted)
    if date_format is not None and date_pattern is None:
        raise ValueError(
            f"date_format={date_format!r} alone does not say where in the names of {path} the dates are; "
            r"pass date_pattern= too, as in date_pattern=r'\d+-\d+-\d{4}'"
        )
    return Corpus(NamedTexts(path, texts, date_pattern, date_format, encoding, limits, skipped))


def _from_pipe(
    path: Path, columns: tuple[str, str], date_format: str | None, dialect: Dialect, limits: Limits
) -> Corpus:
    copy = pipes.copy_pipe(path)
    try:
        copy = pipes.with_suffix(copy, limits)
        reader = Tables(copy.parent, (copy,), columns, date_format, dialect, limits)
    except BaseException:
        pipes.remove(copy)
        raise
    pipes.remove_with(reader, copy)
    return Corpus(reader)


def _refuse(what: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} is for {APPLIES[name]}, but {what}; leave it out")


def _check_table(table: Path) -> None:
    if not table.is_file() or table_format(table) is None:
        raise ValueError(f"table={str(table)!r} is not a table; {_known()}")


def _check_file(path: Path) -> None:
    if text_format(path):
        raise ValueError(f"{path} is one text, and so one time step; pass a folder of such texts")
    if table_format(path) is None:
        raise ValueError(f"{path}: {suffix_of(path)!r} is not a kind of table that can be read; {_known()}")


def _check(dialect: Dialect, date_pattern: str | None, date_format: str | None) -> None:
    _check_encoding(dialect.encoding)
    if dialect.delimiter is not None and len(dialect.delimiter) != 1:
        raise ValueError(f"delimiter={dialect.delimiter!r}; one character is needed")
    if date_format is not None and not re.search("%[YyGcx]", date_format):
        raise ValueError(f"date_format={date_format!r} says nothing of the year; put %Y where it stands")
    try:
        re.compile(date_pattern or "")
    except re.error as error:
        raise ValueError(f"date_pattern={date_pattern!r} is not a regular expression ({error})") from None


def _check_encoding(encoding: str) -> None:
    try:
        if b"a\n".decode(encoding) == "a\n":
            return
    except LookupError:
        raise ValueError(f"encoding {encoding!r} is not known; try 'utf-8' or 'latin-1'") from None
    except UnicodeError:
        pass
    raise ValueError(
        f"encoding {encoding!r} does not end lines as ASCII does; convert the files to UTF-8 first"
    )


def _known() -> str:
    return f"tables end in {', '.join(suffixes_of(TableFormat))}, perhaps followed by .gz or .zst"
