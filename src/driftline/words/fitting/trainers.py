"""Which trainer a problem gets."""

from typing import Any

import numpy as np

from driftline.words.atlas.atlas import Atlas
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.published import PublishedSmoother
from driftline.words.fitting.smoothing import Smoother
from driftline.words.fitting.stepwise import Stepwise
from driftline.words.fitting.trainer import Trainer


def make_trainer(problem: FittingProblem, start: Atlas | None = None) -> Trainer[Any]:
    """What trains a problem.

    Args:
        problem: What is trained.
        start: A fit of the same words to begin with, for "dsg-s" and the fast optimiser.
    """
    if problem.settings.method != "dsg-s":
        return Stepwise(problem)
    if problem.settings.optimiser == "paper":
        return PublishedSmoother(problem)
    return Smoother(problem, start=None if start is None else _levels(problem, start))


def _levels(problem: FittingProblem, start: Atlas) -> tuple[np.ndarray, np.ndarray]:
    """Mean vectors of words and of contexts over all steps of an atlas."""
    if start.vocabulary != problem.counts.vocabulary or start.contexts is None:
        raise ValueError("start= must be an atlas of the same vocabulary, with contexts")
    word = start.knots.word
    many = np.maximum(np.bincount(word, minlength=len(start.vocabulary)), 1)[:, None]
    sides = []
    for paths in (start.words, start.contexts):
        total = np.zeros((len(many), start.dim))
        np.add.at(total, word, paths.mean)
        mean = total / many
        if problem.settings.dim is not None and problem.settings.dim != start.dim:
            raise ValueError(f"dim={problem.settings.dim}, but start= has {start.dim} dimensions")
        sides.append(mean)
    return sides[0], sides[1]
