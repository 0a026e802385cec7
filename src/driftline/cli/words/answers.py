"""Answers of an atlas on a terminal: tables beside each other, fewer rows, JSON."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from driftline.words.atlas.answers import Answer

AnswerT = TypeVar("AnswerT", bound="Answer")


def to_json(answers: "Answer | Sequence[Answer]") -> str:
    """All fields of an answer, or of several."""
    from driftline.words.atlas.atlas_file import plain

    several = isinstance(answers, Sequence)
    facts = [
        {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}  # pyright: ignore[reportArgumentType]
        for answer in (answers if several else [answers])
    ]
    return json.dumps(plain(facts if several else facts[0]), indent=1, default=str, ensure_ascii=False)


def with_rows(answer: AnswerT, rows: Sequence[int]) -> AnswerT:
    """The same answer with some of its rows only."""
    length = len(getattr(answer, "dates", ())) or len(getattr(answer, "words", ()))
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(answer):  # pyright: ignore[reportArgumentType]
        value = getattr(answer, field.name)
        if isinstance(value, tuple):
            fields[field.name] = tuple(value[row] for row in rows)
        elif getattr(value, "shape", ())[:1] == (length,):
            fields[field.name] = value[list(rows)]
    return dataclasses.replace(answer, **fields)  # pyright: ignore[reportArgumentType]


def size_of(paths: Iterable[Path]) -> str:
    """How large some files are together, for people."""
    total = sum(path.stat().st_size for path in paths)
    return f"{total / 1e3:,.0f} kB" if total < 1e6 else f"{total / 1e6:,.1f} MB"


def beside(tables: Sequence[str], gap: str = "    ") -> str:
    """Several tables next to each other."""
    columns = [table.splitlines() for table in tables]
    widths = [max(map(len, lines)) for lines in columns]
    rows = zip_longest(*columns, fillvalue="")
    return "\n".join(
        gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
