"""Tables with a JSON object on every line."""

import json
from collections.abc import Iterator

from driftline.words.texts import streams
from driftline.words.texts.file_formats import Cells, FileToRead, TableFormat, no_column


def rows(file: FileToRead, columns: tuple[str, str]) -> Iterator[Cells]:
    """Two members of every object."""
    lines = streams.decoded_lines(file.path, file.name, file.dialect.encoding, file.tally, file.limits)
    for number, line in enumerate(lines, 1):
        if not line or line.isspace():
            continue
        place = f"{file.name}, line {number}"
        row = _object(line, place)
        for column in columns:
            if column not in row:
                raise no_column(place, column, list(row), columns)
        yield Cells(place, row[columns[0]], row[columns[1]])


def _object(line: str, place: str) -> dict:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: not JSON ({error}); every line must be one JSON object") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place}: a JSON {type(row).__name__}, but every line must be an object")
    return row


FORMAT = TableFormat((".jsonl", ".ndjson"), rows, begins=b"{")
