"""Scores of several methods: shown, drawn, kept in a file, and gone on from."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftline.storage import checked_files as files
from driftline.storage.explained_errors import explained
from driftline.words.evaluation.score_files import opened, sealed

TASKS = {
    "sgi": "from the step before",
    "sgp": "from the step before",
    "dsg-f": "from all steps before",
    "dsg-s": "from all other steps, before and after",
    "dsg-s-past": "from all steps before",
}
ZERO = float(np.log(0.5))


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one method.

    Attributes:
        steps: Steps that it predicted.
        scores: Log-likelihood of each divided by the sum of its counts.
        seconds: How long that took.
    """

    steps: np.ndarray
    scores: np.ndarray
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """Scores of several methods on the same corpus; print it for a table.

    Attributes:
        dates: Dates of all steps.
        held_out: Steps that smoothing was not shown.
        methods: Scores by method.
        settings: Hyperparameters that all methods share.
        made_from: A fingerprint of the `counts`, the version of `driftline`, and the `passes` of each method
            that was asked for, finished or not; nothing if a file is too old to say it.
    """

    dates: np.ndarray
    held_out: np.ndarray
    methods: dict[str, Scores]
    settings: dict[str, Any]
    made_from: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def compared(self) -> np.ndarray:
        """Held-out steps that all methods predicted; what goes by time cannot predict the first."""
        return functools.reduce(
            np.intersect1d, (found.steps for found in self.methods.values()), self.held_out
        )

    def mean(self, method: str) -> float:
        """Mean score of a method over the steps on which all are compared."""
        found = self.methods[method]
        return float(found.scores[np.isin(found.steps, self.compared)].mean())

    def __str__(self) -> str:
        rows = [("method", "held-out steps", "all it predicted", "worst", "best", "seconds", "predicts")]
        for name, found in self.methods.items():
            both = f"{self.mean(name):.4f}", f"{found.scores.mean():.4f} ({len(found.steps)})"
            ends = f"{found.scores.min():.4f}", f"{found.scores.max():.4f}"
            rows.append((name, *both, *ends, f"{found.seconds:.0f}", TASKS[name]))
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        note = (
            f"Mean log-likelihood per count of {len(self.compared)} held-out steps of {len(self.dates)}; "
            f"zero embeddings score {ZERO:.4f}.\ndsg-s sees what comes after a step and the others do not: "
            "they solve different tasks, and only dsg-s-past and dsg-f solve the same."
        )
        return "\n".join([*lines, "", note])

    def to_facts(self) -> dict[str, Any]:
        """Everything, as JSON can say it."""
        return {
            "dates": [str(date) for date in self.dates],
            "held_out": self.held_out.tolist(),
            "settings": self.settings,
            "made_from": self.made_from,
            "methods": {
                name: {
                    "mean_held_out": self.mean(name),
                    "mean": float(found.scores.mean()),
                    "steps": found.steps.tolist(),
                    "scores": found.scores.tolist(),
                    "seconds": found.seconds,
                    "predicts": TASKS[name],
                }
                for name, found in self.methods.items()
            },
        }

    def save(self, path: str | os.PathLike) -> None:
        """Write everything to a JSON file."""
        text = sealed(self.to_facts())
        try:
            with files.replacing(Path(path)) as file:
                file.write(text.encode())
        except OSError as error:
            raise explained(error, f"could not write {os.fspath(path)}", "choose another place") from error

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Evaluation":
        """Read what `save` wrote; a damaged or inconsistent file is refused."""
        try:
            facts = opened(Path(path).read_bytes())
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path} is not a file of scores ({error}); write it again") from error
        methods = {
            name: Scores(
                np.array(found["steps"], np.int64), np.array(found["scores"], float), float(found["seconds"])
            )
            for name, found in facts["methods"].items()
        }
        dates, held_out = np.array(facts["dates"], "datetime64[D]"), np.array(facts["held_out"], np.int64)
        found = cls(dates, held_out, methods, facts["settings"], dict(facts.get("made_from", {})))
        found._check_told(facts["methods"], path)
        return found

    def _check_told(self, methods: dict[str, Any], path: str | os.PathLike) -> None:
        """Refuse a file in which means are not those of the scores."""
        if methods and not len(self.compared):
            raise ValueError(f"{path} has no step that all its methods predicted; write it again")
        for name, told in methods.items():
            means = {"mean": float(self.methods[name].scores.mean()), "mean_held_out": self.mean(name)}
            if told["predicts"] != TASKS[name]:
                raise ValueError(f"{path} says that {name} predicts something else; write it again")
            for what, mean in means.items():
                if not isinstance(told[what], float) or abs(told[what] - mean) > 1e-9 * abs(mean):
                    raise ValueError(f"{path}: {what} of {name} is not that of its scores; write it again")

    def plot(
        self,
        path: str | os.PathLike,
        beside: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
    ) -> None:
        """Draw scores against dates, a curve for each method, into a picture file.

        Args:
            path: Its name.
            beside: Dates and scores of some of the methods as published, drawn dashed.
        """
        from driftline.words.evaluation.pictures import draw_scores

        draw_scores(self, path, beside)


def check_scores(path: str | os.PathLike, resume: bool) -> None:
    """Refuse a file of scores that is not there to go on from, or that beginning again would lose."""
    if resume and not Path(path).is_file():
        raise FileNotFoundError(
            f"there are no scores {os.fspath(path)} to go on from; begin without resume=True"
        )
    if Path(path).exists() and not resume:
        _refuse_other(path)
    missing = [] if resume else unfinished(path)
    if missing:
        raise ValueError(
            f"{os.fspath(path)} is unfinished, without {', '.join(missing)}: go on with resume=True, or "
            "delete it first"
        )


def _refuse_other(path: str | os.PathLike) -> None:
    """Refuse to write over a file that holds something else."""
    try:
        Evaluation.load(path)
    except ValueError as error:
        raise ValueError(
            f"{os.fspath(path)} is not a file of scores and would be overwritten; name another place, or "
            "move it"
        ) from error


def unfinished(path: str | os.PathLike) -> list[str]:
    """Methods that a file of scores was to have and has not; none if it is not there or is something else."""
    try:
        found = Evaluation.load(path)
    except (FileNotFoundError, ValueError):
        return []
    return [name for name in found.made_from.get("passes", {}) if name not in found.methods]
