"""Files of large arrays that are used where they lie: safetensors, with a checksum for each array.

The layout is that of safetensors: eight bytes with the length of a header, the header in JSON, then the
arrays one after the other. The header has the facts, a SHA-256 of each array, and one of itself. Writing and
verifying go through the arrays piece by piece, and reading maps them, so that no file needs its size in
memory.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from driftline.storage.checked_files import ENTRY, UNREADABLE, parsed, replacing
from driftline.storage.kinds import FileKind, refuse_other_kind

PIECE = 1 << 22  # bytes that are hashed at a time; a whole number of any item
MAX_HEADER = 1 << 28
ALIGNMENT = 64
DTYPES = {"I64": "<i8", "F64": "<f8", "I32": "<i4", "F32": "<f4"}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

Inspect = Callable[[str, np.ndarray], None]


class Entry(TypedDict):
    """What the header says of an array."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


def write(path: str | os.PathLike[str], kind: FileKind, arrays: dict[str, np.ndarray], facts: Any) -> None:
    """Write arrays and facts; a reader sees the old file or the new one, never a half.

    Args:
        path: Where to write.
        kind: What the file is.
        arrays: Arrays of 32 or 64 bit numbers.
        facts: Anything that JSON can say.
    """
    for name, array in arrays.items():
        if array.dtype not in NAMES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}; one of {sorted(DTYPES)} is needed")
    # The widest items first, so that every array begins at a multiple of its item's size.
    arrays = {
        name: np.asarray(array, order="C")
        for name, array in sorted(arrays.items(), key=lambda pair: (-pair[1].itemsize, pair[0]))
    }
    metadata = kind.metadata(json.dumps(facts, sort_keys=True, allow_nan=False))
    metadata["arrays"] = {name: _digest(array) for name, array in arrays.items()}
    header: dict[str, Any] = {"__metadata__": {ENTRY: ""}} | _entries(arrays)
    metadata["sha256"] = _signature(metadata, header)
    header["__metadata__"][ENTRY] = json.dumps(metadata, sort_keys=True)
    encoded = _encoded(header)
    with replacing(Path(path)) as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for array in arrays.values():
            for piece in pieces(array):
                file.write(piece.data)


def read(
    path: str | os.PathLike[str], kind: FileKind, *, verify: bool = True, inspect: Inspect | None = None
) -> tuple[dict[str, np.ndarray], Any]:
    """Open a file written by `write`; returns its arrays, mapped and read-only, and its facts.

    Args:
        path: Where it is.
        kind: What it has to be.
        verify: Whether to read all arrays once and compare their checksums. The header is always verified.
        inspect: Gets the name and the pieces of each array when they are verified, to look at the numbers.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with path.open("rb") as file:
        try:
            header, metadata, begin = _header(file)
        except UNREADABLE as error:
            raise ValueError(f"{path} is damaged or not a driftline file ({error}); make it again") from error
        refuse_other_kind(path, kind, metadata)
        try:
            digests = metadata["arrays"]
            entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
            size = _check_layout(entries, os.fstat(file.fileno()).st_size - begin)
            if verify:
                _verify(file, begin, entries, digests, inspect)
            return _mapped(file, begin, size, entries), parsed(metadata["facts"])
        except UNREADABLE as error:
            raise ValueError(f"{path} is damaged: {error}; make it again") from error


def _verify(
    file: BufferedReader,
    begin: int,
    entries: dict[str, Entry],
    digests: dict[str, str],
    inspect: Inspect | None,
) -> None:
    _must(digests.keys() == entries.keys(), "its checksums are not those of its arrays")
    for name, entry in entries.items():
        file.seek(begin + entry["data_offsets"][0])
        found = _verified(file, name, entry, inspect)
        _must(found == digests[name], f"{name} does not match its checksum")


def _mapped(file: BufferedReader, begin: int, size: int, entries: dict[str, Entry]) -> dict[str, np.ndarray]:
    whole = np.memmap(file, np.uint8, "r", begin, (size,)) if size else np.zeros(0, np.uint8)
    arrays: dict[str, np.ndarray] = {}
    for name, entry in entries.items():
        piece = np.asarray(whole[slice(*entry["data_offsets"])])
        arrays[name] = piece.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def _entries(arrays: dict[str, np.ndarray]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        entries[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    return entries


def _encoded(header: dict[str, Any]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-(len(text) + 8) % ALIGNMENT)


def _signature(metadata: dict[str, Any], header: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([metadata, header], sort_keys=True).encode()).hexdigest()


def pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array in its order in memory, as short arrays of one axis."""
    flat = array.reshape(-1)
    step = PIECE // array.itemsize
    for begin in range(0, len(flat), step):
        yield flat[begin : begin + step]


def _digest(array: np.ndarray) -> str:
    digest = hashlib.sha256()
    for piece in pieces(array):
        digest.update(piece.data)
    return digest.hexdigest()


def _header(file: BufferedReader) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The header, the metadata in it, and where the arrays begin; only as `write` wrote them."""
    head = file.read(8)
    _must(len(head) == 8, "it is too short")
    (length,) = struct.unpack("<Q", head)
    _must(length <= min(MAX_HEADER, os.fstat(file.fileno()).st_size - 8), "its header is cut off")
    text = file.read(length)
    header = parsed(text.decode())
    metadata = parsed(header["__metadata__"][ENTRY])
    _must(isinstance(metadata, dict), "its metadata are not an object")
    if "arrays" not in metadata:  # it is of `checked_files`, and so of another kind
        return header, metadata, 8 + length
    sealed = metadata.pop("sha256", None)
    emptied = header | {"__metadata__": {ENTRY: ""}}
    _must(sealed == _signature(metadata, emptied), "its header does not match its checksum")
    _must(text == _encoded(header), "its header has another form")
    return header, metadata, 8 + length


def _check_layout(entries: dict[str, Entry], available: int) -> int:
    """Refuse arrays that overlap, leave gaps or do not fill the file; returns how many bytes they take."""
    end = 0
    for name, entry in entries.items():
        shape, (begin, stop) = entry["shape"], entry["data_offsets"]
        _must(
            all(type(number) is int and number >= 0 for number in [*shape, begin, stop]),
            f"{name} has a malformed entry",
        )
        size = math.prod(shape) * np.dtype(DTYPES[entry["dtype"]]).itemsize
        _must(begin == end and stop == begin + size, f"{name} is not where it should be")
        end = stop
    _must(end == available, f"its arrays need {end:,} bytes and it has {available:,}")
    return end


def _verified(file: BufferedReader, name: str, entry: Entry, inspect: Inspect | None) -> str:
    # Read into one buffer instead of through the map, so that the file does not count as memory in use.
    digest, buffer = hashlib.sha256(), bytearray(PIECE)
    left = entry["data_offsets"][1] - entry["data_offsets"][0]
    while left:
        view = memoryview(buffer)[: min(left, PIECE)]
        _must(file.readinto(view) == len(view), "it is too short")
        digest.update(view)
        if inspect is not None:
            inspect(name, np.frombuffer(view, DTYPES[entry["dtype"]]))
        left -= len(view)
    return digest.hexdigest()


def _must(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)
