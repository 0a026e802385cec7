"""`words.evaluate`: the papers' comparison of methods by how well they predict unseen time steps."""

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import driftline
from driftline.words.counts.counts import Counts
from driftline.words.evaluation.scores import Evaluation, Scores, check_scores
from driftline.words.settings import COMPARED, WordSettings


def evaluate(
    counts: Counts,
    methods: Sequence[str] = ("sgi", "sgp", "dsg-f", "dsg-s"),
    dim: int | None = None,
    *,
    passes: Mapping[str, int | Iterable[int]] | None = None,
    hold_out: Iterable[int] | None = None,
    path: str | os.PathLike | None = None,
    resume: bool = False,
    tell: Callable[[str], object] | None = None,
    **settings: Any,
) -> Evaluation:
    """Compare methods by the papers' protocol.

    Smoothing is fitted without the held-out steps and interpolates its modes linearly in time. The other
    methods go through the steps in order and predict each from the mode of the step before, then learn it.

    Args:
        counts: From `words.count`.
        methods: Any of "sgi", "sgp", "dsg-f", "dsg-s", and "dsg-s-past": smoothing that is fitted again for
            each held-out step, to the steps before it only, so that it solves the same task as filtering.
        dim: Dimension of the embeddings; as in `words.fit` if it is None.
        passes: Of some methods by name, as in `words.fit`: the most that each phase may take.
        hold_out: Steps that smoothing does not see; by default every tenth, from the fifth on (with fewer
            than 50 steps every fifth, from the first on; with up to 5 the middle one), as in the paper.
        path: JSON file to which the scores are saved whenever a method has finished.
        resume: Whether to go on from that file: methods that it has are not run again, and are kept. It must
            be of the same counts, settings and held-out steps.
        tell: A function that is told in a line what is going on.
        settings: `drift`, `scale`, `prior`, `ratio`, `exponent`, `optimiser` and `seed` as in `words.fit`,
            for all methods.
    """
    chosen = settings_of_each(methods, passes or {}, {"dim": dim} | settings)
    _check_path(path, resume)
    steps = check_steps(counts, chosen, hold_out)
    from driftline.words.evaluation import comparison

    found = _begin(counts, chosen, steps)
    if resume and path is not None:
        found = _go_on(path, found)
    compared = steps[steps >= max(COMPARED[name] for name in (*chosen, *found.methods))]
    for method in [name for name in chosen if name not in found.methods]:
        begun = time.monotonic()
        predicted, scores = comparison.predict(counts, method, steps, chosen[method], tell)
        found.methods[method] = Scores(predicted, scores, time.monotonic() - begun)
        if tell is not None:
            mean = scores[np.isin(predicted, compared)].mean()
            tell(f"{method}: {mean:.4f}, {found.methods[method].seconds:.0f} s")
        if path is not None:
            _keep(found, path)
    return found


def _begin(counts: Counts, chosen: Mapping[str, WordSettings], steps: np.ndarray) -> Evaluation:
    """An evaluation without scores, which says what they will be made from."""
    shared = next(iter(chosen.values())).to_facts()
    made_from = {
        "counts": counts.fingerprint,
        "driftline": driftline.__version__,
        "passes": {method: list(settings.passes) for method, settings in chosen.items()},
    }
    shared = {name: value for name, value in shared.items() if name not in ("method", "passes")}
    return Evaluation(counts.dates, steps, {}, shared, made_from)


def _go_on(path: str | os.PathLike, now: Evaluation) -> Evaluation:
    """What has begun `now`, with the scores of a file of the same comparison; another one is refused."""
    before = Evaluation.load(path)
    remedy = "begin again without resume=True, in another place"
    if not before.made_from:
        raise ValueError(f"{os.fspath(path)} does not say what it was made from; {remedy}")
    differ = [f"{what} {then}, now {here}" for what, then, here in _beside(before, now) if then != here]
    if differ:
        raise ValueError(
            f"{os.fspath(path)} has scores of another comparison ({'; '.join(differ)}); give the same, or "
            f"{remedy}"
        )
    passes = before.made_from.get("passes", {})
    kept = {name: passes[name] for name in before.methods if name in passes}
    made_from = now.made_from | {"passes": kept | now.made_from["passes"]}
    return dataclasses.replace(now, methods=before.methods, made_from=made_from)


def _beside(before: Evaluation, now: Evaluation) -> Iterator[tuple[str, Any, Any]]:
    """What must be the same in two evaluations, if one is to go on from the other: its name, then and now."""
    then, here = before.made_from, now.made_from
    yield "version of driftline", then.get("driftline"), here["driftline"]
    yield "fingerprint of the counts", str(then.get("counts"))[:16], here["counts"][:16]
    yield "held-out steps", before.held_out.tolist(), now.held_out.tolist()
    for name, value in now.settings.items():
        yield name, before.settings.get(name), value
    for name in before.methods:
        passes = then.get("passes", {}).get(name)
        yield f"passes of {name}", passes, here["passes"].get(name, passes)


def _keep(found: Evaluation, path: str | os.PathLike) -> None:
    """Save what is done. If that fails, hours of work can still be shown in the end."""
    try:
        found.save(path)
    except OSError as error:
        warnings.warn(f"{error.strerror}; the comparison goes on", stacklevel=3)


def _check_path(path: str | os.PathLike | None, resume: bool) -> None:
    if path is None:
        if resume:
            raise ValueError("resume=True needs path=, the file of scores to go on from")
        return
    if not Path(path).absolute().parent.is_dir():
        raise ValueError(f"path={os.fspath(path)!r}: there is no such folder; make it first")
    check_scores(path, resume)


def settings_of_each(
    methods: Sequence[str],
    passes: Mapping[str, int | Iterable[int]],
    settings: Mapping[str, Any],
) -> dict[str, WordSettings]:
    """Settings of every method, or an error before any of them has begun; arguments as in `evaluate`."""
    if not methods:
        raise ValueError(f"methods is empty; choose from {', '.join(COMPARED)}")
    if not isinstance(passes, Mapping):
        raise TypeError(f"passes={passes!r}; a dictionary is needed here, such as {{'dsg-s': (2000, 1000)}}")
    for what, names in (("methods", methods), ("passes", passes)):
        unknown = [name for name in names if name not in COMPARED]
        if unknown:
            raise ValueError(f"{what} has {unknown[0]!r}; choose from {', '.join(COMPARED)}")
    known = [
        field.name for field in dataclasses.fields(WordSettings) if field.name not in ("method", "passes")
    ]
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise TypeError(f"evaluate has no setting {unknown[0]!r}; it takes {', '.join(known)}")
    chosen = {}
    for method in methods:
        own = passes.get(method, ())
        own = (own,) if isinstance(own, int) else tuple(own)
        name: Any = "dsg-s" if method == "dsg-s-past" else method
        chosen[method] = WordSettings(method=name, passes=own, **settings)
    return chosen


def check_steps(
    counts: Counts, chosen: Mapping[str, WordSettings], hold_out: Iterable[int] | None
) -> np.ndarray:
    """The steps that are held out, or an error if the methods that were chosen cannot predict them."""
    # Here, so that a table can be read and drawn without JAX.
    from driftline.words.evaluation import comparison
    from driftline.words.fitting import held_out

    steps = held_out.held_out_steps(counts, _default(counts) if hold_out is None else hold_out)
    comparison.check(counts, chosen, steps)
    return steps


def _default(counts: Counts) -> list[int]:
    """Default steps, but for those without a pair of words."""
    return [step for step in default_steps(len(counts)) if len(counts.step(int(step)).words)]


def default_steps(num_steps: int) -> np.ndarray:
    """Steps that are held out if none are named; a middle one if by the papers it were the first alone."""
    if num_steps >= 50:
        return np.arange(4, num_steps, 10)
    return np.arange(0, num_steps, 5) if num_steps > 5 else np.array([num_steps // 2])
