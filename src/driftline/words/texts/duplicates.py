"""Texts that would be counted twice: a file beside its packed copy, a file named twice, the same bytes."""

import collections
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from driftline.words.texts.streams import FileRecord
from driftline.words.texts.suffixes import without_packing


def refuse_packed_twice(paths: Iterable[Path]) -> None:
    """Refuse files that have the same name but for their packing, such as a.csv and a.csv.gz."""
    seen: dict[Path, Path] = {}
    for path in paths:
        bare = path.with_name(without_packing(path.name))
        if bare in seen:
            raise ValueError(
                f"{seen[bare]} and {path} look like one file, packed and not, and would count twice; remove "
                "or rename one of them"
            )
        seen[bare] = path


def refuse_twice(paths: Sequence[Path]) -> None:
    """Refuse a file that is named twice, by whatever name."""
    seen: dict[Path, Path] = {}
    for path in paths:
        first = seen.setdefault(path.resolve(), path)
        if first is not path:
            raise ValueError(f"{first} and {path} are one file and would count twice; name it once")
    refuse_packed_twice(paths)


def warn_of_copies(records: Iterable[FileRecord]) -> None:
    """Warn of files with the same content, each of which has counted; the first are named."""
    names = collections.defaultdict(list)
    for record in sorted(records):
        if record.bytes:
            names[record.sha256].append(record.name)
    copied = [same for same in names.values() if same[1:]]
    if not copied:
        return
    first, second, *more = copied[0]
    what = f"{first} and {second}{f' and {len(more)} more' if more else ''} have the same content"
    if first == copied[0][-1]:
        what = f"{first} was read {len(copied[0])} times"
    others = f", and so with {len(copied) - 1} other contents" if copied[1:] else ""
    warnings.warn(f"{what}, and each counts{others}; take copies out if that is not meant", stacklevel=4)
