"""What must hold in a file of a posterior before it is believed."""

from typing import Any

import numpy as np

from driftline.infer.mixture_quantiles import SCORES

LEAVES = {  # of each family, beside the mean
    "GaussMarkov": ("diag", "upper"),
    "BlockGaussMarkov": ("diag", "upper"),
    "MeanField": ("diag",),
    "FullRank": ("factor",),
}
LARGE = 1e150  # whose square is still a number
ROUNDING = 1e-6  # of sums of weights, and of quantiles that are next to each other

Arrays = dict[str, np.ndarray]


def check(arrays: Arrays, facts: Any) -> None:
    """Refuse arrays and facts that are not those of a `Posterior`.

    The model and what goes with it, the series and its times, are left for their own checks.

    Args:
        arrays: What is in the file.
        facts: What else is.
    """
    _must(isinstance(facts, dict), "its facts are not an object")
    _must(facts["family"] in LEAVES, f"the family is {facts['family']!r}, not one of {[*LEAVES]}")
    _check_facts(facts)
    _check_names(arrays, facts)
    _check_family(arrays, facts["family"])
    mean, values = arrays["q.mean"], arrays["values"]
    _must(values.dtype == np.float64, f"values has dtype {values.dtype}")
    _must(values.shape[:1] == mean.shape[:1], f"there are {len(mean)} steps and {len(values)} values")
    _must(not np.isinf(values).any(), "a value is infinite")
    _must(not np.isnan(values).all(), "all values are missing")
    if "quantiles" in arrays:
        _check_quantiles(arrays["quantiles"], mean)
    _check_parameters(arrays, facts["parameters"])


def _check_facts(facts: dict[str, Any]) -> None:
    for name in ("method", "message"):
        _must(isinstance(facts[name], str), f"the {name} is not text")
    for name in ("elbo", "elbo_error"):
        _must(_is_number(facts[name]), f"{name} is not a number")
    _must(facts["elbo_error"] >= 0, "elbo_error is negative")
    _must(isinstance(facts["converged"], bool), "converged is neither true nor false")
    _must(_is_whole(facts["iterations"]) and facts["iterations"] >= 0, "iterations is not a whole number")
    _must(facts["model"] is None or isinstance(facts["model"], dict), "the model is not an object")
    places = facts["parameters"]
    _must(isinstance(places, list), "parameters is not a list of names")
    _must(all(isinstance(place, str) for place in places), "parameters is not a list of names")
    _must(len(set(places)) == len(places), "parameters repeat")


def _check_names(arrays: Arrays, facts: dict[str, Any]) -> None:
    family, places = facts["family"], facts["parameters"]
    wanted = {"values", "times", "q.mean", *(f"q.{leaf}" for leaf in LEAVES[family])}
    wanted |= {f"{what} of {place}" for place in places for what in ("values", "weights")}
    missing = sorted(wanted - arrays.keys())
    _must(not missing, f"it has no {', '.join(missing)}")
    history = {name for name in arrays if name.startswith("history.")}
    others = sorted(arrays.keys() - wanted - history - {"quantiles"})
    _must(not others, f"it has {', '.join(others)}, which is not of a {family}")
    for name in sorted(history):
        _must(arrays[name].ndim == 1 and arrays[name].dtype == np.float64, f"{name} is not a list of numbers")


def _check_family(arrays: Arrays, family: str) -> None:
    for name in ("mean", *LEAVES[family]):
        leaf = arrays[f"q.{name}"]
        _must(leaf.dtype == np.float64, f"q.{name} has dtype {leaf.dtype}")
        _must(np.isfinite(leaf).all(), f"q.{name} has a number that is not finite")
    mean = arrays["q.mean"]
    _must(mean.ndim >= 1 and mean.size > 0, f"q.mean has shape {mean.shape}")
    for name, shape in _shapes(family, mean.shape).items():
        found = arrays[f"q.{name}"].shape
        _must(found == shape, f"q.{name} has shape {found}, and {shape} goes with q.mean")
    factor = arrays[f"q.{LEAVES[family][0]}"]
    is_matrix = family in ("BlockGaussMarkov", "FullRank")
    diagonal = np.diagonal(factor, axis1=-2, axis2=-1) if is_matrix else factor
    _must((diagonal > 0).all(), f"q.{LEAVES[family][0]} has a diagonal that is not positive")


def _shapes(family: str, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Shapes of the leaves that go with a mean."""
    steps, size = shape[0], int(np.prod(shape[1:]))
    if family == "FullRank":
        return {"factor": (steps * size, steps * size)}
    if family == "BlockGaussMarkov":
        return {"diag": (steps, size, size), "upper": (steps - 1, size, size)}
    chains = {"diag": shape, "upper": (steps - 1, *shape[1:])}
    return {name: chains[name] for name in LEAVES[family]}


def _check_quantiles(quantiles: np.ndarray, mean: np.ndarray) -> None:
    _must(quantiles.dtype.kind == "f", f"quantiles has dtype {quantiles.dtype}")
    wanted = (len(SCORES), *mean.shape)
    _must(quantiles.shape == wanted, f"quantiles has shape {quantiles.shape} instead of {wanted}")
    _must(np.isfinite(quantiles).all(), "quantiles has a number that is not finite")
    _must((np.diff(quantiles, axis=0) >= -ROUNDING).all(), "quantiles do not increase")


def _check_parameters(arrays: Arrays, places: list[str]) -> None:
    for place in places:
        values, weights = arrays[f"values of {place}"], arrays[f"weights of {place}"]
        for what, array in (("values", values), ("weights", weights)):
            _must(array.dtype == np.float64, f"{what} of {place} has dtype {array.dtype}")
            _must(np.isfinite(array).all(), f"{what} of {place} has a number that is not finite")
        _must(weights.ndim == 1 and len(weights) > 0, f"weights of {place} has shape {weights.shape}")
        _must(values.shape[:1] == weights.shape, f"values and weights of {place} do not agree")
        _must((np.abs(values) < LARGE).all(), f"values of {place} has a number that is too large")
        _must((weights >= 0).all(), f"weights of {place} has a negative number")
        total = weights.sum()
        _must(abs(total - 1) <= ROUNDING, f"weights of {place} sum to {total:.6g} instead of 1")
        _must(
            np.array_equal(weights, arrays[f"weights of {places[0]}"]),
            f"weights of {place} are not those of {places[0]}",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _must(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)
