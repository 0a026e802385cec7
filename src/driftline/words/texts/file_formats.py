"""What a format of files must say of itself to be read, and which formats there are.

A format is a module in `words/texts/formats` with a `FORMAT`. All modules there are found by themselves, so a
new format is one new file (`docs/develop/adding-a-reader.md`).
"""

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from driftline.words.texts import formats
from driftline.words.texts.streams import Limits, Tally
from driftline.words.texts.suffixes import suffix_of

USUAL_TABLE = ".csv"  # what a pipe holds if nothing says otherwise


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How files are written.

    Attributes:
        encoding: Of the text.
        delimiter: Between the fields of CSV; None to find it in the header.
        quoted: Whether fields may stand in quotes; None for yes in CSV and no in TSV.
    """

    encoding: str = "utf-8"
    delimiter: str | None = None
    quoted: bool | None = None


class FileToRead(NamedTuple):
    """A file, and all that whoever reads it needs to know.

    Attributes:
        path: Where it is.
        name: What to call it in messages and records.
        dialect: How it is written.
        tally: What has been read so far; the reader updates it.
        limits: When to refuse.
    """

    path: Path
    name: str
    dialect: Dialect
    tally: Tally
    limits: Limits


class Cells(NamedTuple):
    """The two cells that were asked for of one row, and where the row is."""

    place: str
    key: Any
    value: Any


class TableFormat(NamedTuple):
    """A format of files with a date and a text in every row.

    Attributes:
        suffixes: How names of such files end, in lower case.
        rows: From a file and the names of two columns to the cells of every row.
        begins: Bytes with which a file of this format begins, to tell it from others when it comes through a
            pipe and has no name.
    """

    suffixes: tuple[str, ...]
    rows: Callable[[FileToRead, tuple[str, str]], Iterator[Cells]]
    begins: bytes | None = None


class TextFormat(NamedTuple):
    """A format of files that hold one text each; their names or a table say the dates.

    Attributes:
        suffixes: How names of such files end, in lower case.
        text: From a file to its text.
    """

    suffixes: tuple[str, ...]
    text: Callable[[FileToRead], str]


@functools.cache
def formats_by_suffix() -> dict[str, TableFormat | TextFormat]:
    """The format of every suffix that is known."""
    found: dict[str, TableFormat | TextFormat] = {}
    for module in pkgutil.iter_modules(formats.__path__, f"{formats.__name__}."):
        made: TableFormat | TextFormat = importlib.import_module(module.name).FORMAT
        for suffix in made.suffixes:
            if suffix in found:
                raise ValueError(f"{module.name}: the suffix {suffix!r} has a format already; choose another")
            found[suffix] = made
    return found


def format_of(path: Path) -> TableFormat | TextFormat | None:
    """The format of a file by its name, or None if it is not one that can be read."""
    return formats_by_suffix().get(suffix_of(path))


def table_format(path: Path) -> TableFormat | None:
    """The format of a table by its name, or None if it is not a table."""
    found = format_of(path)
    return found if isinstance(found, TableFormat) else None


def text_format(path: Path) -> TextFormat | None:
    """The format of a file with one text by its name, or None if it is not such a file."""
    found = format_of(path)
    return found if isinstance(found, TextFormat) else None


def suffixes_of(kind: type[TableFormat] | type[TextFormat]) -> list[str]:
    """The suffixes of all tables, or of all texts."""
    return [suffix for suffix, found in formats_by_suffix().items() if isinstance(found, kind)]


def suffix_by_content(head: bytes) -> str:
    """The suffix for a table that has no name, by how it begins; CSV begins in no way of its own."""
    for suffix, found in formats_by_suffix().items():
        if isinstance(found, TableFormat) and found.begins is not None and head.startswith(found.begins):
            return suffix
    return USUAL_TABLE


def no_column(place: str, missing: str, found: Sequence[Any], columns: tuple[str, str]) -> ValueError:
    """The error for a table that does not have a column.

    Args:
        place: The table, or the row.
        missing: The column that it does not have.
        found: The columns that it has.
        columns: The two that were asked for.
    """
    argument = "date" if missing == columns[0] else "text"
    names = ", ".join(repr(str(column)) for column in found[:20])
    return ValueError(
        f"{place}: no column {missing!r} for the {argument} among {names}; "
        f"pass {argument}= with the name of one of them"
    )
