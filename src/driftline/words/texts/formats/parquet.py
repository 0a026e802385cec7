"""Tables of Parquet, which need the package pyarrow."""

from collections.abc import Iterable, Iterator
from typing import Any

from driftline.words.texts import streams
from driftline.words.texts.file_formats import Cells, FileToRead, TableFormat, no_column

ROWS = 16  # decoded at a time: a few bytes of a dictionary may stand for a long text in each


def rows(file: FileToRead, columns: tuple[str, str]) -> Iterator[Cells]:
    """Two cells of every row."""
    # Parquet has its contents at the end, and is not read as a stream.
    streams.refuse_packed(file.path, file.name, "Parquet")
    pyarrow = _pyarrow(file.name)
    record, tally, limits = streams.record_of(file.path, file.name), file.tally, file.limits
    try:
        with pyarrow.parquet.ParquetFile(file.path) as table:
            streams.check_expansion(file.name, record.bytes, _unpacked_size(table.metadata), limits)
            for column in columns:
                if column not in table.schema_arrow.names:
                    raise no_column(file.name, column, table.schema_arrow.names, columns)
            number = 0
            for batch in table.iter_batches(ROWS, columns=list(columns)):
                for key, value in _pairs(batch, columns, file.name, number):
                    number += 1
                    place = f"{file.name}, row {number}"
                    if isinstance(value, str) and len(value) > limits.document:
                        raise streams.too_long(place, limits)
                    yield Cells(place, key, value)
                tally.bytes_read += round(record.bytes * len(batch) / max(table.metadata.num_rows, 1))
    except (pyarrow.ArrowException, OSError) as error:
        # What pyarrow finds wrong with a file, it may call an error of the operating system.
        raise ValueError(
            f"{file.name}: not a sound Parquet file ({error}); get it or write it again"
        ) from None
    tally.files.append(record)


def _pyarrow(name: str) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"{name} is a Parquet file, which needs the package pyarrow: pip install 'driftline[parquet]', "
            "or write the table as CSV or JSON lines"
        ) from None
    return pyarrow


def _unpacked_size(metadata: Any) -> int:
    return sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))


def _pairs(batch: Any, columns: tuple[str, str], name: str, before: int) -> Iterable[tuple[Any, Any]]:
    try:
        return zip(*(batch[column].to_pylist() for column in columns), strict=True)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{name}, rows {before + 1} to {before + len(batch)}: bytes that are not UTF-8 text, or a time "
            f"beyond the calendar ({error}); write the file again"
        ) from None


FORMAT = TableFormat((".parquet", ".pq"), rows, begins=b"PAR1")
