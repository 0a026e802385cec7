"""`dl.fit` for a panel: all series side by side."""

from typing import Any

import jax
import numpy as np

from driftline.infer import newton
from driftline.infer import side_by_side as side_by_side
from driftline.infer.learning import integration
from driftline.infer.progress import Reporter
from driftline.models.model import Model
from driftline.models.parameters import at_start, learnt, places_of, with_values
from driftline.models.several_series import Series, observe_panel
from driftline.results.learnt_number import LearntNumber
from driftline.results.panel import Panel


def fit_panel(
    model: Model,
    series: list[Series],
    settings: newton.Settings | None,
    method: str,
    structure: str,
    progress: Any,
    parameters: str,
    *,
    shared: bool,
) -> Panel:
    """Fit every series of a panel; arguments as in `dl.fit`."""
    if settings is None or method != "newton" or structure != "chains":
        raise ValueError(
            f"a panel is fitted by method='newton' with structure='chains', not by {method!r} with "
            f"{structure!r}; fit the series one by one for that"
        )
    with jax.enable_x64(True):
        observations = observe_panel(series, at_start(model).likelihood, model.prior.shape)
        if not learnt(model):
            return _with_fixed_numbers(model, series, observations, settings, progress)
        if shared:
            return _with_shared_numbers(model, series, observations, settings, progress, parameters)
        return _with_numbers_of_their_own(model, series, observations, settings, progress, parameters)


def learnt_numbers(model: Model, learning: integration.Learning) -> dict[str, LearntNumber]:
    """What was learnt, under all places of each number."""
    found = {place: LearntNumber(values, learning.weights) for place, values in learning.values.items()}
    return {other: number for place, number in found.items() for other in places_of(model, place)}


def _with_fixed_numbers(model, series, observations, settings, progress):
    fits = side_by_side.maximise(model, observations, settings, Reporter("newton", len(series), progress))
    finite = np.isfinite(fits.first_elbo)
    if not finite.all():
        name = series[int(np.argmin(finite))].name
        raise ValueError(
            f"series {name!r}: the ELBO is not finite where its fit begins; fit it alone to see why"
        )
    missed = int((~fits.converged).sum())
    message = f"{missed} series not converged" if missed else "all converged"
    quantiles = None if fits.quantiles is None else np.asarray(fits.quantiles).transpose(1, 2, 0)
    return Panel.assembled(
        model=model, series=series, q=fits.q, elbos=fits.elbo, converged=fits.converged,
        iterations=fits.iterations, parameters={}, shared=False, message=message, quantiles=quantiles,
    )  # fmt: skip


def _with_shared_numbers(model, series, observations, settings, progress, parameters):
    reporter = Reporter("learning", None, progress)
    learning = integration.learn_numbers(
        model,
        observations,
        lambda model: side_by_side.start(model, observations),
        settings,
        mode=parameters,
        reporter=reporter,
        is_panel=True,
    )
    numbers = learnt_numbers(model, learning)
    fixed = with_values(model, {place: number.mean for place, number in numbers.items()})
    fits = side_by_side.maximise(fixed, observations, settings, Reporter("newton", len(series), False))
    outcome = learning.outcome
    # A series' own ELBO is that at the means of the numbers; only their sum takes part in learning them.
    return Panel.assembled(
        model=fixed, series=series, q=outcome.q, elbos=fits.elbo,
        converged=fits.converged & outcome.converged, iterations=fits.iterations, parameters=numbers,
        shared=True, message=outcome.message,
        quantiles=None if outcome.quantiles is None else outcome.quantiles.swapaxes(1, 2),
    )  # fmt: skip


def _with_numbers_of_their_own(model, series, observations, settings, progress, parameters):
    reporters = (
        Reporter("learning", None, progress),
        Reporter("averaging", len(series), progress),
    )
    outcomes, numbers, interrupted = [], {}, False
    every = integration.learn_numbers_of_each(
        model, observations, lambda model: side_by_side.start(model, observations), settings,
        mode=parameters, names=[one.name for one in series], reporters=reporters,
    )  # fmt: skip
    for one, learning in zip(series, every, strict=True):
        outcomes.append(learning.outcome)
        interrupted |= learning.interrupted
        numbers[one.name] = learnt_numbers(model, learning)
    q = jax.tree.map(lambda *leaves: np.stack(leaves), *(outcome.q for outcome in outcomes))
    tables = [outcome.quantiles for outcome in outcomes if outcome.quantiles is not None]
    converged = np.array([outcome.converged for outcome in outcomes])
    missed = int((~converged).sum())
    ending = "interrupted, " if interrupted else ""
    return Panel.assembled(
        model=model, series=series, q=q, elbos=np.array([outcome.elbo for outcome in outcomes]),
        converged=converged, iterations=np.array([outcome.iterations for outcome in outcomes]),
        parameters=numbers, shared=False,
        message=f"{ending}{missed} series not converged" if missed else "all converged",
        quantiles=np.stack(tables, axis=2) if len(tables) == len(series) else None,
    )  # fmt: skip
