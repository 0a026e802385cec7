"""Files of arrays and facts, checked before they are believed: safetensors, JSON, a checksum, never code.

A file holds named arrays and one JSON object. Its metadata carry the kind and version of the format and a
SHA-256 over everything in it, so that a truncated or altered file is refused by name.
"""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

import driftline

ENTRY = "driftline"
KINDS = "biuf"  # the array kinds that are written and accepted: booleans and numbers
WRITERS = {  # for whoever opens something else
    "posterior": "`save` of a posterior",
    "word-counts": "`save` of counts or `driftline words count`",
}


def write(
    path: str | os.PathLike, kind: str, version: int, arrays: dict[str, np.ndarray], facts: Any
) -> None:
    """Write arrays and facts to a file; a reader sees the old file or the new one, never a half.

    Args:
        path: Where to write.
        kind: What the file is, such as "posterior".
        version: Version of that kind's format.
        arrays: Arrays of numbers or booleans.
        facts: Anything that JSON can say.
    """
    arrays = {name: _little_endian(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise TypeError(f"array {name!r} has dtype {array.dtype}, which is not a kind of number")
    text = json.dumps(facts, sort_keys=True, allow_nan=False)
    metadata = {
        "driftline": driftline.__version__,
        "format": f"{kind}/{version}",
        "facts": text,
    }
    metadata["sha256"] = _digest(metadata, arrays)
    # One entry: safetensors writes several in random order, and the same content should be the same bytes.
    content = to_bytes(arrays, {ENTRY: json.dumps(metadata, sort_keys=True)})
    with replacing(Path(path)) as file:
        file.write(content)


def read(path: str | os.PathLike, kind: str, version: int) -> tuple[dict[str, np.ndarray], Any]:
    """Read and verify a file written by `write`; returns its arrays and its facts."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = _metadata(file)
            if metadata.get("format") != f"{kind}/{version}":
                found = metadata.get("format", "unknown")
                raise ValueError(
                    f"{path} is not a driftline {kind} file of version {version}: its format is {found!r}; "
                    f"pass a file that {WRITERS.get(kind, 'this version of driftline')} wrote"
                )
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or not a driftline file ({error}); write it anew") from error
    if metadata.pop("sha256", None) != _digest(metadata, arrays):
        raise ValueError(f"{path} is damaged: its content does not match its checksum; write it anew")
    return arrays, json.loads(metadata["facts"])


def _little_endian(array) -> np.ndarray:
    """The array as safetensors stores it, so that the checksum is that of what will be read."""
    array = np.asarray(array, order="C")
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def _metadata(file) -> dict[str, str]:
    try:
        metadata = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
    except json.JSONDecodeError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _digest(metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write in; it takes the place of `path` once all is written, and is gone if that fails."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    # Made like any other new file, with the permissions that the user's umask leaves.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
