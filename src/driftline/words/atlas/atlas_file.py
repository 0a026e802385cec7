"""An atlas as a file and back."""

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from driftline.storage import mapped_files
from driftline.storage.explained_errors import explained, refusing_unsound
from driftline.storage.kinds import FileKind
from driftline.words.atlas.checks import DTYPES, PARTS, SIDES, check, look
from driftline.words.paths.knots import Knots
from driftline.words.paths.long_steps import forward
from driftline.words.paths.paths import Paths
from driftline.words.paths.priors import Drift

if TYPE_CHECKING:
    from driftline.words.atlas.atlas import Atlas

KIND = FileKind("word-atlas", 2, "an atlas of words", "`driftline words fit`, or `save` of an atlas,")
EPOCH = np.datetime64("1970-01-01", "D")


def save(atlas: "Atlas", path: str | os.PathLike) -> None:
    """Write an atlas, without a copy of its arrays in memory.

    Args:
        atlas: What to write; refused if `read` would refuse it.
        path: Where.
    """
    sources = {
        "days": atlas.dates.astype("datetime64[D]") - EPOCH,
        "tokens": atlas.tokens,
        "knot_words": atlas.knots.word,
        "knot_steps": atlas.knots.step,
        "occurrences": atlas.occurrences,
        "prior_variance": atlas.drift.variance.ravel(),
        "prior_log_regression": atlas.drift.log_regression.ravel(),
        "paces": atlas.drift.pace,
    }
    arrays = {name: np.asarray(array).astype(DTYPES[name], copy=False) for name, array in sources.items()}
    for side in SIDES:
        paths = getattr(atlas, side)
        for part in PARTS:
            array = None if paths is None else getattr(paths, part)
            if array is not None:
                arrays[f"{side}_{part}"] = np.asarray(array, np.float32)
    facts = plain(
        {
            "vocabulary": atlas.vocabulary,
            "between": atlas.words.between,
            "settings": atlas.settings,
            "provenance": atlas.provenance,
            "history": atlas.history,
            "elbo": None if atlas.elbo is None else float(atlas.elbo),
            "converged": atlas.converged,
            "message": atlas.message,
            "learnt": atlas.learnt,
        }
    )
    try:
        check(arrays, facts)
        for name, array in arrays.items():
            for piece in mapped_files.pieces(array):
                look(name, piece)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the atlas is not sound ({error}), so {os.fspath(path)} is not written") from error
    try:
        mapped_files.write(path, KIND, arrays, facts)
    except OSError as error:
        raise explained(error, f"could not write {os.fspath(path)}", "choose another place") from error


def read(path: str | os.PathLike, *, verify: bool = True) -> dict[str, Any]:
    """The fields of an `Atlas` from its file; a damaged or inconsistent one is refused.

    Args:
        path: Where it is.
        verify: Whether to compare all checksums, and to look at all numbers.
    """
    arrays, facts = mapped_files.read(path, KIND, verify=verify, inspect=look)
    with refusing_unsound(path, "a sound atlas", "fit it again"):
        check(arrays, facts)
        return _built(arrays, facts)


def _built(arrays, facts):
    dates = EPOCH + arrays["days"].astype("timedelta64[D]")
    knots = Knots(len(facts["vocabulary"]), len(dates), arrays["knot_words"], arrays["knot_steps"])
    variance, regression = (
        arrays[f"prior_{name}"].reshape(-1, len(dates)) for name in ("variance", "log_regression")
    )
    drift = Drift(variance, regression, arrays["paces"])
    settings = facts["settings"]
    ahead = None
    if facts["between"] == "filtered":
        ahead = forward(settings["prior"], dates, settings["drift"], settings["scale"])
    sides = {
        side: Paths(
            knots,
            drift,
            *(arrays.get(f"{side}_{part}") for part in PARTS),  # pyright: ignore[reportArgumentType]
            between=facts["between"],
            forward=ahead,
        )
        for side in SIDES
        if f"{side}_mean" in arrays
    }
    return {
        "vocabulary": tuple(facts["vocabulary"]),
        "dates": dates,
        "knots": knots,
        "words": sides["words"],
        "contexts": sides.get("contexts"),
        "drift": drift,
        "occurrences": arrays["occurrences"],
        "tokens": arrays["tokens"],
        "settings": settings,
        "provenance": facts["provenance"],
        "history": facts["history"],
        "elbo": facts["elbo"],
        # Files of versions before these were noted.
        "converged": facts.get("converged"),
        "message": facts.get("message", ""),
        "learnt": facts.get("learnt", {}),
    }


def plain(value: Any) -> Any:
    """The same as JSON can say it: numbers of NumPy as Python's, and null for those that are not finite."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
