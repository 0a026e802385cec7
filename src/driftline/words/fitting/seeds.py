"""Several fits of the same counts, from different seeds: the best of them, and how far they agree."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftline.words.atlas.agreement import agreement as agreement
from driftline.words.atlas.agreement import compared, sketch
from driftline.words.atlas.atlas import Atlas
from driftline.words.counts.counts import Counts


def fit_seeds(
    fit: Callable[..., Atlas], counts: Counts, seeds: int = 3, *, seed: int = 0, **options: Any
) -> tuple[Atlas, dict]:
    """The fit with the highest ELBO of several, and how far they agree; see `agreement`.

    Point estimates have no ELBO, and then it is the first. No more than two fits are held at a time.

    Args:
        fit: `words.fit`.
        counts: From `words.count`.
        seeds: How many fits, at least two.
        seed: Seed of the first; the others have the next ones.
        options: Further ones of `words.fit`. With `checkpoint`, each fit has a file of its own, of the name
            that `checkpoint_of` gives; with `resume`, fits go on from the files that are there.
    """
    if not isinstance(seeds, int | np.integer) or isinstance(seeds, bool) or seeds < 2:
        raise ValueError(f"seeds={seeds!r}; a whole number of at least 2 is needed, to compare fits")
    each = [_options(each, options) for each in range(seed, seed + int(seeds))]
    if options.get("resume") and not any(one["resume"] for one in each):
        raise FileNotFoundError(
            f"there is no checkpoint {each[0]['checkpoint']}, nor of a later seed; begin without resume=True"
        )
    best, sketches = None, []
    for one in each:
        atlas = fit(counts, **one)
        sketches.append(sketch(atlas))
        best = atlas if best is None else _better(best, atlas)
    assert best is not None
    return best, compared(sketches)


def checkpoint_of(checkpoint: str | os.PathLike, seed: int) -> Path:
    """File for the state of the fit from one of several seeds."""
    return Path(f"{os.fspath(checkpoint)}.seed{seed}")


def _better(one: Atlas, other: Atlas) -> Atlas:
    if one.elbo is None or other.elbo is None:
        return one
    return other if other.elbo > one.elbo else one


def _options(seed: int, options: dict[str, Any]) -> dict[str, Any]:
    if options.get("checkpoint") is None:
        return options | {"seed": seed}
    path = checkpoint_of(options["checkpoint"], seed)
    resume = bool(options.get("resume")) and path.exists()
    return options | {"seed": seed, "checkpoint": path, "resume": resume}
