"""A posterior as a table."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas

    from driftline.results.panel import Panel
    from driftline.results.posterior import Posterior
    from driftline.results.refined import Refined


def to_frame(posterior: "Posterior | Refined", probability: float) -> "pandas.DataFrame":
    """One row per step, or per step and element if a step has several.

    Args:
        posterior: What to show.
        probability: Probability of the interval between the columns `lower` and `upper`.
    """
    pandas = _pandas()
    lower, upper = posterior.interval(probability)
    columns = {"mean": posterior.mean, "sd": posterior.sd, "lower": lower, "upper": upper}
    if posterior.values.shape == posterior.mean.shape:
        columns = {"observed": posterior.values, **columns}
    shape = posterior.mean.shape[1:]
    time = pandas.Index(posterior.times, name="time")
    if not shape:
        return pandas.DataFrame(columns, index=time)
    names = ["element"] if len(shape) == 1 else [f"element_{axis}" for axis in range(len(shape))]
    elements = [np.arange(size) for size in shape]
    index = pandas.MultiIndex.from_product([time, *elements], names=["time", *names])
    return pandas.DataFrame({name: column.ravel() for name, column in columns.items()}, index=index)


def panel_frame(panel: "Panel", probability: float) -> "pandas.DataFrame":
    """One row for every series and step; names that are tuples take a level of the index for each part.

    Args:
        panel: What to show.
        probability: Probability of the interval between the columns `lower` and `upper`.
    """
    pandas = _pandas()
    lengths = [len(series.values) for series in panel.series]
    inside = np.arange(len(panel.mean))[:, None] < np.array(lengths)
    lower, upper = panel.interval(probability)
    columns = {"mean": panel.mean, "sd": panel.sd, "lower": lower, "upper": upper}
    levels = _name_levels(panel.names, lengths)
    times = np.concatenate([series.times for series in panel.series])
    index = pandas.MultiIndex.from_arrays([*levels.values(), times], names=[*levels, "time"])
    observed = np.concatenate([series.values for series in panel.series])
    table = {name: column.T[inside.T] for name, column in columns.items()}
    return pandas.DataFrame({"observed": observed, **table}, index=index)


def _name_levels(names, lengths):
    """Names of series, each as often as it has steps; tuples of one length take a level for each part."""
    pandas = _pandas()
    widths = {len(name) if isinstance(name, tuple) else 0 for name in names}
    if len(widths) == 1 and widths != {0}:
        parts = zip(*names, strict=True)
        return {
            f"series_{i}": np.repeat(np.array(part, dtype=object), lengths) for i, part in enumerate(parts)
        }
    if widths == {0}:
        return {"series": np.repeat(np.array(names, dtype=object), lengths)}
    # pandas would take names of which some are tuples apart.
    categories = pandas.Index(np.fromiter(names, object, len(names)), tupleize_cols=False)
    return {"series": pandas.Categorical.from_codes(np.repeat(np.arange(len(names)), lengths), categories)}


def _pandas():
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame needs pandas: pip install 'driftline[frames]'") from error
    return pandas
