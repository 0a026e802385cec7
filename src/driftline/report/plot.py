"""A posterior as a picture: the mean, a band, and what was observed."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from driftline.results.posterior import Posterior
    from driftline.results.refined import Refined


def plot(
    posterior: "Posterior | Refined",
    probability: float,
    *,
    ax: Any = None,
    color: str = "#1f5fa8",
    label: str | None = None,
    transform: Any = None,
    show_observed: bool | None = None,
) -> Any:
    """Draw mean and band of every element of the path against time.

    Args:
        posterior: What to draw.
        probability: Probability of the band.
        ax: Matplotlib axes; None for new ones.
        color: Colour of a scalar path; several elements take the colours of the axes.
        label: Label of the mean in the legend.
        transform: Increasing function that is applied to mean and band, such as `np.exp` for rates.
        show_observed: Whether to draw the observations; None if they are on the scale of the path.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install matplotlib") from error

    if ax is None:
        _, ax = plt.subplots(figsize=(9, 4), layout="constrained")
    scale = (lambda values: values) if transform is None else transform
    lower, upper = (_columns(scale(end)) for end in posterior.interval(probability))
    mean = _columns(scale(posterior.mean))
    if show_observed is None:
        show_observed = _on_path_scale(posterior)
    if show_observed and posterior.values.shape == posterior.mean.shape:
        ax.plot(
            posterior.times, _columns(posterior.values), ".", color="0.45", markersize=5,
            label="observed", zorder=1,
        )  # fmt: skip
    for element in range(mean.shape[1]):
        style = {"color": color} if mean.shape[1] == 1 else {"color": f"C{element % 10}"}
        name = label if mean.shape[1] == 1 else f"{label or 'element'} {element}"
        ax.fill_between(
            posterior.times, lower[:, element], upper[:, element], alpha=0.22, linewidth=0, **style,
            label=f"{probability:.0%} band" if element == 0 else None,
        )  # fmt: skip
        ax.plot(posterior.times, mean[:, element], linewidth=1.6, label=name or "mean", **style)
    ax.spines[["top", "right"]].set_visible(False)
    ax.margins(x=0.01)
    return ax


def _columns(values):
    return np.asarray(values).reshape(len(values), -1)


def _on_path_scale(posterior):
    likelihood = type(getattr(posterior.model, "likelihood", None)).__name__
    return likelihood in ("Gaussian", "StudentT")
