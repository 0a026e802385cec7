"""What the end of a file's name says: how it is packed, and what is inside."""

from pathlib import Path

PACKED = (".gz", ".zst", ".zstd")


def suffix_of(path: Path) -> str:
    """The suffix of a file's name in lower case, below that of its packing."""
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


def without_packing(name: str) -> str:
    """The name that a file has when it is unpacked."""
    for packed in PACKED:
        if name.lower().endswith(packed):
            return name[: -len(packed)]
    return name
