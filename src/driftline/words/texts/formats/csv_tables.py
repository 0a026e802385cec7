"""Tables of fields with a character between them: CSV and TSV."""

import csv
import itertools
from collections.abc import Iterator
from typing import Any

from driftline.words.texts import streams
from driftline.words.texts.file_formats import Cells, FileToRead, TableFormat, no_column
from driftline.words.texts.suffixes import suffix_of

TABS = (".tsv", ".tab")


def rows(file: FileToRead, columns: tuple[str, str]) -> Iterator[Cells]:
    """Two fields of every row."""
    lines = streams.decoded_lines(file.path, file.name, file.dialect.encoding, file.tally, file.limits)
    header_line = next(lines, None)
    if header_line is None:
        raise ValueError(f"{file.name} is empty; the first line must name the columns")
    reader, delimiter = _reader(header_line, lines, file)
    line = 1  # where a row begins; it may go on for many
    try:
        header = next(reader)
        for column in columns:
            if column not in header:
                raise no_column(file.name, column, header, columns)
        first, second = (header.index(column) for column in columns)
        number, line = 0, reader.line_num + 1
        for row in reader:
            place, line = f"line {line}", reader.line_num + 1
            if not row:
                continue
            number += 1
            place = f"{file.name}, row {number} ({place})"
            if len(row) != len(header):
                raise ValueError(
                    f"{place}: {len(row)} fields, but the header names {len(header)}; put fields that hold "
                    f"{delimiter!r} or line ends in quotes, or pass delimiter= and quoted= to fit the file"
                )
            yield Cells(place, row[first], row[second])
    except csv.Error as error:
        raise _not_csv(file.name, line, error) from None


def _reader(header: str, lines: Iterator[str], file: FileToRead) -> tuple[Any, str]:
    """What goes through the rows, and the character that stands between fields."""
    dialect = file.dialect
    usual = "\t" if suffix_of(file.path) in TABS else max(",;\t|", key=header.count)
    delimiter = dialect.delimiter or usual
    quoted = delimiter != "\t" if dialect.quoted is None else dialect.quoted
    csv.field_size_limit(max(csv.field_size_limit(), file.limits.document))
    reader = csv.reader(
        (line + "\n" for line in itertools.chain((header,), lines)),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=quoted,
    )
    return reader, delimiter


def _not_csv(name: str, line: int, error: csv.Error) -> ValueError:
    if str(error).startswith("new-line character"):
        return ValueError(
            f"{name}, line {line}: a carriage return without a line feed; if lines end so, convert the "
            rf"file first, as with `tr '\r' '\n' < {name}`; if it stands in a field, put a space there"
        )
    return ValueError(
        f"{name}, line {line}: not CSV ({error}); look for a quote that is not closed in the row that "
        "begins there, or pass quoted=False"
    )


FORMAT = TableFormat((".csv", *TABS), rows)
