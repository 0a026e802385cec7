"""`words.fit`: from counts to an atlas, with progress, checkpoints and a way to go on when interrupted."""

import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from driftline.words.atlas.atlas import Atlas
from driftline.words.counts.counts import Counts
from driftline.words.fitting import memory
from driftline.words.fitting.fitted_atlas import as_atlas, tell_dim
from driftline.words.fitting.held_out import held_out_steps
from driftline.words.fitting.interruption import Limit
from driftline.words.fitting.problem import FittingProblem, check_problem
from driftline.words.fitting.progress import FitProgress
from driftline.words.fitting.runs import Checkpoint, run
from driftline.words.fitting.seeds import fit_seeds
from driftline.words.fitting.trainer import Verdict
from driftline.words.fitting.trainers import make_trainer
from driftline.words.settings import WordSettings


def fit(
    counts: Counts,
    method: Literal["dsg-s", "dsg-f", "sgp", "sgi"] = "dsg-s",
    dim: int | None = None,
    *,
    drift: float | None = None,
    scale: float | None = None,
    prior: Literal["stationary", "diffusion"] = "stationary",
    ratio: float = 1.0,
    exponent: float = 0.75,
    optimiser: Literal["fast", "paper"] = "fast",
    passes: int | Iterable[int] = (),
    minutes: float | None = None,
    seeds: int = 1,
    start: Atlas | None = None,
    hold_out: Iterable[int] = (),
    seed: int = 0,
    checkpoint: str | os.PathLike | None = None,
    resume: bool = False,
    every: float = 60.0,
    progress: bool | None | Callable[[FitProgress], object] = None,
) -> Atlas:
    """Fit embeddings that drift through time.

    Args:
        counts: From `words.count`.
        method: "dsg-s": all steps at once, the default; "dsg-f": step after step, each with its past; "sgp"
            and "sgi": point estimates without dynamics, as baselines.
        dim: Dimension of the embeddings. By default "dsg-s" takes as many as its ELBO prefers, up to 100, and
            the others 100.
        drift: Variance that an embedding gathers in a year; learnt by "dsg-s" if it is not given, and 0.001
            for the others.
        scale: Width of the prior's pull towards zero; with the stationary prior the standard deviation of a
            component at the first step, before anything is known. Learnt by "dsg-s" if it is not given, and
            0.3 for the others.
        prior: "stationary", in which a step depends on the one before and no more; or "diffusion", the
            papers' joint form, with a pull towards zero at every step; theirs is the model with
            `prior="diffusion", scale=1.0`.
        ratio: Negative for each positive count.
        exponent: Flattens the distribution of negative contexts.
        optimiser: "fast", or "paper" for the published one, which takes many times as long.
        passes: The most passes that each phase of the optimiser, or its only one, may take. A fit that
            reaches them says so, and is not `converged`.
        minutes: The most time that the fit may take; the same holds.
        seeds: How many fits, from this seed and the next ones. The one with the highest ELBO is returned, and
            how far they agree is in `atlas.provenance["seeds"]`.
        start: An atlas of the same words to begin with, for "dsg-s".
        hold_out: Steps that the fit must not see; their score is shown with the progress. "dsg-s" predicts
            them from both sides, the others from the step before, as soon as they have seen that.
        seed: The same seed gives the same numbers.
        checkpoint: File to which the state is saved now and then, and when Ctrl-C or SIGTERM stops the fit.
            If that fails, as on a full disk, a warning says so and the fit goes on.
        resume: Whether to go on from that file. The result is the same as without the interruption.
        every: Seconds between two checkpoints.
        progress: True, False, a function of a `FitProgress`, or None for a line if there is a terminal.
    """
    if isinstance(passes, int):
        passes = (passes,)
    if seeds != 1:
        options: dict[str, Any] = {
            "method": method,
            "dim": dim,
            "drift": drift,
            "scale": scale,
            "prior": prior,
            "ratio": ratio,
            "exponent": exponent,
            "optimiser": optimiser,
            "passes": tuple(passes),
            "minutes": minutes,
            "start": start,
            "hold_out": tuple(hold_out),
            "seed": seed,
            "checkpoint": checkpoint,
            "resume": resume,
            "every": every,
            "progress": progress,
        }
        return _several(counts, seeds, options)
    settings = WordSettings(
        method=method,
        dim=dim,
        drift=drift,
        scale=scale,
        prior=prior,
        ratio=ratio,
        exponent=exponent,
        optimiser=optimiser,
        passes=tuple(passes),
        seed=seed,
    )
    held_out = held_out_steps(counts, hold_out)
    problem = FittingProblem(counts, settings, np.setdiff1d(np.arange(len(counts)), held_out))
    check_problem(problem)
    _check_checkpoint(checkpoint, resume)
    memory.check(problem)
    trainer = make_trainer(problem, start)
    limit = Limit(minutes)
    kept = None if checkpoint is None else Checkpoint(checkpoint, resume, every)
    state, history = run(trainer, problem, held_out, kept, progress, limit)
    verdict = Verdict(False, limit.message) if limit.reached else trainer.verdict(history)
    atlas = as_atlas(*trainer.finish(state), history, verdict)
    tell_dim(problem, atlas)
    return atlas


def _several(counts: Counts, seeds: int, options: dict[str, Any]) -> Atlas:
    """The best of several fits, which says how far they agree."""
    atlas, agreed = fit_seeds(fit, counts, seeds, **options)
    return dataclasses.replace(atlas, provenance=atlas.provenance | {"seeds": agreed})


def _check_checkpoint(checkpoint: str | os.PathLike | None, resume: bool) -> None:
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to go on from")
    if checkpoint is not None and not Path(checkpoint).absolute().parent.is_dir():
        raise ValueError(f"checkpoint={os.fspath(checkpoint)!r}: there is no such folder; make it first")
