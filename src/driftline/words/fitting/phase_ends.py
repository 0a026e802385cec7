"""When a phase of smoothing is at its end, and how many rounds it has ahead."""

import math
from collections.abc import Sequence

import numpy as np

from driftline.words.fitting.trainer import Entry, Phase, Verdict

SETTLED = 10.0  # times the tolerance: a gain of a phase that is nearly at its end
TIMID = 1e-3  # boldness below which a phase is given up
USUAL = 10  # rounds of a phase of which nothing is known yet
STUCK = (
    "the {phase} phase was given up before its end, since rounds lowered the ELBO however short their steps; "
    "try another seed= (--seed), or fewer dimensions with dim= (--dim)"
)


def next_phase(phases: Sequence[Phase], history: Sequence[Entry]) -> Phase | None:
    """The phase that comes next after what was seen so far; None if the last one is at its end."""
    if not history:
        return phases[0]
    last = [phase.name for phase in phases].index(history[-1]["phase"])
    if verdict_of(phases[last], history) is None:
        return phases[last]
    return phases[last + 1] if last + 1 < len(phases) else None


def verdict_of(phase: Phase, history: Sequence[Entry]) -> Verdict | None:
    """How a phase has ended, or None if it goes on."""
    rounds = [entry for entry in history if entry["phase"] == phase.name]
    if not rounds:
        return Verdict(False, f"the {phase.name} phase did not begin")
    gain = _last_gain(phase, rounds)
    if gain is not None:
        return Verdict(True, f"the last round of the {phase.name} phase gained {gain:.3g} nats")
    if rounds[-1]["boldness"] < TIMID:
        return Verdict(False, STUCK.format(phase=phase.name))
    if rounds[-1]["passes"] >= phase.limit:
        return Verdict(False, f"the {phase.name} phase reached its limit of {phase.limit:,} passes")
    return None


def _last_gain(phase: Phase, rounds: Sequence[Entry]) -> float | None:
    """Gain of the last round if it ends the phase, or None."""
    # A round after one that was taken back begins with a short step, and may gain little for that alone.
    if len(rounds) < 2 or any(entry["taken_back"] for entry in rounds[-2:]):
        return None
    gain = rounds[-1]["objective"] - rounds[-2]["objective"]
    enough = phase.enough(rounds[-1]["objective"])
    # A single round may gain little, on its way past a saddle or by chance of rounding.
    before = rounds[-2]["objective"] - rounds[-3]["objective"] if len(rounds) > 2 else math.inf
    same = rounds[-1]["dim"] == rounds[-2]["dim"]
    return gain if same and gain < enough and before < SETTLED * enough else None


def verdict(phases: Sequence[Phase], history: Sequence[Entry]) -> Verdict:
    """Whether all phases ended by themselves."""
    for phase in phases:
        found = verdict_of(phase, history) or Verdict(False, f"stopped in the {phase.name} phase")
        if not found.converged:
            return found
    return Verdict(True, "converged")


def rounds_ahead(phases: Sequence[Phase], history: Sequence[Entry]) -> dict[str, float]:
    """About how many rounds of each phase are to come, if gains keep falling at the same rate."""
    gone = [phase for phase in phases if any(entry["phase"] == phase.name for entry in history)]
    guess = {phase.name: float(USUAL) for phase in phases[len(gone) :]}
    if gone and verdict_of(gone[-1], history) is None:
        guess[gone[-1].name] = _left(gone[-1], history)
    return guess


def _left(phase: Phase, history: Sequence[Entry]) -> float:
    """Rounds that are left of a phase that has begun."""
    rounds = [entry["objective"] for entry in history if entry["phase"] == phase.name]
    gains = np.maximum(np.diff(rounds[-3:]), 1e-9)
    if len(gains) < 2 or gains[1] >= gains[0]:
        return float(USUAL)
    left = np.log(phase.enough(rounds[-1]) / gains[1]) / np.log(gains[1] / gains[0])
    return float(np.clip(left, 1.0, 5 * USUAL))
