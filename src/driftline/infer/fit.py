"""`dl.fit`: choose a method, check the input, run, and wrap what comes out."""

import dataclasses
from typing import Any

import jax

from driftline.infer import bbvi, kalman
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.infer.start import begin, starting_family
from driftline.models.model import Model
from driftline.models.observations import as_times, as_values, observe
from driftline.posterior import Posterior

METHODS = ("bbvi", "mean-field", "exact")
STRUCTURES = ("chains", "block")


def fit(
    model: Model,
    x: Any,
    *,
    times: Any = None,
    time_unit: Any = None,
    method: str = "bbvi",
    structure: str = "chains",
    seed: int = 0,
    progress: Any = None,
    **options: Any,
) -> Posterior:
    """Fit a model to a series.

    Runs in double precision without touching JAX's global settings. Ctrl-C returns the best state so far.

    Args:
        model: The model, such as `dl.Model(dl.RandomWalk(0.1), dl.Poisson())`.
        x: The series: array, list, pandas or polars Series, time first. NaN or None = not observed.
        times: Numbers or dates of the steps, increasing; None for equal steps, or for the dates of a
            pandas index.
        time_unit: What one unit of time is if `times` are dates, such as `np.timedelta64(1, "D")`;
            None for their median gap.
        method: "bbvi" (the paper), "mean-field" (a baseline without correlations in time), or "exact"
            (linear and Gaussian models only).
        structure: "chains" for one independent chain per element of the path, "block" for one chain that
            couples them all.
        seed: The same seed gives the same numbers.
        progress: True or False, a function that takes a `Progress`, or None for a line on a terminal.
        options: For "bbvi" and "mean-field": `samples`, `max_iterations`, `tolerance`, `learning_rate`,
            `estimator`, `basis`; see `driftline.infer.bbvi.Settings`.

    Returns:
        The posterior.

    Example:
        >>> import driftline as dl
        >>> model = dl.Model(dl.RandomWalk(scale=0.1), dl.Poisson())
        >>> post = dl.fit(model, [3, 5, None, 4, 6])
        >>> post.mean.shape
        (5,)
    """
    settings = _settings(model, method, structure, options)
    values = as_values(x)
    labels, gaps, unit = as_times(times, x, len(values), time_unit)
    with jax.enable_x64(True):
        observations = observe(values, gaps, model.likelihood, model.prior.shape)
        outcome = _run(model, observations, method, structure, settings, seed, progress)
    return Posterior(
        model=model,
        values=values,
        times=labels,
        time_unit=unit,
        method=method,
        **{field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)},
    )


def _settings(model, method, structure, options) -> bbvi.Settings | None:
    if not isinstance(model, Model):
        raise TypeError(f"fit takes a dl.Model(prior, likelihood) first, got {model!r}")
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if structure not in STRUCTURES:
        raise ValueError(f"unknown structure {structure!r}; choose one of {', '.join(STRUCTURES)}")
    options = {name: value for name, value in options.items() if value is not None}
    known = () if method == "exact" else tuple(bbvi.Settings.__dataclass_fields__)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(
            f"method {method!r} has no option {unknown[0]!r}; it takes {', '.join(known) or 'none'}"
        )
    return None if method == "exact" else bbvi.Settings(**options)


def _run(model, observations, method, structure, settings, seed, progress) -> Outcome:
    path = begin(model, observations)
    if method == "exact":
        return kalman.smooth(model, observations, path, structure)
    family = "mean-field" if method == "mean-field" else structure
    q = starting_family(model, path, observations, family)
    reporter = Reporter(method, settings.max_iterations, progress)
    return bbvi.maximise(model, observations, q, settings, seed=seed, reporter=reporter)
