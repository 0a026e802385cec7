"""Tables and goals of the comparison of series."""

from collections.abc import Sequence
from typing import Any

from benchmarks.harness.report import Goal, Table, more_than
from benchmarks.series.cases import BAYESNEWTON, NEWTON, NUTS, SMOOTHERS
from benchmarks.series.results import MOST, NEAR, Match

SPEED = (
    "series", "contestant", "compile, s", f"ms to within {NEAR} nat", "ELBO at the end", "below the optimum",
    "ms per iteration", "whole call, ms", "peak memory, MB",
)  # fmt: skip
OWN_BEST = (
    "series", "guide", "rate", "its best ELBO", "below the optimum", f"s to within {NEAR} of it",
    "newton passes it, ms", "ratio", f"s to {MOST:.0%} of its climb", "newton passes that, ms", "its ratio",
)  # fmt: skip
ACCURACY = (
    "series", "contestant", "error of the mean in sd, median", "largest", "ratio of sd, median", "1 %",
    "99 %",
)  # fmt: skip
REFERENCE = (
    "series", "seconds", "ESS, median", "least", "largest r-hat", "median error from noise alone, sd",
)  # fmt: skip
NATURAL = (
    "series", "newton, ms per iteration", "BayesNewton", "ratio", "BayesNewton, closed form", "its ratio",
    f"newton, ms to within {NEAR} nat", "BayesNewton", "its ratio", "relative difference of ELBOs",
)  # fmt: skip


def tables(matches: Sequence[Match]) -> list[Table]:
    """All tables."""
    return [
        Table("Time, ELBO and memory", SPEED, [row for match in matches for row in _speed(match)]),
        Table("To pass a guide's own best ELBO", OWN_BEST, [row for match in matches for row in _own(match)]),
        Table("Against BayesNewton", NATURAL, [row for match in matches for row in _natural(match)]),
        Table("Accuracy against NUTS", ACCURACY, [row for match in matches for row in _accuracy(match)]),
        Table("The reference itself", REFERENCE, [row for match in matches for row in _reference(match)]),
    ]


def goals(matches: Sequence[Match]) -> list[Goal]:
    """What was aimed at, for every series."""
    found = []
    for match in matches:
        name = match.case.name
        own = _own(match)
        ratio = own[0][OWN_BEST.index("ratio")] if own else None
        found.append(_at_least(f"{name}: the best guide's time to its own best ELBO / ours", ratio, 1000))
        natural = _natural(match)
        ratio = natural[0][NATURAL.index("ratio")] if natural else None
        found.append(_at_least(f"{name}: BayesNewton / newton, one iteration", ratio, 3))
        found += _more_accurate(match)
    return found


def _at_least(what, measured, limit):
    return Goal(what, f"≥ {limit:,}", measured, None if measured is None else measured >= limit)


def _more_accurate(match):
    ours = match.accuracy(NEWTON)
    theirs = [match.accuracy(name) for name in SMOOTHERS if name in match.outcomes]
    theirs = [accuracy for accuracy in theirs if accuracy is not None]
    if ours is None or not theirs:
        return []
    name = match.case.name
    pairs = {
        "median error of the mean": lambda accuracy: accuracy.median,
        "largest error of the mean": lambda accuracy: accuracy.largest,
        "error of the sd": lambda accuracy: accuracy.ratio_error,
    }
    return [
        more_than(f"{name}: {what}, best filter / newton", min(map(of, theirs)) / of(ours), 1)
        for what, of in pairs.items()
    ]


def _milli(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _speed(match: Match) -> list[list[Any]]:
    rows, optimum = [], match.optimum
    for name, outcome in match.outcomes.items():
        measured = outcome.measured
        if not measured:
            rows.append([match.case.name, name, None, "not measured", None, None, None, None, None])
            continue
        near = _milli(outcome.seconds_to(optimum - NEAR))
        elbo = outcome.elbo
        rows.append([
            match.case.name, name, measured.get("compile"),
            near if near is not None or elbo is None else "never",
            None if elbo is None else f"{elbo:,.2f}",
            None if elbo is None else max(optimum - elbo, 0.0),
            _milli(measured.get("iteration")), _milli(measured.get("fit")), measured["rss"] / 1e6,
        ])  # fmt: skip
    return rows


def _own(match: Match) -> list[list[Any]]:
    """Guides that ran, the best first."""
    rows = []
    for name in match.guides:
        guide, best = match.outcomes[name], match.outcomes[name].best
        climb, level = guide.most_of_climb()
        pairs = (
            (guide.seconds_to_own(), match.newton.seconds_to(best)),
            (climb, match.newton.seconds_to(level)),
        )
        times = [[theirs, _milli(ours), theirs / ours if ours else None] for theirs, ours in pairs]
        rows.append([
            match.case.name, name, guide.measured["detail"], f"{best:,.2f}", match.optimum - best,
            *times[0], *times[1],
        ])  # fmt: skip
    return rows


def _natural(match: Match) -> list[list[Any]]:
    ours, theirs = match.newton, match.outcomes[BAYESNEWTON]
    if not ours.measured or not theirs.measured:
        return []
    iteration = [outcome.measured["iteration"] for outcome in (ours, theirs)]
    closed = theirs.measured["iteration_closed"]
    near = [outcome.seconds_to(match.optimum - NEAR) for outcome in (ours, theirs)]
    mine, other = ours.elbo, theirs.elbo
    return [[
        match.case.name, *map(_milli, iteration), iteration[1] / iteration[0], _milli(closed),
        closed / iteration[0], *map(_milli, near),
        near[1] / near[0] if near[0] and near[1] else None,
        abs(mine - other) / abs(mine) if mine and other else None,
    ]]  # fmt: skip


def _accuracy(match: Match) -> list[list[Any]]:
    found = {name: match.accuracy(name) for name in match.outcomes}
    return [
        [match.case.name, name, errors.median, errors.largest, errors.ratio, errors.ratio_low,
         errors.ratio_high]
        for name, errors in found.items()
        if errors is not None
    ]  # fmt: skip


def _reference(match: Match) -> list[list[Any]]:
    outcome = match.outcomes.get(NUTS)
    if outcome is None or not outcome.measured:
        return []
    measured = outcome.measured
    noise = 0.6745 / measured["ess"] ** 0.5  # the median of the absolute value of a normal
    return [[
        match.case.name, measured["fit"], round(measured["ess"]), round(measured["ess_least"]),
        f"{measured['r_hat']:.3f}", noise,
    ]]  # fmt: skip
