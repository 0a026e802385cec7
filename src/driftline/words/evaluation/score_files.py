"""Scores as JSON with a checksum, and what must hold in them before they are believed."""

import hashlib
import json
from typing import Any

import numpy as np

from driftline.storage.checked_files import parsed
from driftline.words.settings import COMPARED

SEAL = "sha256"
NAMES = {"dates", "held_out", "settings", "methods"}
LATER = {"made_from", SEAL}  # what files of the first versions have not
OF_METHOD = {"mean_held_out", "mean", "steps", "scores", "seconds", "predicts"}


def sealed(facts: dict[str, Any]) -> str:
    """The facts as JSON, with a SHA-256 of all of them."""
    return json.dumps(facts | {SEAL: _digest(facts)}, indent=1, allow_nan=False) + "\n"


def opened(content: bytes) -> dict[str, Any]:
    """What `sealed` wrote, or an error."""
    facts = parsed(content.decode())
    _must(isinstance(facts, dict), "it is not an object")
    missing, others = sorted(NAMES - facts.keys()), sorted(facts.keys() - NAMES - LATER)
    _must(not missing, f"it has no {', '.join(missing)}")
    _must(not others, f"it has {', '.join(others)[:80]!r} in it")
    seal = facts.pop(SEAL, None)
    _must(seal is None or seal == _digest(facts), "its content does not match its checksum")
    _check(facts)
    return facts


def _digest(facts):
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _check(facts):
    dates = facts["dates"]
    _must(isinstance(dates, list) and all(isinstance(date, str) for date in dates), "dates are not text")
    days = np.array(dates, "datetime64[D]")
    _must(len(days) > 0 and not np.isnat(days).any(), "a date is missing")
    _must((np.diff(days.astype(np.int64)) > 0).all(), "dates do not increase")
    _check_steps(facts["held_out"], len(days), "held_out")
    for name in ("settings", "methods"):
        _must(isinstance(facts[name], dict), f"{name} is not an object")
    for name, found in facts["methods"].items():
        _check_method(name, found, len(days))
    _check_origin(facts.get("made_from", {}))


def _check_method(name: str, found: Any, num_steps: int) -> None:
    _must(name in COMPARED, f"{name!r:.80} is none of {', '.join(COMPARED)}")
    _must(isinstance(found, dict) and found.keys() == OF_METHOD, f"{name} has other entries than scores")
    _check_steps(found["steps"], num_steps, f"steps of {name}")
    scores = found["scores"]
    _must(isinstance(scores, list) and all(map(_is_number, scores)), f"scores of {name} are not numbers")
    _must(len(scores) == len(found["steps"]) > 0, f"steps and scores of {name} do not agree")
    _must(_is_number(found["seconds"]) and found["seconds"] >= 0, f"seconds of {name} is not a number")


def _check_origin(made_from: Any) -> None:
    _must(isinstance(made_from, dict), "made_from is not an object")
    passes = made_from.get("passes", {})
    _must(isinstance(passes, dict), "passes is not an object")
    for name, numbers in passes.items():
        _must(name in COMPARED, f"passes are of {name!r:.80}, which is none of {', '.join(COMPARED)}")
        _must(isinstance(numbers, list) and all(map(_is_whole, numbers)), f"passes of {name} are not numbers")


def _check_steps(steps: Any, num_steps: int, what: str) -> None:
    _must(isinstance(steps, list) and all(map(_is_whole, steps)), f"{what} are not whole numbers")
    _must(steps == sorted(set(steps)), f"{what} do not increase")
    _must(not steps or (steps[0] >= 0 and steps[-1] < num_steps), f"{what} are not among the dates")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)
