"""Where learnt numbers might start, by a look at the series: the same place in any unit."""

import jax.numpy as jnp
import numpy as np

from driftline.infer.learning.problem import LearningProblem
from driftline.models.parameters import Learn

LEVELS = ("prior.mean", "prior.initial_mean")
STEPS = ("prior.scale", "likelihood.scale")
WIDE = "prior.initial_scale"


def first_guess(problem: LearningProblem, numbers: dict[str, Learn]) -> dict[str, np.ndarray]:
    """Starts of all learnt numbers, of which those are changed that the series says something of.

    Args:
        problem: The model and the series.
        numbers: The learnt numbers, by place.
    """
    starts = {place: number.start for place, number in numbers.items()}
    seen = problem.seen()
    if not seen.size:
        return starts
    likelihood = problem.template.likelihood
    level = likelihood.rough_path(seen)
    guess: dict[str, float] = {} if level is None else dict.fromkeys(LEVELS, level)
    if likelihood.adds_noise:
        step = 0.5 * float(np.std(np.diff(seen))) if seen.size > 1 else 0.0
        if step > 0:
            guess |= dict.fromkeys(STEPS, step)
            guess[WIDE] = float(np.std(seen)) + abs(float(seen[0]))
    for place, value in guess.items():
        if place in numbers and _is_allowed(numbers[place], value):
            starts[place] = np.full_like(starts[place], value)
    return starts


def check_series(problem: LearningProblem, numbers: dict[str, Learn]) -> None:
    """Refuse a constant series for which the width of the noise is to be learnt without a prior.

    Args:
        problem: The model and the series.
        numbers: The learnt numbers, by place.
    """
    noise = numbers.get("likelihood.scale")
    if noise is None or noise.support.prior is not None or not problem.template.likelihood.adds_noise:
        return
    seen = problem.seen()
    if seen.size > 1 and np.ptp(seen) == 0:
        raise ValueError(
            f"every observation is {seen.flat[0]:g}, so that the noise has no lower end and the posterior of "
            "likelihood.scale is improper; give it a prior, dl.learn(..., prior=...), or a fixed value"
        )


def _is_allowed(number: Learn, value: float) -> bool:
    """Whether a number may be there, with some mass of its prior."""
    if not number.support.lower < value < number.support.upper:
        return False
    return bool(np.isfinite(np.asarray(number.support.log_prior(jnp.full_like(number.start, value)))))
