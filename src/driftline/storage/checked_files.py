"""Files of arrays and facts, checked before they are believed: safetensors, JSON, a checksum, never code.

A file holds named arrays and one JSON object. Its metadata carry the kind and version of the format and a
SHA-256 over everything in it, so that a truncated or altered file is refused by name.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import secrets
import stat
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from driftline.storage.kinds import FileKind, refuse_other_kind

ENTRY = "driftline"
UNREADABLE = (  # what comes of bytes that are not those that were written
    SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
KINDS = "biuf"  # the array kinds that are written and accepted: booleans and numbers


class OpenFile(Protocol):
    """An open file of safetensors."""

    def keys(self) -> list[str]:
        """Names of its arrays."""
        ...

    def get_tensor(self, name: str) -> np.ndarray:
        """One of them."""
        ...

    def metadata(self) -> dict[str, str] | None:
        """What it says of itself."""
        ...


# With the types that safetensors does not give.
_open = cast(Callable[..., contextlib.AbstractContextManager[OpenFile]], safe_open)


def write(path: str | os.PathLike[str], kind: FileKind, arrays: dict[str, np.ndarray], facts: Any) -> None:
    """Write arrays and facts to a file; a reader sees the old file or the new one, never a half.

    Args:
        path: Where to write.
        kind: What the file is.
        arrays: Arrays of numbers or booleans.
        facts: Anything that JSON can say.
    """
    arrays = {name: _little_endian(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise TypeError(f"array {name!r} has dtype {array.dtype}, which is not a kind of number")
    metadata = kind.metadata(json.dumps(facts, sort_keys=True, allow_nan=False))
    metadata["sha256"] = _digest(metadata, arrays)
    # One entry: safetensors writes several in random order, and the same content should be the same bytes.
    content = to_bytes(arrays, {ENTRY: json.dumps(metadata, sort_keys=True)})
    with replacing(Path(path)) as file:
        file.write(content)


def read(path: str | os.PathLike[str], kind: FileKind) -> tuple[dict[str, np.ndarray], Any]:
    """Read and verify a file written by `write`; returns its arrays and its facts."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        metadata, arrays = _opened(path, kind.format)
    except UNREADABLE as error:
        raise ValueError(f"{path} is damaged or not a driftline file ({error}); make it again") from error
    refuse_other_kind(path, kind, metadata)
    try:
        if arrays is None or metadata.pop("sha256", None) != _digest(metadata, arrays):
            raise ValueError("its content does not match its checksum")
        return arrays, parsed(metadata["facts"])
    except UNREADABLE as error:
        raise ValueError(f"{path} is damaged: {error}; make it again") from error


def kind_of(path: str | os.PathLike[str]) -> str | None:
    """The kind that a file says it is; None if it says nothing, for whoever reads it to complain."""
    try:
        with _open(path, framework="numpy") as file:
            found = _metadata(file).get("format")
    except (OSError, *UNREADABLE):
        return None
    return found.split("/")[0] if isinstance(found, str) else None


def parsed(text: str) -> Any:
    """JSON as it is written here: every number is finite, and no list is nested without end."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("what it says in JSON is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} in it is not finite")
    return number


def _opened(path: Path, form: str) -> tuple[dict[str, Any], dict[str, np.ndarray] | None]:
    """The metadata of a file and its arrays; None in their place if it has another format."""
    with _open(path, framework="numpy") as file:
        metadata = _metadata(file)
        if metadata.get("format") != form:
            return metadata, None
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dict
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise ValueError(f"{name} has dtype {array.dtype}")
    return metadata, arrays


def _little_endian(array: np.ndarray) -> np.ndarray:
    """The array as safetensors stores it, so that the checksum is that of what will be read."""
    array = np.asarray(array, order="C")
    return array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)


def _metadata(file: OpenFile) -> dict[str, Any]:
    try:
        metadata = parsed((file.metadata() or {}).get(ENTRY, "{}"))
    except ValueError:
        return {}
    return cast(dict[str, Any], metadata) if isinstance(metadata, dict) else {}


def _digest(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


@contextlib.contextmanager
def replacing(path: Path) -> Generator[BinaryIO]:
    """A file to write in; it takes the place of `path` once all is written, and is gone if that fails.

    Links are followed: they stay, and what they lead to is replaced. A file that was there leaves its
    permissions to the new one. Errors name `path`, not the file that is written first.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
    try:
        mode = _mode_of(target)
        # A new file gets the permissions that the user's umask leaves.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666 if mode is None else mode)
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # where nothing could be made, nothing can be removed
            temporary.unlink()
        if isinstance(error, OSError) and _is_about(error, temporary, target):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def _mode_of(target: Path) -> int | None:
    """Permissions of a regular file that is to be replaced; None if it is new."""
    try:
        found = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")
    return found & 0o777


def _is_about(error: OSError, *places: Path) -> bool:
    """Whether an error is of these places, or names none; others may come from what was to be written."""
    return error.errno is not None and (
        error.filename is None or error.filename in (*places, *map(str, places))
    )
