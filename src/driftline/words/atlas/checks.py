"""What must hold in a file of an atlas before it is believed."""

import dataclasses
from typing import Any

import numpy as np

from driftline.words.counts.checks import check_days, check_provenance, check_vocabulary
from driftline.words.paths.paths import BETWEEN
from driftline.words.settings import METHODS, PRIORS, WordSettings

DTYPES = {
    "days": np.int32,
    "tokens": np.int64,
    "knot_words": np.int32,
    "knot_steps": np.int32,
    "occurrences": np.int64,
    "prior_variance": np.float64,
    "prior_log_regression": np.float64,
    "paces": np.int32,
}
PARTS = ("mean", "variance", "lag_covariance")
SIDES = ("words", "contexts")


def look(name: str, numbers: np.ndarray) -> None:
    """Refuse a piece of an array if a number in it cannot be right."""
    if numbers.dtype.kind != "f":
        return
    # The smallest and the largest number say it without another array: both are NaN if any number is.
    least, largest = numbers.min(), numbers.max()
    _must(np.isfinite(least) and np.isfinite(largest), f"{name} has a number that is not finite")
    _must(least > 0 or not name.endswith("_variance"), f"{name} has a variance that is not positive")


def check(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Refuse arrays that are not those of an `Atlas`.

    Args:
        arrays: What is in the file.
        facts: What else is.
    """
    _must(isinstance(facts, dict), "its facts are not an object")
    check_vocabulary(facts["vocabulary"])
    _check_facts(facts)
    _check_names(arrays, facts)
    vocabulary, num_steps, num_rows = facts["vocabulary"], len(arrays["days"]), len(arrays["knot_words"])
    check_days(arrays["days"])
    _must(len(arrays["tokens"]) == num_steps, "tokens and dates do not agree")
    num_paces, rest = divmod(len(arrays["prior_variance"]), num_steps)
    _must(num_paces > 0 and not rest, "prior_variance and dates do not agree")
    _must(
        len(arrays["prior_log_regression"]) == len(arrays["prior_variance"]),
        "prior_log_regression and prior_variance do not agree",
    )
    paces = arrays["paces"]
    _must(len(paces) == len(vocabulary), "paces and words do not agree")
    _must(((paces >= 0) & (paces < num_paces)).all(), "paces name one that is not there")
    _must((arrays["prior_variance"] > 0).all(), "prior_variance is not positive")
    _must(np.isfinite(arrays["prior_log_regression"]).all(), "prior_log_regression is not finite")
    _check_knots(arrays, len(vocabulary), num_steps)
    for name in ("tokens", "occurrences"):
        _must((arrays[name] >= 0).all(), f"{name} are negative")
    dim = arrays["words_mean"].shape[-1]
    for name in arrays.keys() - DTYPES.keys():
        _must(arrays[name].dtype == np.float32, f"{name} has dtype {arrays[name].dtype}")
        _must(arrays[name].shape == (num_rows, dim) and dim > 0, f"{name} has shape {arrays[name].shape}")


def _check_facts(facts: dict[str, Any]) -> None:
    check_provenance(facts["provenance"])
    for name in ("settings", "history"):
        _must(isinstance(facts[name], dict), f"the {name} are not an object")
    _check_settings(facts["settings"])
    _must(all(isinstance(column, list) for column in facts["history"].values()), "the history has no lists")
    _must(facts["elbo"] is None or isinstance(facts["elbo"], float), "the elbo is not a number")
    ended = facts.get("converged")
    _must(ended is None or isinstance(ended, bool), "converged is neither true nor false")
    _must(isinstance(facts.get("message", ""), str), "the message is not text")
    _must(isinstance(facts.get("learnt", {}), dict), "what was learnt is not an object")


def _check_settings(settings: dict[str, Any]) -> None:
    """Refuse settings that no fit can have; those of other versions may have more or fewer names."""
    if settings.get("method") in METHODS:
        names = {field.name for field in dataclasses.fields(WordSettings)} - {"passes"}
        WordSettings(**{name: value for name, value in settings.items() if name in names})


def _check_names(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    for name, dtype in DTYPES.items():
        _must(arrays[name].dtype == dtype, f"{name} has dtype {arrays[name].dtype}")
        _must(arrays[name].ndim == 1, f"{name} has {arrays[name].ndim} axes")
    between = facts["between"]
    _must(between in BETWEEN, f"between is {between!r}")
    has_contexts, has_variance = "contexts_mean" in arrays, "words_variance" in arrays
    _must(has_variance or between != "filtered", "filtered paths have no variances")
    given = {"mean": True, "variance": has_variance, "lag_covariance": has_variance and between == "smoothed"}
    wanted = {
        f"{side}_{part}" for side in SIDES if side == "words" or has_contexts for part in PARTS if given[part]
    }
    _must(arrays.keys() == DTYPES.keys() | wanted, "arrays are missing, or there are others")
    if between == "filtered":
        for name in ("drift", "scale"):
            _must(facts["settings"][name] > 0, f"the setting {name} is not positive")
        _must(facts["settings"]["prior"] in PRIORS, f"the prior is {facts['settings']['prior']!r}")


def _check_knots(arrays: dict[str, np.ndarray], num_words: int, num_steps: int) -> None:
    words, steps = arrays["knot_words"], arrays["knot_steps"]
    _must(len(words) == len(steps) == len(arrays["occurrences"]) > 0, "knots and occurrences do not agree")
    _must(words.min() >= 0 and words.max() < num_words, "knots name words that are not there")
    _must(steps.min() >= 0 and steps.max() < num_steps, "knots name steps that are not there")
    keys = words.astype(np.int64) * num_steps + steps
    _must((np.diff(keys) > 0).all(), "knots are not sorted")


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)
