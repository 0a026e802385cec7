"""`Posterior.refine`: from a fit to draws of the posterior itself."""

import dataclasses
from importlib.util import find_spec
from typing import Any

import jax
import numpy as np

from driftline.infer.judging import tops
from driftline.infer.judging.refinement import refine
from driftline.infer.number_vector import Layout
from driftline.infer.progress import DrawReporter
from driftline.infer.start import begin, starting_family
from driftline.models.model import Model
from driftline.models.observations import as_times, merged, observe
from driftline.models.padding import pad
from driftline.models.parameters import Support
from driftline.results.drawn_prediction import DrawnPrediction
from driftline.results.learnt_number import LearntNumber
from driftline.results.refined import Refined


@dataclasses.dataclass(frozen=True)
class Problem:
    """All that drawing from a posterior takes, but for the series' own steps.

    Attributes:
        model: The model, with learnt numbers at any value.
        values: The observations.
        times: Their times.
        time_unit: Unit of the model's time, if the times are dates.
        structure: "chains" or "block".
        parameters: The learnt numbers.
        supports: Where they may be, and what is believed of them.
    """

    model: Model
    values: np.ndarray
    times: np.ndarray
    time_unit: np.timedelta64 | None
    structure: str
    parameters: dict[str, LearntNumber]
    supports: dict[str, Support]


def refined(problem: Problem, *, draws: int, chains: int, warmup: int, seed: int, progress: Any) -> Refined:
    """Draw from the posterior."""
    _check(problem, draws, chains, warmup)
    options = {"draws": draws, "chains": chains, "warmup": warmup}
    known = _tops(problem, seed) if problem.values.size <= tops.LONGEST else ()
    found = _run(problem, problem.values, problem.times, seed, progress, options, known)

    def again(new_times, seed):
        return _at(problem, new_times, seed, options)

    return Refined(
        draws=found.paths,
        numbers=found.numbers,
        model=problem.model,
        values=problem.values,
        times=problem.times,
        time_unit=problem.time_unit,
        divergences=found.divergences,
        interrupted=found.interrupted,
        again=again,
        elsewhere=found.elsewhere,
    )


def _tops(problem, seed):
    """Tops of the posterior, by a search in a series that is filled up: similar lengths compile once."""
    model = problem.model
    with jax.enable_x64(True):
        _, gaps, _ = as_times(problem.times, None, len(problem.values), problem.time_unit)
        padded = pad(observe(problem.values, gaps, model.likelihood, model.prior.shape), model.likelihood)
        q = starting_family(model, begin(model, padded), padded, problem.structure)
        return tops.tops(model, padded, q, *points_of(problem.parameters, problem.supports), seed)


def _at(problem, new_times, seed, options):
    """Draws with steps added at new times: a time without an observation is a step with a missing value."""
    everything, places = merged(problem.times, new_times)
    longer = np.full((len(everything), *problem.values.shape[1:]), np.nan)
    longer[places[: len(problem.times)]] = problem.values
    found = _run(problem, longer, everything, seed, False, options)
    steps = places[len(problem.times) :]
    flat = found.paths.reshape(-1, *found.paths.shape[2:])
    numbers = {place: values.reshape(-1, *values.shape[2:]) for place, values in found.numbers.items()}
    return DrawnPrediction(new_times, flat[:, steps], numbers, problem.model)


def _run(problem, values, times, seed, progress, options, known=()):
    model = problem.model
    reporter = DrawReporter(progress)
    with jax.enable_x64(True):
        _, gaps, _ = as_times(times, None, len(values), problem.time_unit)
        observations = observe(values, gaps, model.likelihood, model.prior.shape)
        q = starting_family(model, begin(model, observations), observations, problem.structure)
        layout, points = points_of(problem.parameters, problem.supports)
        try:
            return refine(
                model,
                observations,
                q,
                layout,
                points,
                seed=seed,
                report=reporter.update,
                known=known,
                **options,
            )
        finally:
            reporter.close()


def points_of(
    parameters: dict[str, LearntNumber], supports: dict[str, Support]
) -> tuple[Layout, tuple[np.ndarray, np.ndarray]]:
    """How learnt numbers lie in a vector, and their weighted points in it, on the scale without bounds."""
    places = tuple(supports)
    shapes = tuple(parameters[place].values.shape[1:] for place in places)
    layout = Layout(places, tuple(supports.values()), shapes, flat=False)
    if not places:
        return layout, (np.zeros((1, 0)), np.ones(1))
    weights = parameters[places[0]].weights
    columns = [
        np.reshape(supports[place].to_raw(parameters[place].values), (len(weights), -1)) for place in places
    ]
    return layout, (np.concatenate(columns, axis=1), weights)


def _check(problem, draws, chains, warmup):
    for name, value, least in (("draws", draws, 4), ("chains", chains, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(f"refine({name}=...) takes a whole number from {least} on, got {value!r}")
    if problem.parameters and not problem.supports:
        raise ValueError(
            "the priors of the learnt numbers are not known here, as after loading from a file or in a "
            "panel; fit the series on its own, and refine that"
        )
    if problem.parameters and len(next(iter(problem.parameters.values())).weights) == 1:
        raise ValueError(
            "this fit has only the most probable values of its learnt numbers; fit with "
            "parameters='integrate' and refine that"
        )
    if find_spec("blackjax") is None:
        raise ImportError("refine needs BlackJAX: pip install 'driftline[mcmc]'")
