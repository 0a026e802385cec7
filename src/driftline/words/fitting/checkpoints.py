"""The state of an unfinished fit, in a file that is whole or not there."""

import os
from typing import Any

import numpy as np

from driftline.storage import mapped_files
from driftline.storage.explained_errors import explained
from driftline.storage.kinds import FileKind
from driftline.words.fitting.checkpoint_checks import check
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.trainer import Entry

KIND = FileKind("word-fit", 4, "an unfinished fit of words", "an interrupted fit")


def write(
    path: str | os.PathLike, problem: FittingProblem, state: dict[str, Any], done: int, history: list[Entry]
) -> None:
    """Save the arrays of a state after `done` rounds."""
    arrays = {name: np.asarray(array) for name, array in state.items()}
    # Files hold numbers only; what is true is one.
    arrays = {
        name: array.astype(np.int32) if array.dtype == bool else array for name, array in arrays.items()
    }
    facts = {"fingerprint": problem.fingerprint, "done": done, "history": history}
    try:
        mapped_files.write(path, KIND, arrays, facts)
    except OSError as error:
        what = f"could not save the fit to {os.fspath(path)}"
        raise explained(error, what, "name another place with checkpoint=") from error


def read(path: str | os.PathLike, problem: FittingProblem) -> tuple[dict[str, np.ndarray], int, list[Entry]]:
    """The arrays of a state, how many rounds it has behind it, and their history; of this very fit."""
    arrays, facts = mapped_files.read(path, KIND)
    if not isinstance(facts, dict) or facts.get("fingerprint") != problem.fingerprint:
        raise ValueError(
            f"{os.fspath(path)} is a checkpoint of another fit: its counts, settings or held-out steps "
            "differ; give the same ones, or begin again without resuming"
        )
    try:
        check(arrays, facts, problem)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"{os.fspath(path)} does not hold the state of a fit ({error}); delete it and begin again"
        ) from error
    # Copies: a step-by-step fit writes into its state, and the file is about to be replaced.
    return {name: np.array(array) for name, array in arrays.items()}, facts["done"], facts["history"]
