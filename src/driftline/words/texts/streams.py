"""Files as streams of bytes and lines: unpacked, measured, hashed, and never larger than they may be."""

import codecs
import dataclasses
import hashlib
import os
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

READ_SIZE = 1 << 18
PIECE = 1 << 20  # of unpacked bytes handed on at a time
HARMLESS = 1 << 24  # this many unpacked bytes are never a bomb
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ZSTD_SLICE = 1 << 10  # zstd gives at most 32 KiB for a byte, so at most 32 MiB for a slice

OTHER_ENCODING = "pass the encoding that the file was written in, such as encoding='latin-1'"
TO_UTF8 = "convert the file to UTF-8 first"


class Limits(NamedTuple):
    """What a file may cost before it is refused.

    Attributes:
        document: Bytes of the longest document or line.
        expansion: How many times its packed size a packed file may have. Texts reach 3 to 20.
    """

    document: int = 1 << 24
    expansion: int = 200


class FileRecord(NamedTuple):
    """A file that was read to its end."""

    name: str
    bytes: int
    sha256: str


@dataclasses.dataclass
class Tally:
    """What has been read so far; filled while a source is being read.

    Attributes:
        bytes_total: Bytes that the source has on disk, if it is known.
        bytes_read: How many of them have been read.
        files: The files that have been read to their ends.
        skipped: Names of files beside them that are not read.
    """

    bytes_total: int = 0
    bytes_read: int = 0
    files: list[FileRecord] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)


class _Metered:
    """A file that keeps account of what is read from it."""

    def __init__(self, file: BinaryIO, tally: Tally):
        self._file = file
        self._tally = tally
        self._digest = hashlib.sha256()
        self.consumed = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        self.consumed += len(data)
        self._tally.bytes_read += len(data)
        return data

    def record(self, name: str) -> None:
        self._tally.files.append(FileRecord(name, self.consumed, self._digest.hexdigest()))


def chunks(path: Path, name: str, tally: Tally, limits: Limits) -> Generator[bytes, None, None]:
    """The unpacked content of a file, piece by piece; gzip and zstd are known by their first bytes.

    Args:
        path: Where the file is.
        name: What to call it in messages and records.
        tally: What has been read so far; updated.
        limits: When to refuse.
    """
    with path.open("rb") as file:
        head = file.read(4)
        file.seek(0)
        metered = _Metered(file, tally)
        if head.startswith(GZIP):
            yield from _within(_gunzip(metered, name), metered, name, limits)
        elif head == ZSTD:
            yield from _within(_unzstd(metered, name), metered, name, limits)
        else:
            yield from iter(lambda: metered.read(READ_SIZE), b"")
        metered.record(name)


def whole(path: Path, name: str, tally: Tally, limits: Limits) -> bytes:
    """The unpacked content of a file that is one document."""
    parts, size = [], 0
    for chunk in chunks(path, name, tally, limits):
        size += len(chunk)
        if size > limits.document:
            raise too_long(name, limits)
        parts.append(chunk)
    return b"".join(parts)


def lines(path: Path, name: str, tally: Tally, limits: Limits) -> Generator[bytes, None, None]:
    """The lines of a file, without their ends."""
    parts, size, number = [], 0, 1
    for chunk in chunks(path, name, tally, limits):
        for i, piece in enumerate(chunk.split(b"\n")):
            if i:
                yield b"".join(parts).removesuffix(b"\r")
                parts, size, number = [], 0, number + 1
            parts.append(piece)
            size += len(piece)
            if size > limits.document:
                raise too_long(f"{name}, line {number}", limits)
    if size:
        yield b"".join(parts).removesuffix(b"\r")


def decoded_lines(
    path: Path, name: str, encoding: str, tally: Tally, limits: Limits, remedy: str = OTHER_ENCODING
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
    for number, line in enumerate(lines(path, name, tally, limits), 1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield decode(line, encoding, f"{name}, line {number}", remedy)


def decode(data: bytes, encoding: str, place: str, remedy: str = OTHER_ENCODING) -> str:
    """Bytes as text, or an error that says where they stop being text.

    Args:
        data: The bytes.
        encoding: How they are to be read.
        place: Where they are from.
        remedy: What an error advises; whoever asks may have no option for the encoding.
    """
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise ValueError(
                f"{place}: UTF-16, by its first two bytes; {TO_UTF8}, as with `iconv -f UTF-16 -t UTF-8`"
            ) from None
        raise ValueError(
            f"{place}: byte {error.start + 1} (0x{data[error.start]:02x}) is not {encoding} text; {remedy}"
        ) from None
    if "\0" in text:
        raise ValueError(
            f"{place}: byte {data.index(0) + 1} is a zero, so this is not text, or it is UTF-16; {TO_UTF8}"
        )
    return text


def total_size(paths: list[Path]) -> int:
    """Bytes on disk of some files."""
    return sum(path.stat().st_size for path in paths)


def record_of(path: Path, name: str) -> FileRecord:
    """The record of a file that is not read as a stream; read once here, for its hash."""
    with path.open("rb") as file:
        return FileRecord(name, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def refuse_packed(path: Path, name: str, kind: str) -> None:
    """Refuse gzip or zstd around a kind of file that is not read as a stream, and is packed inside anyway."""
    with path.open("rb") as file:
        head = file.read(4)
    for magic, program in ((GZIP, "gunzip"), (ZSTD, "unzstd")):
        if head.startswith(magic):
            raise ValueError(
                f"{name}: a packed {kind} file cannot be read in place; unpack it first, as with "
                f"`{program}`, and leave it so: {kind} is packed inside already"
            )


def check_expansion(name: str, packed: int, unpacked: int, limits: Limits, more: str = "") -> None:
    """Refuse a file that unpacks to far more bytes than any text would.

    Args:
        name: What to call it.
        packed: Its bytes.
        unpacked: The bytes that they become.
        limits: When to refuse.
        more: What to say after their number, such as " or more".
    """
    if unpacked > HARMLESS and unpacked > limits.expansion * packed:
        raise ValueError(
            f"{name}: {packed:,} bytes unpack to {unpacked:,}{more}, over {limits.expansion} times their "
            "size: this looks like a decompression bomb; if you trust the file, pass "
            f"limits=Limits(expansion={8 * limits.expansion})"
        )


def digest_of(records: list[FileRecord]) -> str:
    """One hash for some files: that of the only one, or that of the listing `sha256sum` would print."""
    if len(records) == 1:
        return records[0].sha256
    listing = "".join(f"{record.sha256}  {record.name}\n" for record in sorted(records))
    return hashlib.sha256(os.fsencode(listing)).hexdigest()  # names of files need not be text


def too_long(place: str, limits: Limits) -> ValueError:
    """The error for a document over the limit."""
    return ValueError(
        f"{place}: a document of more than {limits.document:,} bytes; split it, or allow it with "
        f"limits=Limits(document={8 * limits.document})"
    )


def _within(
    pieces: Iterator[bytes], metered: _Metered, name: str, limits: Limits
) -> Generator[bytes, None, None]:
    produced = 0
    for piece in pieces:
        produced += len(piece)
        check_expansion(name, metered.consumed, produced, limits, " or more")
        if piece:
            yield piece


def _damaged(name: str, error: Exception | str) -> ValueError:
    return ValueError(f"{name}: the packed file is damaged ({error}); get it or pack it again")


def _gunzip(metered: _Metered, name: str) -> Generator[bytes, None, None]:
    """Unpack a gzip file of any number of members, with zeros allowed after each, as gzip does."""
    inflater = zlib.decompressobj(31)
    while data := metered.read(READ_SIZE):
        while data:
            if inflater.eof:
                data = data.lstrip(b"\0")
                if not data:
                    break
                inflater = zlib.decompressobj(31)
            try:
                yield inflater.decompress(data, PIECE)
            except zlib.error as error:
                raise _damaged(name, error) from None
            data = inflater.unconsumed_tail or inflater.unused_data
    yield inflater.flush()
    if not inflater.eof:
        raise _damaged(name, "it ends too early")


def _unzstd(metered: _Metered, name: str) -> Generator[bytes, None, None]:
    try:
        import zstandard
    except ImportError:
        raise ImportError(
            f"{name} is packed with zstd, which needs the package zstandard: "
            "pip install 'driftline[zstd]', or unpack the file"
        ) from None
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    frame = unpacker.decompressobj()
    while data := metered.read(READ_SIZE):
        for start in range(0, len(data), ZSTD_SLICE):
            piece = data[start : start + ZSTD_SLICE]
            while piece:
                if frame.eof:
                    frame = unpacker.decompressobj()
                try:
                    yield frame.decompress(piece)
                except zstandard.ZstdError as error:
                    raise _damaged(name, error) from None
                piece = frame.unused_data
    if not frame.eof:
        raise _damaged(name, "it ends too early")
