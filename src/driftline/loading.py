"""`dl.load`: whatever driftline has saved."""

import importlib
import operator
import os
from pathlib import Path
from typing import Any

import driftline
from driftline.storage import checked_files

# Each kind of file by its name, and what opens it; imported when it is needed, since some need JAX.
OPENERS = {
    "posterior": ("driftline.results.posterior", "load"),
    "panel": ("driftline.results.panel_file", "load"),
    "refined": ("driftline.results.refined", "load"),
    "word-counts": ("driftline.words.counts.counts", "load_counts"),
    "word-atlas": ("driftline.words.atlas.atlas", "load"),
    "word-scores": ("driftline.words.evaluation.scores", "Evaluation.load"),
}


def load(path: str | os.PathLike) -> Any:
    """Read what `save` wrote: a posterior, refined or not, a panel, counts of words, an atlas, or scores.

    A damaged or inconsistent file is refused.
    """
    kind = _kind_of(Path(path))
    if kind == "word-fit":
        raise ValueError(
            f"{os.fspath(path)} holds an unfinished fit of words; go on with words.fit(..., resume=True) or "
            "`driftline words fit --resume`"
        )
    if kind is not None and kind not in OPENERS:
        raise ValueError(
            f"{os.fspath(path)} holds a {kind!r}, which this version of driftline ({driftline.__version__}) "
            "does not open; use the version that wrote it"
        )
    module, name = OPENERS[kind or "posterior"]  # which complains of what is not a file of driftline
    return operator.attrgetter(name)(importlib.import_module(module))(path)


def _kind_of(path):
    """What a file says it is; files that say nothing are refused as posteriors are."""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(8)
        if head.startswith(b"{") and b"\0" not in head:  # arrays begin with a length, which has zeros in it
            return "word-scores"
    return checked_files.kind_of(path)
