"""`words.fit`: from counts to an atlas, with progress, checkpoints and a way to go on when interrupted."""

import dataclasses
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from driftline.words.atlas.atlas import Atlas
from driftline.words.counts.counts import Counts
from driftline.words.fitting import checkpoints, memory
from driftline.words.fitting.failures import diverged
from driftline.words.fitting.held_out import held_out_steps, interpolated_scores, scores_ahead
from driftline.words.fitting.problem import Problem
from driftline.words.fitting.progress import FitProgress, FitReporter
from driftline.words.fitting.published import PublishedSmoother
from driftline.words.fitting.seeds import fit_seeds
from driftline.words.fitting.smoothing import Smoother
from driftline.words.fitting.stepwise import Stepwise
from driftline.words.fitting.verdict import Verdict
from driftline.words.paths.long_steps import forward
from driftline.words.paths.paths import Between, Paths
from driftline.words.settings import Settings

BETWEEN: dict[str, Between] = {
    "dsg-s": "smoothed",
    "dsg-f": "filtered",
    "sgp": "independent",
    "sgi": "independent",
}


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
    settings = Settings(
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
    problem = Problem(counts, settings, np.setdiff1d(np.arange(len(counts)), held_out))
    check_problem(problem)
    _check_checkpoint(checkpoint, resume)
    memory.check(problem)
    trainer = make_trainer(problem, start)
    limit = Limit(minutes)
    state, history = run(trainer, problem, held_out, checkpoint, resume, every, progress, limit)
    verdict = Verdict(False, limit.message) if limit.reached else trainer.verdict(history)
    atlas = as_atlas(*trainer.finish(state), history, verdict)
    tell_dim(problem, atlas)
    return atlas


def _several(counts, seeds, options):
    """The best of several fits, which says how far they agree."""
    atlas, agreed = fit_seeds(fit, counts, seeds, **options)
    return dataclasses.replace(atlas, provenance=atlas.provenance | {"seeds": agreed})


def tell_dim(problem: Problem, atlas: Atlas) -> None:
    """Warn of a dimension that the texts do not support, which blurs the rest, or that met its ceiling."""
    supported = atlas.learnt.get("supported_dim")
    if atlas.converged and _is_at_ceiling(problem, atlas):
        warnings.warn(
            f"the fit kept all {atlas.dim} dimensions, the most that it takes by itself, and the texts may "
            f"support more: ask for them, as with dim={2 * atlas.dim} (--dim {2 * atlas.dim})",
            stacklevel=3,
        )
    if problem.settings.dim is not None and supported is not None and 2 * supported <= problem.settings.dim:
        warnings.warn(
            f"the texts support {supported} of {problem.settings.dim} dimensions; leave dim= out (--dim "
            "auto), and the fit takes as many as its ELBO prefers",
            stacklevel=3,
        )


def _is_at_ceiling(problem, atlas):
    """Whether a fit that chooses its dimension might have taken more; words have no more than they are."""
    return "dim" in atlas.learnt.get("free", []) and atlas.dim == problem.dim < len(problem.counts.vocabulary)


def make_trainer(problem: Problem, start: Atlas | None = None) -> Smoother | PublishedSmoother | Stepwise:
    """Who trains a problem.

    Args:
        problem: What is trained.
        start: A fit of the same words to begin with, for "dsg-s" and the fast optimiser.
    """
    if problem.settings.method != "dsg-s":
        return Stepwise(problem)
    if problem.settings.optimiser == "paper":
        return PublishedSmoother(problem)
    return Smoother(problem, start=None if start is None else _levels(problem, start))


def _levels(problem, start):
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
    return tuple(sides)


class Limit:
    """The time that a fit may take."""

    def __init__(self, minutes: float | None = None):
        if minutes is not None and not minutes > 0:
            raise ValueError(f"minutes={minutes!r}; a positive number is needed")
        self._minutes, self._began = minutes, time.monotonic()
        self.reached = False
        self.message = f"stopped after the {minutes:g} minutes that were given" if minutes else ""

    def check(self) -> bool:
        """Whether the time is up."""
        self.reached = self._minutes is not None and time.monotonic() - self._began >= 60.0 * self._minutes
        return self.reached


def run(
    trainer: Any,
    problem: Problem,
    held_out: np.ndarray,
    checkpoint: str | os.PathLike | None,
    resume: bool,
    every: float,
    progress: Any,
    limit: Limit | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Train to the end; returns the last state and what was seen on the way."""
    history: list[dict[str, Any]] = []
    done = 0
    if resume and checkpoint is not None:
        state, done, history = checkpoints.read(checkpoint, problem)
    else:
        state = trainer.begin()
    saved = time.monotonic()
    reporter = FitReporter(progress, trainer.effort, trainer.without_elbo)
    with reporter as report, Interruption() as interruption:
        while (phase := trainer.phase(done, history)) is not None:
            before = state
            state = jax.block_until_ready(trainer.advance(state, phase, done))
            done += 1
            objective, score = None, None
            if trainer.is_due(done):
                seen = trainer.seen(before, state)
                objective = _checked(seen["objective"], problem, done, phase)
                score = _score(trainer, problem, held_out, state, done, history)
                history.append({"done": done, "phase": phase, "score": score} | seen)
            del before
            report.update(phase, done, trainer.ahead(done, history), objective, score)
            late = time.monotonic() - saved >= every
            if checkpoint is not None and (late or interruption.asked):
                _save(checkpoint, problem, state, done, history)
                saved = time.monotonic()
            if interruption.asked:
                raise KeyboardInterrupt(interruption.signal)
            if limit is not None and limit.check():
                break
    return state, history


class Interruption:
    """Ctrl-C asks for a stop at the end of the pass, when the state is whole; a second one stops at once.

    So does SIGTERM, unless the program does something about it already.

    Attributes:
        signal: Number of the signal that asked, or None.
    """

    def __init__(self):
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether a stop was asked for."""
        return self.signal is not None

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._ask)
            if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._ask)
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number, _):
        if self.asked:
            raise KeyboardInterrupt(number)
        self.signal = number


def _save(checkpoint, problem, state, done, history):
    """Save the state. If that fails, as on a full disk, the fit is not lost: it goes on."""
    try:
        checkpoints.write(checkpoint, problem, state, done, history)
    except OSError as error:
        warnings.warn(f"{error.strerror}; the fit goes on", stacklevel=4)


def _checked(objective, problem, done, phase):
    if not np.isfinite(objective):
        raise diverged(f"the objective is {objective} after {done} rounds (phase {phase})", problem.settings)
    return objective


def _score(trainer, problem, held_out, state, done, history):
    """Mean score of the held-out steps; step by step, of those that come before the next one."""
    if isinstance(trainer, Stepwise):
        first, last = problem.training[[0, done - 1]]
        before = int(np.count_nonzero((held_out > first) & (held_out < last)))
        mean = history[-1]["score"] if history else None
        # From the mean before, which a checkpoint keeps to the last bit.
        for many, score in enumerate(scores_ahead(trainer, held_out, state, done - 1), before + 1):
            mean = score if mean is None else mean + (score - mean) / many
        return mean
    if not len(held_out):
        return None
    return float(interpolated_scores(trainer.given(state), held_out, *trainer.rows(state)).mean())


def as_atlas(
    problem: Problem, found: dict[str, Any], history: list[dict[str, Any]], verdict: Verdict
) -> Atlas:
    """The result of a fit, with all that is needed to ask it questions.

    Args:
        problem: What was fitted, with the numbers of its prior.
        found: Moments of all rows; what was learnt and the ELBO, if the method has them.
        history: What was seen on the way.
        verdict: How the fit has ended.
    """
    counts, settings = problem.counts, problem.settings
    drift, scale = settings.numbers
    knots = problem.knots
    sides = [
        Paths(
            knots=knots,
            drift=problem.drift,
            mean=found[f"{side}s"],
            variance=found.get(f"{side}_variances"),
            lag_covariance=found.get(f"{side}_lag_covariances"),
            between=BETWEEN[settings.method],
            forward=forward(settings.prior, problem.dates, drift, scale)
            if settings.method == "dsg-f"
            else None,
        )
        for side in ("word", "context")
    ]
    return Atlas(
        vocabulary=counts.vocabulary,
        dates=problem.dates,
        knots=knots,
        words=sides[0],
        contexts=sides[1],
        drift=problem.drift,
        occurrences=counts.occurrences[problem.training][knots.step, knots.word],
        tokens=counts.tokens[problem.training],
        settings=settings.to_facts() | {"dim": found["words"].shape[1], "drift": drift, "scale": scale},
        provenance=counts.provenance | {"left_out": [int(t) for t in _left_out(problem)]},
        history={name: [entry.get(name) for entry in history] for name in (history[0] if history else ())},
        elbo=found.get("elbo"),
        converged=verdict.converged,
        message=verdict.message,
        learnt=found.get("learnt", {}),
    )


def _left_out(problem):
    return np.setdiff1d(np.arange(len(problem.counts)), problem.training)


def check_problem(problem: Problem) -> None:
    """Refuse counts from which nothing can be learnt."""
    if len(problem.training) < 2:
        raise ValueError(
            f"{len(problem.training)} time steps are left to fit; drift needs at least two: hold out fewer"
        )
    if not any(len(step.words) for step in problem.steps):
        raise ValueError(
            "no step has a pair of words of the vocabulary: count with a larger vocabulary or window"
        )


def _check_checkpoint(checkpoint, resume):
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to go on from")
    if checkpoint is not None and not Path(checkpoint).absolute().parent.is_dir():
        raise ValueError(f"checkpoint={os.fspath(checkpoint)!r}: there is no such folder; make it first")
