"""What must hold in a file of a panel before it is believed."""

from typing import Any

import numpy as np

from driftline.infer.mixture_quantiles import SCORES
from driftline.results.posterior_checks import LARGE, ROUNDING, Arrays

DTYPES = {
    "q.mean": np.float64, "q.diag": np.float64, "q.upper": np.float64, "lengths": np.int64,
    "values": np.float64, "elbos": np.float64, "converged": np.bool_, "iterations": np.int64,
}  # fmt: skip
OF_NUMBERS = {"weights": np.float64, "points": np.int64}


def check(arrays: Arrays, facts: Any) -> None:
    """Refuse arrays and facts that are not those of a `Panel`.

    The model and what goes with it, the series and their times, are left for their own checks.

    Args:
        arrays: What is in the file.
        facts: What else is.
    """
    _must(isinstance(facts, dict), "its facts are not an object")
    _check_facts(facts)
    _check_names(arrays, facts)
    _check_lengths(arrays, len(facts["names"]))
    _check_family(arrays)
    values = arrays["values"]
    _must(not np.isinf(values).any(), "a value is infinite")
    starts = np.cumsum(arrays["lengths"]) - arrays["lengths"]
    seen = np.add.reduceat(~np.isnan(values), starts)
    _must((seen > 0).all(), "all values of a series are missing")
    _must(np.isfinite(arrays["elbos"]).all(), "elbos has a number that is not finite")
    _must((arrays["iterations"] >= 0).all(), "iterations has a negative number")
    if "quantiles" in arrays:
        _check_quantiles(arrays["quantiles"], len(values))
    if facts["parameters"]:
        _check_numbers(arrays, facts["parameters"], 1 if facts["shared"] else len(facts["names"]))


def _check_facts(facts: dict[str, Any]) -> None:
    names = facts["names"]
    _must(isinstance(names, list), "names is not a list of names")
    _must(len(names) > 0, "names is not a list of names")
    for name in names:
        _must(isinstance(name, str | int) and not isinstance(name, bool), f"{name!r} is not a name")
    _must(len(set(names)) == len(names), "two series have one name")
    _must(isinstance(facts["message"], str), "the message is not text")
    _must(isinstance(facts["shared"], bool), "shared is neither true nor false")
    _must(facts["model"] is None or isinstance(facts["model"], dict), "the model is not an object")
    places = facts["parameters"]
    _must(isinstance(places, list), "parameters is not a list of names")
    _must(all(isinstance(place, str) for place in places), "parameters is not a list of names")
    _must(len(set(places)) == len(places), "parameters repeat")
    _must(bool(places) or not facts["shared"], "numbers are shared, but there are none")


def _check_names(arrays: Arrays, facts: dict[str, Any]) -> None:
    places = facts["parameters"]
    numbers = {f"values of {place}": np.float64 for place in places}
    wanted = {**DTYPES, **(OF_NUMBERS | numbers if places else {})}
    missing = sorted(wanted.keys() - arrays.keys())
    _must(not missing, f"it has no {', '.join(missing)}")
    others = sorted(arrays.keys() - wanted.keys() - {"times", "quantiles"})
    _must(not others, f"it has {', '.join(others)}, which is not of a panel")
    for name, dtype in wanted.items():
        _must(arrays[name].dtype == dtype, f"{name} has dtype {arrays[name].dtype}")


def _check_lengths(arrays: Arrays, count: int) -> None:
    for name in ("lengths", "elbos", "converged", "iterations"):
        _must(arrays[name].shape == (count,), f"{name} has shape {arrays[name].shape}, not ({count},)")
    lengths = arrays["lengths"]
    _must((lengths >= 1).all(), "a series has no step")
    total = int(lengths.sum())
    for name in ("values", "times"):
        _must(arrays[name].shape == (total,), f"{name} has shape {arrays[name].shape}, not ({total},)")


def _check_family(arrays: Arrays) -> None:
    mean, lengths = arrays["q.mean"], arrays["lengths"]
    _must(mean.ndim == 2 and len(mean) == len(lengths), f"q.mean has shape {mean.shape}")
    _must(mean.shape[1] >= lengths.max(), f"q has {mean.shape[1]} steps, and a series {lengths.max()}")
    steps = {"q.diag": mean.shape[1], "q.upper": mean.shape[1] - 1}
    for name, number in steps.items():
        found = arrays[name].shape
        _must(found == (len(mean), number), f"{name} has shape {found}, not {(len(mean), number)}")
    for name in ("q.mean", *steps):
        _must(np.isfinite(arrays[name]).all(), f"{name} has a number that is not finite")
    _must((arrays["q.diag"] > 0).all(), "q.diag has a number that is not positive")


def _check_quantiles(quantiles: np.ndarray, total: int) -> None:
    _must(quantiles.dtype.kind == "f", f"quantiles has dtype {quantiles.dtype}")
    wanted = (len(SCORES), total)
    _must(quantiles.shape == wanted, f"quantiles has shape {quantiles.shape} instead of {wanted}")
    _must(np.isfinite(quantiles).all(), "quantiles has a number that is not finite")
    _must((np.diff(quantiles, axis=0) >= -ROUNDING).all(), "quantiles do not increase")


def _check_numbers(arrays: Arrays, places: list[str], groups: int) -> None:
    points, weights = arrays["points"], arrays["weights"]
    _must(points.shape == (groups,), f"points has shape {points.shape}, not ({groups},)")
    _must((points >= 1).all(), "a learnt number has no point")
    _must(weights.shape == (points.sum(),), f"weights has shape {weights.shape}")
    _must(np.isfinite(weights).all() and (weights >= 0).all(), "weights has a number that is not a weight")
    totals = np.add.reduceat(weights, np.cumsum(points) - points)
    _must((np.abs(totals - 1) <= ROUNDING).all(), "weights do not sum to 1")
    for place in places:
        values = arrays[f"values of {place}"]
        _must(values.shape[:1] == weights.shape, f"values of {place} and weights do not agree")
        _must(np.isfinite(values).all(), f"values of {place} has a number that is not finite")
        _must((np.abs(values) < LARGE).all(), f"values of {place} has a number that is too large")


def _must(holds: object, what: str) -> None:
    if not holds:
        raise ValueError(what)
