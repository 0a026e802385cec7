"""Which files of a folder are read, and which are not: none is passed over in silence."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from driftline.words.texts.duplicates import refuse_packed_twice
from driftline.words.texts.file_formats import TextFormat, suffixes_of, table_format, text_format
from driftline.words.texts.suffixes import suffix_of

ALL = "**/*"


class Listing(NamedTuple):
    """What is in a folder: texts or tables, never both, and the names of what is neither.

    Attributes:
        texts: Files with one text each.
        tables: Files with a text in every row.
        skipped: Names of what matched the pattern and is not read: files of other kinds, links to folders,
            links that lead nowhere, pipes.
    """

    texts: tuple[Path, ...]
    tables: tuple[Path, ...]
    skipped: tuple[str, ...]


def list_folder(folder: Path, pattern: str | None) -> Listing:
    """The files of a folder that can be read; hidden ones, which begin with a dot, are none of them.

    Links to folders are not followed by `**`, since they may lead in a circle.

    Args:
        folder: Where to look.
        pattern: Which files, as for `pathlib.Path.glob`; all if it is None.
    """
    pattern = ALL if pattern is None else pattern
    if not pattern or Path(pattern).is_absolute():
        raise ValueError(f"pattern={pattern!r}; it is relative to the folder, such as '*.txt'")
    found = [path for path in sorted(folder.glob(pattern)) if not _is_hidden(path, folder)]
    files = [path for path in found if path.is_file()]
    texts = tuple(file for file in files if text_format(file))
    tables = tuple(file for file in files if table_format(file))
    _check(folder, pattern, texts, tables, len(files))
    refuse_packed_twice(texts + tables)
    read = {*texts, *tables}
    others = [path for path in found if path not in read and not path.is_dir()]
    return Listing(texts, tables, _names([*others, *_links(folder, pattern)], folder))


def unlisted(folder: Path, listed: set[Path]) -> tuple[str, ...]:
    """Names of the texts of a folder that are not among some, which are resolved."""
    found = [path for path in folder.glob(ALL) if path.is_file() and text_format(path)]
    return _names(
        [path for path in found if path.resolve() not in listed and not _is_hidden(path, folder)], folder
    )


def _names(paths: Iterable[Path], folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.relative_to(folder).as_posix() for path in paths))


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _links(folder: Path, pattern: str) -> list[Path]:
    """Links to folders into which the pattern would go, were they folders."""
    if "**" not in pattern:
        return []
    return [
        path
        for path in folder.glob(ALL)
        if path.is_symlink() and path.is_dir() and not _is_hidden(path, folder)
    ]


def _check(folder: Path, pattern: str, texts: Sequence[Path], tables: Sequence[Path], num_files: int) -> None:
    if not texts and not tables:
        raise ValueError(
            f"{folder}: none of its {num_files} files that match {pattern!r} is a text "
            f"({', '.join(suffixes_of(TextFormat))}) or a table; rename them, or pass pattern="
        )
    if texts and tables:
        raise ValueError(
            f"{folder} holds texts, such as {texts[0].name}, and tables, such as {tables[0].name}; pass "
            f"pattern='**/*{suffix_of(texts[0])}' to read the ones, or table= if a table lists the others"
        )
