"""Readers of dated texts: tables, folders, and what is in memory already."""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from driftline.words.texts import streams
from driftline.words.texts.dates import day_in_name, day_of
from driftline.words.texts.file_formats import Cells, Dialect, FileToRead, table_format, text_format
from driftline.words.texts.folders import unlisted
from driftline.words.texts.formats import plain_texts
from driftline.words.texts.streams import Limits, Tally


@dataclasses.dataclass(frozen=True)
class Tables:
    """Reads tables with a date and a text in every row."""

    folder: Path
    paths: tuple[Path, ...]
    columns: tuple[str, str]
    date_format: str | None
    dialect: Dialect
    limits: Limits
    skipped: tuple[str, ...] = ()

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Places, days and texts of all rows."""
        tally.skipped += self.skipped
        tally.bytes_total = streams.total_size(list(self.paths))
        for path in self.paths:
            name = _name(path, self.folder)
            file = FileToRead(path, name, self.dialect, tally, self.limits)
            for place, date, text in _rows(file, self.columns):
                yield place, _day(date, self.date_format, place), _text(text, place)

    def describe(self) -> dict[str, Any]:
        """Columns and dialect."""
        date, text = self.columns
        return {"kind": "tables", "date": date, "text": text, "date_format": self.date_format} | (
            dataclasses.asdict(self.dialect)
        )


@dataclasses.dataclass(frozen=True)
class NamedTexts:
    """Reads a folder with a text in every file and the dates in their names."""

    folder: Path
    paths: tuple[Path, ...]
    date_pattern: str | None
    date_format: str | None
    encoding: str
    limits: Limits
    skipped: tuple[str, ...] = ()

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Places, days and texts of all files; every name is checked before the first file is read."""
        tally.skipped += self.skipped
        tally.bytes_total = streams.total_size(list(self.paths))
        pattern = None if self.date_pattern is None else re.compile(self.date_pattern)
        for path, day in [(path, self._day(path, pattern)) for path in self.paths]:
            name = _name(path, self.folder)
            yield name, day, _whole(FileToRead(path, name, Dialect(self.encoding), tally, self.limits))

    def describe(self) -> dict[str, Any]:
        """Where the dates are."""
        return {
            "kind": "texts dated by name",
            "date_pattern": self.date_pattern,
            "date_format": self.date_format,
            "encoding": self.encoding,
        }

    def _day(self, path: Path, pattern: re.Pattern[str] | None) -> int:
        name = _name(path, self.folder)
        try:
            return day_in_name(name, pattern, self.date_format)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


@dataclasses.dataclass(frozen=True)
class ListedTexts:
    """Reads a folder with a text in every file and a table of files and dates."""

    folder: Path
    table: Path
    columns: tuple[str, str]
    date_format: str | None
    dialect: Dialect
    limits: Limits

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Names, days and texts of all files that the table names; all rows are checked before the first."""
        paths = [path for _, path in self._rows(Tally())]
        tally.bytes_total = self.table.stat().st_size + streams.total_size(paths)
        tally.skipped += unlisted(self.folder.resolve(), {path.resolve() for path in paths})
        for day, path in self._rows(tally):
            name = _name(path, self.folder.resolve())
            yield name, day, _whole(FileToRead(path, name, self.dialect, tally, self.limits))

    def describe(self) -> dict[str, Any]:
        """The table and its columns."""
        date, file = self.columns
        return {"kind": "texts dated by a table", "date": date, "text": file} | {
            "date_format": self.date_format,
            "encoding": self.dialect.encoding,
        }

    def _rows(self, tally: Tally) -> Iterator[tuple[int, Path]]:
        root = self.folder.resolve()
        table = FileToRead(self.table, self.table.name, self.dialect, tally, self.limits)
        for place, date, file in _rows(table, self.columns):
            path = root / _text(file, place)
            if not path.is_file() or not path.resolve().is_relative_to(root):
                raise ValueError(
                    f"{place}: there is no file {file!r} in {self.folder}; correct the table, "
                    "or pass text= with the name of the column that holds file names"
                )
            yield _day(date, self.date_format, place), path


@dataclasses.dataclass(frozen=True)
class DatedTexts:
    """Reads any iterable of dates and texts."""

    pairs: Iterable[tuple[Any, str]]

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Places, days and texts of all pairs."""
        for number, pair in enumerate(self.pairs, 1):
            try:
                date, text = pair
            except (TypeError, ValueError):
                raise TypeError(
                    f"document {number} is {pair!r:.80}, not a pair of a date and a text"
                ) from None
            place = f"document {number}"
            yield place, _day(date, None, place), _text(text, place)

    def describe(self) -> dict[str, Any]:
        """That the texts came from memory."""
        return {"kind": "memory"}


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _day(date: Any, form: str | None, place: str) -> int:
    if date is None or date == "":
        raise ValueError(f"{place}: the date is missing; fill it in, or leave the row out")
    try:
        return day_of(date, form)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _text(text: Any, place: str) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{place}: the text is {text!r:.80}, not a string; pass text= with the right column")
    return text


def _rows(file: FileToRead, columns: tuple[str, str]) -> Iterator[Cells]:
    """Two columns of a table of any format."""
    found = table_format(file.path)
    if found is None:
        raise ValueError(f"{file.name} is not a table; see words.read for the kinds of tables")
    return found.rows(file, columns)


def _whole(file: FileToRead) -> str:
    """The text of a file of any format; one that a table lists may have any name, and is then plain text."""
    found = text_format(file.path)
    return plain_texts.text(file) if found is None else found.text(file)
