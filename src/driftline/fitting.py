"""`dl.fit`: choose a method, check the input, run, and wrap what comes out."""

import dataclasses
from typing import Any

import jax
import numpy as np

from driftline.families.padding import cut
from driftline.infer import newton
from driftline.infer.bbvi import optimise as bbvi
from driftline.infer.coupling import chosen_structure
from driftline.infer.exact import kalman
from driftline.infer.learning import integration
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.infer.skewed_marginals import skewed_quantiles
from driftline.infer.start import begin, starting_family, without_correlations
from driftline.models.model import Model
from driftline.models.observations import as_times, as_values, observe
from driftline.models.padding import pad
from driftline.models.parameters import at_start, learnt, with_values
from driftline.models.several_series import as_panel, is_panel
from driftline.panel_fitting import fit_panel, learnt_numbers
from driftline.results.panel import Panel
from driftline.results.posterior import Posterior

SETTINGS = {"newton": newton.Settings, "bbvi": bbvi.Settings, "mean-field": bbvi.Settings, "exact": None}
STRUCTURES = ("chains", "block")


def fit(
    model: Model,
    x: Any,
    *,
    times: Any = None,
    time_unit: Any = None,
    method: str = "newton",
    structure: str | None = None,
    seed: int = 0,
    progress: Any = None,
    parameters: str = "integrate",
    shared: bool = True,
    **options: Any,
) -> Posterior | Panel:
    """Fit a model to a series, or to each of many.

    Runs in double precision without touching JAX's global settings. Ctrl-C returns the best state so far,
    not converged and with a message that says so. Before the first step, and for a panel with fixed numbers,
    which takes seconds, there is none, and the fit is given up.

    Args:
        model: The model, such as `dl.Model(dl.RandomWalk(0.1), dl.Poisson())`.
        x: The series: array, list, pandas or polars Series, time first. NaN or None = not observed.
            A matrix or a frame with a column for each of many series, or a dict of them, which may differ
            in length and times, is a panel.
        times: Numbers or dates of the steps, increasing; None for those of a pandas index, whose text must
            be dates, or else for equal steps. Dates with a time zone become those of UTC.
        time_unit: What one unit of time is if `times` are dates, such as `np.timedelta64(1, "D")`;
            None for their median gap, in a panel for the median of all gaps of all series.
        method: "newton" (natural-gradient steps: fast, deterministic), "bbvi" (the paper), "mean-field"
            (a baseline without correlations in time), or "exact" (linear and Gaussian models only).
        structure: "chains" for one independent chain per element of the path, "block" for one chain that
            couples them all. By default "block" where the model couples elements and there are at most eight,
            else "chains"; `post.structure` says which.
        seed: The same seed gives the same numbers.
        progress: True or False, a function that takes a `Progress`, or None for a line on a terminal.
        parameters: For numbers marked with `dl.learn`: "integrate" for a posterior over them, over which
            the path is averaged, or "maximise" for their most probable values.
        shared: Whether the series of a panel have the learnt numbers in common, or each its own.
        options: `max_iterations` and `tolerance`; for "bbvi" and "mean-field" also `samples`,
            `learning_rate`, `estimator`, `basis`. See `driftline.infer.newton.Settings` and
            `driftline.infer.bbvi.optimise.Settings`.

    Returns:
        The `Posterior`; for a panel a `Panel` of them.

    Example:
        >>> import driftline as dl
        >>> model = dl.Model(dl.RandomWalk(scale=0.1), dl.Poisson())
        >>> post = dl.fit(model, [3, 5, None, 4, 6])
        >>> post.mean.shape
        (5,)
    """
    settings = _settings(model, method, structure, seed, parameters, options)
    plain = at_start(model)  # the user's functions never meet a mark
    if is_panel(x, plain.likelihood, plain.prior.shape):
        series = as_panel(x, times, time_unit)
        structure = structure or "chains"
        return fit_panel(model, series, settings, method, structure, progress, parameters, shared=shared)
    values = as_values(x)
    labels, gaps, unit = as_times(times, x, len(values), time_unit)
    with jax.enable_x64(True):
        observations = observe(values, gaps, plain.likelihood, plain.prior.shape)
        if structure is None:
            structure = "chains" if method == "mean-field" else chosen_structure(plain, observations)
        supports = {place: number.support for place, number in learnt(model).items()}
        if supports:
            learning = _run_learning(model, observations, structure, settings, progress, parameters)
            outcome, numbers = learning.outcome, learnt_numbers(model, learning)
            model = with_values(model, {place: number.mean for place, number in numbers.items()})
        else:
            outcome, numbers = _run(model, observations, method, structure, settings, seed, progress), {}
    return Posterior(
        model=model,
        parameters=numbers,
        values=values,
        times=labels,
        time_unit=unit,
        method=method,
        supports=supports,
        **{field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)},
    )


def _settings(model, method, structure, seed, parameters, options):
    if not isinstance(model, Model):
        raise TypeError(f"fit takes a dl.Model(prior, likelihood) first, got {model!r}")
    if method not in tuple(SETTINGS):
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(SETTINGS)}")
    if structure is not None and structure not in STRUCTURES:
        raise ValueError(f"unknown structure {structure!r}; choose one of {', '.join(STRUCTURES)}")
    if method == "mean-field" and structure not in (None, "chains"):
        raise ValueError(
            f"method 'mean-field' couples nothing, so it has no structure={structure!r}; omit it"
        )
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool):
        raise TypeError(f"seed must be a whole number, got {seed!r}")
    if parameters not in ("integrate", "maximise"):
        raise ValueError(f"parameters must be 'integrate' or 'maximise', got {parameters!r}")
    if learnt(model) and method != "newton":
        raise ValueError(
            f"method {method!r} cannot learn {', '.join(learnt(model))}; use method='newton', or give the "
            "model fixed numbers"
        )
    options = {name: value for name, value in options.items() if value is not None}
    settings = SETTINGS[method]
    known = () if settings is None else tuple(field.name for field in dataclasses.fields(settings))
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(
            f"method {method!r} has no option {unknown[0]!r}; it takes {', '.join(known) or 'none'}"
        )
    return None if settings is None else settings(**options)


def _run(model, observations, method, structure, settings, seed, progress) -> Outcome:
    if method == "newton":
        return _run_padded(model, observations, structure, settings, progress)
    path = begin(model, observations)
    if method == "exact":
        return kalman.smooth(model, observations, path, structure)
    if method == "mean-field":
        q = without_correlations(starting_family(model, path, observations, "chains"))
    else:
        q = starting_family(model, path, observations, structure)
    reporter = Reporter(method, settings.max_iterations, progress)
    return bbvi.maximise(model, observations, q, settings, seed=seed, reporter=reporter)


def _run_padded(model, observations, structure, settings, progress) -> Outcome:
    num_steps = len(observations.values)
    padded = pad(observations, model.likelihood)
    path = begin(model, padded)
    q = starting_family(model, path, padded, structure)
    reporter = Reporter("newton", settings.max_iterations, progress)
    outcome = newton.maximise(model, padded, q, settings, reporter=reporter)
    return _cut(dataclasses.replace(outcome, quantiles=skewed_quantiles(model, padded, outcome.q)), num_steps)


def _run_learning(model, observations, structure, settings, progress, parameters) -> integration.Learning:
    num_steps = len(observations.values)
    padded = pad(observations, model.likelihood)

    def start(model):
        return starting_family(model, begin(model, padded), padded, structure)

    reporter = Reporter("learning", None, progress)
    learning = integration.learn_numbers(model, padded, start, settings, mode=parameters, reporter=reporter)
    return learning._replace(outcome=_cut(learning.outcome, num_steps))


def _cut(outcome, num_steps):
    """An outcome without the steps that filled the series up."""
    quantiles = None if outcome.quantiles is None else outcome.quantiles[:, :num_steps]
    return dataclasses.replace(outcome, q=cut(outcome.q, num_steps), quantiles=quantiles)
