"""From the end of a run to an atlas, with all that is needed to ask it questions."""

import warnings
from typing import Any

import numpy as np

from driftline.words.atlas.atlas import Atlas
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.trainer import Entry, Verdict
from driftline.words.paths.long_steps import forward
from driftline.words.paths.paths import Between, Paths

BETWEEN: dict[str, Between] = {
    "dsg-s": "smoothed",
    "dsg-f": "filtered",
    "sgp": "independent",
    "sgi": "independent",
}


def as_atlas(problem: FittingProblem, found: dict[str, Any], history: list[Entry], verdict: Verdict) -> Atlas:
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


def _left_out(problem: FittingProblem) -> np.ndarray:
    return np.setdiff1d(np.arange(len(problem.counts)), problem.training)


def tell_dim(problem: FittingProblem, atlas: Atlas) -> None:
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


def _is_at_ceiling(problem: FittingProblem, atlas: Atlas) -> bool:
    """Whether a fit that chooses its dimension might have taken more; words have no more than they are."""
    return "dim" in atlas.learnt.get("free", []) and atlas.dim == problem.dim < len(problem.counts.vocabulary)
