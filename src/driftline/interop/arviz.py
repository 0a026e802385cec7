"""A posterior as ArviZ data, for its plots and summaries."""

from typing import Any

import numpy as np


def to_arviz(post: Any, draws: int, *, corrected: bool, seed: int) -> Any:
    """Draws of path and learnt numbers, and the data, as an `xarray.DataTree`."""
    posterior = {"path": post.sample(draws, corrected=corrected, seed=seed)}
    if post.parameters:
        weights = next(iter(post.parameters.values())).weights
        points = np.random.default_rng(seed).choice(len(weights), draws, p=weights)
        posterior |= {place: number.values[points] for place, number in post.parameters.items()}
    return draws_to_arviz(post, {name: values[None] for name, values in posterior.items()})


def draws_to_arviz(post: Any, draws: dict[str, np.ndarray]) -> Any:
    """Draws by name, (chains, draws, ...), and the data of a posterior, as an `xarray.DataTree`."""
    try:
        import arviz_base
    except ImportError as error:
        raise ImportError("to_arviz needs arviz-base; pip install 'driftline[arviz]'") from error
    return arviz_base.from_dict(
        {
            "posterior": draws,
            "observed_data": {"observations": post.values},
        },
        coords={"time": post.times},
        dims={
            "path": ["time", *(f"axis_{n}" for n in range(post.mean.ndim - 1))],
            "observations": ["time", *(f"axis_{n}" for n in range(post.values.ndim - 1))],
        },
    )
