"""What an atlas keeps of a fit that has ended: a posterior that allows for the noise between steps."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftline.words.fitting import chains, step_noise
from driftline.words.fitting.likelihood import Embeddings
from driftline.words.fitting.prior_numbers import Data, Learner, Prior
from driftline.words.fitting.problem import FittingProblem

SIDES = ("word", "context")
WEAK = 1e-2  # of a component's part in the logits: what no text supports


def close(
    problem: FittingProblem,
    learner: Learner,
    prior: Prior,
    moments: Embeddings,
    slopes: Sequence[Array],
    curvatures: Sequence[Array],
    noises: Sequence[Array],
) -> tuple[Prior, dict[str, Any]]:
    """The prior with the drift beyond noise, and moments of all rows under it, with what was learnt.

    Args:
        problem: What was fitted.
        learner: Of the prior's numbers.
        prior: Numbers that were learnt on the way.
        moments: Of all rows.
        slopes: Of the expected log-likelihood by the means of words and contexts, there.
        curvatures: Its curvatures.
        noises: Dispersion of each component of each word and context, (V, d).
    """
    word, data = jnp.asarray(problem.knots.word), []
    for dispersion, mean, slope, h in zip(noises, moments[:2], slopes, curvatures, strict=True):
        shrink = (1.0 / dispersion)[word]
        data.append(Data(h * shrink, (h * mean + slope) * shrink))
    beyond = learner.paths(prior, data, width=False)
    drift = problem.given(*beyond[:4]).drift
    found: dict[str, Any] = posterior(chains.prior_chains(problem.knots, drift, problem.dtype), data)
    settings = problem.settings
    found["learnt"] = {
        "free": [name for name in ("dim", "drift", "scale") if getattr(settings, name) is None],
        "scale": prior.scale,
        "drift": prior.mean_drift,
        "drift_beyond_noise": beyond.mean_drift,
        "drifts": [beyond.drift * pace for pace in beyond.paces],
        "shares": beyond.shares.tolist(),
        "dispersion": float(np.median(noises[0])) if step_noise.is_measurable(problem.knots) else None,
    }
    return beyond, found


def posterior(chain: chains.PriorChains, data: Sequence[Data]) -> dict[str, np.ndarray]:
    """Moments of all rows, as an atlas keeps them, given what the likelihood says of words and contexts."""
    found = {}
    for side, part in zip(SIDES, data, strict=True):
        spread = chains.spread(chain, part.precision)
        found |= {
            f"{side}s": chains.smoothed(chain, *part),
            f"{side}_variances": spread.variances,
            f"{side}_lag_covariances": jnp.pad(spread.lag_covariances, ((0, 1), (0, 0))),
        }
    return {name: np.asarray(array) for name, array in found.items()}


def supported(moments: Embeddings, weights: np.ndarray) -> int:
    """How many components have a part in the logits."""
    share = weights / weights.sum()
    parts = [np.sqrt(share @ np.asarray(side, np.float64) ** 2) for side in moments[:2]]
    return int((parts[0] * parts[1] > WEAK * max(1e-12, (parts[0] * parts[1]).max())).sum())
