"""From a fit to the posterior itself: NUTS over path and learnt numbers together."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.families import AbstractBanded
from driftline.infer.judging import tops
from driftline.infer.number_vector import Layout
from driftline.infer.sampling import mixing, nuts
from driftline.infer.sampling.whitened_coordinates import Coordinates, Position, coordinates
from driftline.models.model import Model
from driftline.models.observations import Observations

AGREE, FEWEST = 1.01, 400  # r-hat below which chains agree, and effective draws from which on it is known
CHANCE = 10.0  # over the effective draws: by which the largest r-hat of many may exceed one by chance
ELSEWHERE = 0.05  # part of the posterior around tops without draws
RARE = 0.005  # share of divergent draws that does no harm
MOST_NUMBERS = 1 << 28  # in all draws together: 2 GB


class Refinement(NamedTuple):
    """Draws of the posterior, (chains, draws, ...).

    Attributes:
        numbers: Of the learnt numbers, by place.
        paths: Of the path.
        divergences: How many draws' trajectories went astray.
        interrupted: Whether Ctrl-C ended it early.
        elsewhere: What part of the posterior lies around tops that the draws have hardly visited.
    """

    numbers: dict[str, np.ndarray]
    paths: np.ndarray
    divergences: int
    interrupted: bool
    elsewhere: float = 0.0


def refine(
    model: Model,
    observations: Observations,
    q: AbstractBanded,
    layout: Layout,
    points: tuple[np.ndarray, np.ndarray],
    *,
    draws: int,
    chains: int,
    warmup: int,
    seed: int,
    report: Callable[[int, int, float], None],
    known: Sequence[tops.Top] = (),
) -> Refinement:
    """Draw path and learnt numbers from their posterior.

    All chains start around the fit, so that they agree about a top which none of them has left. Tops that are
    known otherwise tell whether there is more.

    Args:
        model: The model, with learnt numbers at any value.
        observations: The series.
        q: A fit of the path.
        layout: How the learnt numbers lie in a vector; of no numbers if none are learnt.
        points: Points of the learnt numbers without bounds, (P, K), and their weights.
        draws: Of every chain.
        chains: How many.
        warmup: Draws of every chain that come before.
        seed: The same seed gives the same draws.
        report: Told how far it is.
        known: Tops of the posterior that were found before.
    """
    _check_memory(draws, chains, q)
    found = coordinates(model, observations, q, layout, *points)
    start = _starts(found, *points, chains, jr.key(seed))
    drawn = nuts.sample(
        found.log_density, found.place, start, warmup=warmup, draws=draws, seed=seed, report=report
    )
    raws = drawn.draws.raw
    values = layout.values_of_many(raws.reshape(raws.shape[0] * raws.shape[1], raws.shape[2]))
    return Refinement(
        {place: array.reshape(*raws.shape[:2], *array.shape[1:]) for place, array in values.items()},
        drawn.draws.path,
        int(drawn.divergent.sum()),
        drawn.interrupted,
        tops.unvisited(known, raws, drawn.draws.path) if known else 0.0,
    )


def _starts(found: Coordinates, raws, weights, chains, key):
    """A draw of the fit for each chain."""
    key_point, key_noise = jr.split(key)
    chosen = np.asarray(jr.choice(key_point, len(weights), (chains,), p=jnp.asarray(weights)))
    apart = (raws[chosen] - np.asarray(found.center)).T
    numbers = np.linalg.solve(np.asarray(found.factor), apart).T if raws.shape[1] else apart.T
    noise = jr.normal(key_noise, (chains, *found.q.mean.shape), found.q.mean.dtype)
    return Position(jnp.asarray(numbers), noise)


def _check_memory(draws, chains, q):
    total = draws * chains * q.mean.size
    if total > MOST_NUMBERS:
        raise ValueError(
            f"{chains} chains of {draws:,} draws of a path of {q.mean.size:,} numbers take "
            f"{8e-9 * total:.0f} GB; ask for at most draws={MOST_NUMBERS // (chains * q.mean.size)}"
        )


class Agreement(NamedTuple):
    """How well chains have mixed, and what follows from it.

    Attributes:
        r_hat: Of path and learnt numbers, by name.
        ess: Effective numbers of draws, likewise: of the bulk, or of the tails if that is less.
        flagged: Whether the draws should not be trusted as they are.
        verdict: One line in words.
    """

    r_hat: dict[str, np.ndarray]
    ess: dict[str, np.ndarray]
    flagged: bool
    verdict: str


def agreement(found: Refinement) -> Agreement:
    """Judge draws by how far their chains agree."""
    everything = {"path": found.paths, **found.numbers}
    r_hat = {name: mixing.r_hat(draws) for name, draws in everything.items()}
    ess = {
        name: np.minimum(mixing.effective_size(draws), mixing.tail_size(draws))
        for name, draws in everything.items()
    }
    worst = max(r_hat, key=lambda name: r_hat[name].max())
    least = min(ess, key=lambda name: ess[name].min())
    r, size = r_hat[worst].max(), ess[least].min()
    limit = max(AGREE, 1.0 + CHANCE / size)
    count = found.paths.shape[0] * found.paths.shape[1]
    facts = f"r-hat at most {r:.3f} ({worst}), at least {size:.0f} effective draws ({least})"
    if found.divergences:
        facts += f", {found.divergences} divergences"
    stopped = "; interrupted" if found.interrupted else ""
    if found.paths[0, 0].size > tops.LONGEST:
        stopped += f"; other tops are not looked for in a path of more than {tops.LONGEST:,} numbers"
    if found.elsewhere > ELSEWHERE:
        where = "around other tops that these chains never visit"
        why = f"about {found.elsewhere:.0%} of the posterior lies {where}"
        remedy = "narrow the priors to the top that is meant"
        return Agreement(r_hat, ess, True, f"doubtful: {why}; {facts}; {remedy}{stopped}")
    if r > limit or size < FEWEST or found.divergences > RARE * count:
        why = "chains do not agree" if r > limit else "too few effective draws"
        why = "trajectories diverge" if found.divergences > RARE * count else why
        remedy = "draw more, refine(draws=...), or give the model narrower priors"
        return Agreement(r_hat, ess, True, f"doubtful: {why}; {facts}; {remedy}{stopped}")
    return Agreement(r_hat, ess, False, f"good: the posterior itself, to Monte-Carlo error; {facts}{stopped}")
