"""What must hold in the state of an unfinished fit before a fit goes on from it."""

from typing import Any

import numpy as np

from driftline.words.fitting.problem import FittingProblem

SIDES = ("word", "context")
PATHS = {"words", "contexts"}
VARIANCES = {f"{side}_variances" for side in SIDES}
FAST = PATHS | VARIANCES | {
    "boldness", "drift", "objective", "pace", "paces", "passes", "paths", "scale", "settled", "shares",
    "taken_back", "turns", "widened",
}  # fmt: skip
FAST_PHASES = ("level", "paths")
FAST_HISTORY = ("boldness", "dim", "passes", "taken_back")
STEPWISE = PATHS | {"now_words", "now_contexts", "now_objective", "now_open"}
FILTER = VARIANCES | {f"now_{name}" for name in VARIANCES}
PUBLISHED = {f"{side}_{part}" for side in SIDES for part in ("natural", "diag", "upper", "count")}


def check(arrays: dict[str, np.ndarray], facts: dict[str, Any], problem: FittingProblem) -> None:
    """Refuse a state that is not one of this fit.

    Args:
        arrays: What is in the file.
        facts: What else is, with the fingerprint of this very fit.
        problem: What is fitted.
    """
    _must(_is_whole(facts["done"]), "done is not a whole number")
    _check_history(facts["history"], facts["done"], _is_fast(problem))
    missing = sorted(_names(problem) - arrays.keys())
    _must(not missing, f"it has no {', '.join(missing)}")
    for name, array in arrays.items():
        _check_numbers(name, array)
    _check_shapes(arrays, problem)


def _is_fast(problem: FittingProblem) -> bool:
    return problem.settings.method == "dsg-s" and problem.settings.optimiser == "fast"


def _names(problem: FittingProblem) -> set[str]:
    if problem.settings.method == "dsg-f":
        return STEPWISE | FILTER
    if problem.settings.method != "dsg-s":
        return STEPWISE
    return FAST if _is_fast(problem) else PUBLISHED


def _check_numbers(name: str, array: np.ndarray) -> None:
    if array.dtype.kind == "f":
        # An objective that is not known yet is minus infinity.
        is_sound = np.isfinite(array) | ((array == -np.inf) & (name == "objective"))
        _must(is_sound.all(), f"{name} has a number that is not finite")
    if name.endswith("_variances"):
        _must((array >= 0).all(), f"{name} has a negative variance")
    if name in ("drift", "scale", "paces"):
        _must((array > 0).all(), f"{name} is not positive")


def _check_shapes(arrays: dict[str, np.ndarray], problem: FittingProblem) -> None:
    num_words, num_rows = len(problem.counts.vocabulary), len(problem.knots)
    levels = _is_fast(problem) and not arrays["paths"]
    dim = arrays["words" if "words" in arrays else "word_natural"].shape[-1:]
    _must(len(dim) == 1 and 0 < dim[0] <= problem.dim, f"its vectors have {dim} dimensions")
    shapes = dict.fromkeys(PATHS | VARIANCES, (num_words if levels else num_rows, *dim))
    shapes |= dict.fromkeys((f"{side}_noise" for side in SIDES), (num_words, *dim))
    shapes |= {name: (num_words, *dim) for name in arrays if name.startswith("now_") and name[4:] in shapes}
    shapes |= {"pace": (num_words,), "shares": arrays["paces"].shape} if "paces" in arrays else {}
    shapes |= {f"{side}_count": (num_rows, 1) for side in SIDES}
    for part, rows in (("natural", num_rows), ("diag", num_rows), ("upper", num_rows - 1)):
        shapes |= {
            f"{when}{side}_{part}": (rows, *dim) for side in SIDES for when in ("", "first_", "second_")
        }
    scalars = dict.fromkeys(FAST - shapes.keys() - {"paces"} | {"now_objective", "now_open"}, ())
    for name, shape in (shapes | scalars).items():
        found = arrays[name].shape if name in arrays else shape
        _must(found == shape, f"{name} has shape {found} instead of {shape}")
    if "pace" in arrays:
        _must(((arrays["pace"] >= 0) & (arrays["pace"] < len(arrays["paces"]))).all(), "a pace is not there")


def _check_history(history: Any, done: int, is_fast: bool) -> None:
    _must(isinstance(history, list), "the history is not a list")
    before = 0
    for entry in history:
        _must(isinstance(entry, dict), "the history has an entry that is not an object")
        _must(_is_whole(entry["done"]) and before < entry["done"] <= done, "the history is not in order")
        before = entry["done"]
        is_phase = entry["phase"] in FAST_PHASES if is_fast else isinstance(entry["phase"], str)
        _must(is_phase, f"the history has the phase {entry['phase']!r:.80}")
        _must(
            entry["score"] is None or _is_number(entry["score"]),
            "the history has a score that is not a number",
        )
        for name in ("objective", *(FAST_HISTORY if is_fast else ())):
            _must(_is_number(entry[name]), f"{name} in the history is not a number")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)
