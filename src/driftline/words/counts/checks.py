"""What must hold in a file of counts before it is believed."""

from typing import Any

import numpy as np

DTYPES = {
    "days": np.int32,
    "step_indptr": np.int64,
    "rows": np.int32,
    "indptr": np.int64,
    "indices": np.int32,
    "values": np.float32,
    "occurrences": np.int64,
    "tokens": np.int64,
    "documents": np.int64,
}
FIRST_DAY, LAST_DAY = -719_528, 2_932_896  # first of the year 0 and last of 9999, from 1970 on
PART_STEP = "part_step"  # only if steps have parts; then all but the days is counted by part


def check(arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
    """Refuse arrays that are not those of `Counts`, with everything that the rest of the package relies on.

    Args:
        arrays: What is in the file.
        facts: What else is.
    """
    _must(isinstance(facts, dict), "its facts are not an object")
    check_vocabulary(facts["vocabulary"])
    num_dates, size = len(arrays["days"]), len(facts["vocabulary"])
    dtypes = DTYPES | ({PART_STEP: np.int32} if PART_STEP in arrays else {})
    for name, dtype in dtypes.items():
        _must(arrays[name].dtype == dtype, f"{name} has dtype {arrays[name].dtype}")
        _must(
            arrays[name].ndim == (2 if name == "occurrences" else 1), f"{name} has {arrays[name].ndim} axes"
        )
    _must(arrays.keys() == dtypes.keys(), "there are other arrays in it")
    _must(_is_whole(facts["window"], 1) and facts["window"] < 2**31, "the window is not a whole number")
    check_provenance(facts["provenance"])
    check_days(arrays["days"])
    num_steps = len(arrays.get(PART_STEP, arrays["days"]))
    _must(arrays["occurrences"].shape == (num_steps, size), "occurrences have another shape")
    _must(arrays["tokens"].shape == arrays["documents"].shape == (num_steps,), "steps do not agree")
    for name in ("occurrences", "tokens", "documents"):
        _must((arrays[name] >= 0).all(), f"{name} are negative")
    _check_pointers(arrays["step_indptr"], num_steps, len(arrays["rows"]))
    _check_pointers(arrays["indptr"], len(arrays["rows"]), len(arrays["indices"]))
    _must(len(arrays["values"]) == len(arrays["indices"]), "pairs and values do not agree")
    _must((np.diff(arrays["indptr"]) > 0).all(), "a row is empty")
    values = arrays["values"]
    _must((np.isfinite(values) & (values > 0)).all(), "a count is not positive")
    for name in ("rows", "indices"):
        _must(((arrays[name] >= 0) & (arrays[name] < size)).all(), f"{name} name words that are not there")
    first = np.repeat(arrays["rows"], np.diff(arrays["indptr"]))
    _must((first <= arrays["indices"]).all(), "a pair is out of order")
    _check_increasing(arrays["rows"], arrays["step_indptr"], "rows")
    _check_increasing(arrays["indices"], arrays["indptr"], "indices")
    if PART_STEP in arrays:
        _check_parts(arrays, num_dates, facts["window"])


def _check_parts(arrays: dict[str, np.ndarray], num_dates: int, window: int) -> None:
    steps = arrays[PART_STEP]
    _must(((steps >= 0) & (steps < num_dates)).all(), "parts belong to steps that are not there")
    _must(len(np.unique(steps)) == num_dates, "a step has no part")
    _must((arrays["documents"] > 0).all(), "a part has no document")
    units = arrays["values"] * np.float64(window)
    _must((units < 2**53).all(), "a count is too large")
    _must((np.abs(units - np.rint(units)) <= 1e-6 * units).all(), "a count is not a multiple of its weights")


def check_vocabulary(vocabulary: Any) -> None:
    """Refuse what is not a list of different words."""
    _must(isinstance(vocabulary, list) and len(vocabulary) > 0, "there is no list of words")
    _must(all(isinstance(word, str) for word in vocabulary), "a word is not text")
    _must(len(set(vocabulary)) == len(vocabulary), "words repeat")


def check_days(days: np.ndarray) -> None:
    """Refuse dates that do not increase, or that have years of more than four digits."""
    _must(len(days) > 0 and (np.diff(days.astype(np.int64)) > 0).all(), "dates do not increase")
    _must(days[0] >= FIRST_DAY and days[-1] <= LAST_DAY, "a date is not in the years 0 to 9999")


def check_provenance(provenance: Any) -> None:
    """Refuse a provenance in which what the package itself looks at is something else."""
    _must(isinstance(provenance, dict), "the provenance is not an object")
    for name in ("empty_documents", "num_skipped_files"):
        _must(_is_whole(provenance.get(name, 0), 0), f"{name} of the provenance is not a whole number")
    _must(isinstance(provenance.get("first_empty") or "", str), "first_empty of the provenance is not text")
    for name, is_one in (("skipped_files", _is_text), ("shuffled", _is_whole), ("left_out", _is_whole)):
        many = provenance.get(name, [])
        _must(isinstance(many, list) and all(map(is_one, many)), f"{name} of the provenance is not a list")


def _is_whole(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_pointers(pointers: np.ndarray, count: int, end: int) -> None:
    _must(len(pointers) == count + 1, "pointers have another length")
    _must(pointers[0] == 0 and pointers[-1] == end, "pointers do not span their arrays")
    _must((np.diff(pointers) >= 0).all(), "pointers decrease")


def _check_increasing(numbers: np.ndarray, pointers: np.ndarray, name: str) -> None:
    grows = np.diff(numbers, prepend=-1) > 0
    grows[pointers[:-1][pointers[:-1] < len(numbers)]] = True
    _must(grows.all(), f"{name} are not sorted")
