"""Kinds of files: what one holds, and what to say when a file is of another kind or version."""

from pathlib import Path
from typing import Any, NamedTuple

import driftline


class FileKind(NamedTuple):
    """A kind of file; whoever reads and writes it defines it.

    Attributes:
        name: What the file says it is.
        version: Version of its format.
        holds: What is in it, such as "a posterior".
        writer: What writes it, such as "`save` of a posterior".
    """

    name: str
    version: int
    holds: str
    writer: str

    @property
    def format(self) -> str:
        """What stands in the file."""
        return f"{self.name}/{self.version}"

    def metadata(self, facts: str) -> dict[str, Any]:
        """What every file of this kind says of itself, with its facts as JSON."""
        return {
            "driftline": driftline.__version__,
            "format": self.format,
            "holds": self.holds,
            "facts": facts,
        }


def refuse_other_kind(path: Path, wanted: FileKind, metadata: dict[str, Any]) -> None:
    """Raise an error if a file says that it is of another kind or version than the one that is wanted."""
    found = str(metadata.get("format", ""))
    if found == wanted.format:
        return
    name, _, version = found.partition("/")
    if name == wanted.name:
        raise ValueError(
            f"{path} holds {wanted.holds} in format {version}, written by driftline "
            f"{metadata.get('driftline', 'of an unknown version')}; this version ({driftline.__version__}) "
            f"reads format {wanted.version}. Use that version, or make the file again"
        )
    remedy = f"pass a file that {wanted.writer} wrote"
    if not found:
        raise ValueError(f"{path} is not a driftline file; {remedy}")
    holds = metadata.get("holds", f"a {name!r} of an earlier version")
    raise ValueError(f"{path} holds {holds}, not {wanted.holds}; {remedy}")
