"""Tables of dated texts, row by row: CSV and TSV, JSON lines, Parquet."""

import csv
import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from driftline.words.texts import streams
from driftline.words.texts.streams import FileRecord, Limits, Tally

KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
PACKED = (".gz", ".zst", ".zstd")
PARQUET_ROWS = 16  # decoded at a time: a few bytes of a dictionary may stand for a long text in each


class Cells(NamedTuple):
    """The two cells that were asked for of one row, and where the row is."""

    place: str
    key: Any
    value: Any


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a table is written.

    Attributes:
        encoding: Of the text.
        delimiter: Between the fields of CSV; None to find it in the header.
        quoted: Whether fields may stand in quotes; None for yes in CSV and no in TSV.
    """

    encoding: str = "utf-8"
    delimiter: str | None = None
    quoted: bool | None = None


def kind_of(path: Path) -> str | None:
    """What kind of table a file is by its name, or None."""
    return KINDS.get(suffix_of(path))


def suffix_of(path: Path) -> str:
    """The suffix of a file's name, below that of its packing."""
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def rows(
    path: Path, name: str, columns: tuple[str, str], layout: Layout, tally: Tally, limits: Limits
) -> Iterator[Cells]:
    """Two columns of a table of any kind.

    Args:
        path: Where the table is.
        name: What to call it.
        columns: Names of the columns.
        layout: How it is written.
        tally: What has been read so far; updated.
        limits: When to refuse.
    """
    kind = kind_of(path)
    if kind == "parquet":
        _check_unpacked(path, name)
        return _parquet(path, name, columns, tally, limits)
    decoded = decoded_lines(path, name, layout.encoding, tally, limits)
    if kind == "jsonl":
        return _json_lines(decoded, name, columns)
    return _csv(decoded, name, columns, layout, kind == "tsv", limits)


def decoded_lines(
    path: Path,
    name: str,
    encoding: str,
    tally: streams.Tally,
    limits: streams.Limits,
    remedy: str = streams.OTHER_ENCODING,
) -> Iterator[str]:
    """Lines of a file as text, without the mark with which spreadsheets begin UTF-8.

    Args:
        path: The file.
        name: How errors call it.
        encoding: Of its bytes.
        tally: What has been read.
        limits: When to refuse.
        remedy: What to do about bytes that are not such text.
    """
    for number, line in enumerate(streams.lines(path, name, tally, limits), 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        yield streams.decode(line, encoding, f"{name}, line {number}", remedy)


def _json_lines(decoded, name, columns):
    for number, line in enumerate(decoded, 1):
        if not line or line.isspace():
            continue
        place = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{place}: not JSON ({error}); every line must be one JSON object") from None
        if not isinstance(row, dict):
            raise ValueError(f"{place}: a JSON {type(row).__name__}, but every line must be an object")
        for column in columns:
            if column not in row:
                raise _no_column(place, column, list(row), columns)
        yield Cells(place, row[columns[0]], row[columns[1]])


def _csv(decoded, name, columns, layout, tabs, limits):
    header_line = next(decoded, None)
    if header_line is None:
        raise ValueError(f"{name} is empty; the first line must name the columns")
    delimiter = layout.delimiter or ("\t" if tabs else max(",;\t|", key=header_line.count))
    quoted = delimiter != "\t" if layout.quoted is None else layout.quoted
    csv.field_size_limit(max(csv.field_size_limit(), limits.document))
    reader = csv.reader(
        (line + "\n" for line in itertools.chain((header_line,), decoded)),
        delimiter=delimiter,
        quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        strict=quoted,
    )
    line = 1  # where a row begins; it may go on for many
    try:
        header = next(reader)
        for column in columns:
            if column not in header:
                raise _no_column(name, column, header, columns)
        first, second = (header.index(column) for column in columns)
        number, line = 0, reader.line_num + 1
        for row in reader:
            place, line = f"line {line}", reader.line_num + 1
            if not row:
                continue
            number += 1
            place = f"{name}, row {number} ({place})"
            if len(row) != len(header):
                raise ValueError(
                    f"{place}: {len(row)} fields, but the header names {len(header)}; put fields that hold "
                    f"{delimiter!r} or line ends in quotes, or pass delimiter= and quoted= to fit the file"
                )
            yield Cells(place, row[first], row[second])
    except csv.Error as error:
        if str(error).startswith("new-line character"):
            raise ValueError(
                f"{name}, line {line}: a carriage return without a line feed; if lines end so, convert the "
                rf"file first, as with `tr '\r' '\n' < {name}`; if it stands in a field, put a space there"
            ) from None
        raise ValueError(
            f"{name}, line {line}: not CSV ({error}); look for a quote that is not closed in the row that "
            "begins there, or pass quoted=False"
        ) from None


def _check_unpacked(path, name):
    """Refuse a packing around Parquet, which has its contents at the end and is not read as a stream."""
    with path.open("rb") as file:
        head = file.read(4)
    for magic, program in ((streams.GZIP, "gunzip"), (streams.ZSTD, "unzstd")):
        if head.startswith(magic):
            raise ValueError(
                f"{name}: a packed Parquet file cannot be read in place; unpack it first, as with "
                f"`{program}`, and leave it so: Parquet is packed inside already"
            )


def _parquet(path, name, columns, tally, limits):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"{name} is a Parquet file, which needs the package pyarrow: pip install 'driftline[parquet]', "
            "or write the table as CSV or JSON lines"
        ) from None
    record = _hashed(path, name)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_parquet(file.metadata, record, limits)
            for column in columns:
                if column not in file.schema_arrow.names:
                    raise _no_column(name, column, file.schema_arrow.names, columns)
            number = 0
            for batch in file.iter_batches(PARQUET_ROWS, columns=list(columns)):
                for key, value in _pylists(batch, columns, name, number):
                    number += 1
                    place = f"{name}, row {number}"
                    if isinstance(value, str) and len(value) > limits.document:
                        raise streams.too_long(place, limits)
                    yield Cells(place, key, value)
                tally.bytes_read += round(record.bytes * len(batch) / max(file.metadata.num_rows, 1))
    except (pyarrow.ArrowException, OSError) as error:
        # What pyarrow finds wrong with a file, it may call an error of the operating system.
        raise ValueError(f"{name}: not a sound Parquet file ({error}); get it or write it anew") from None
    tally.files.append(record)


def _pylists(batch, columns, name, before):
    try:
        return zip(*(batch[column].to_pylist() for column in columns), strict=True)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{name}, rows {before + 1} to {before + len(batch)}: bytes that are not UTF-8 text, or a time "
            f"beyond the calendar ({error}); write the file anew"
        ) from None


def _hashed(path, name) -> FileRecord:
    with path.open("rb") as file:
        return FileRecord(name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _check_parquet(metadata, record, limits):
    unpacked = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if unpacked > streams.HARMLESS and unpacked > limits.expansion * record.bytes:
        raise ValueError(
            f"{record.name}: {record.bytes:,} bytes unpack to {unpacked:,}, over {limits.expansion} times "
            "their size: this looks like a decompression bomb; if you trust the file, pass "
            f"limits=Limits(expansion={8 * limits.expansion})"
        )


def _no_column(place, missing, found, columns):
    argument = "date" if missing == columns[0] else "text"
    names = ", ".join(repr(str(column)) for column in found[:20])
    return ValueError(
        f"{place}: no column {missing!r} for the {argument} among {names}; "
        f"pass {argument}= with the name of one of them"
    )
