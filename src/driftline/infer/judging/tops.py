"""Tops of a posterior over path and learnt numbers together, and which of them draws have visited."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from driftline.families import AbstractBanded
from driftline.infer import newton
from driftline.infer.judging.other_modes import APART, LOWEST, other_modes
from driftline.infer.learning.ascent import INNER_TOLERANCE, climb
from driftline.infer.learning.fits_at_numbers import fit_together
from driftline.infer.learning.problem import LearningProblem
from driftline.infer.number_vector import Layout
from driftline.infer.progress import Reporter
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import with_values

LONGEST = 1_000_000  # numbers of a path beyond which nothing is searched: hours
MOST_SCANNED = 8  # learnt numbers up to which the posterior is followed along each of them
DISTANCES = (3.0, 6.0, 12.0, 24.0)  # standard deviations at which it is looked at there, on either side
RISEN = 0.5  # nats by which it rises again if there may be another top
HARDLY = 0.1  # of its share of the posterior: of the draws, fewer than this do not stand for a top


class Top(NamedTuple):
    """A place around which there is some of the posterior.

    Attributes:
        raw: Learnt numbers without bounds, (K,).
        covariance: Of these.
        path: Mean of the path.
        path_sd: Its standard deviations.
        log_mass: Logarithm of how much of the posterior there is, up to a constant that all tops share.
    """

    raw: np.ndarray
    covariance: np.ndarray
    path: np.ndarray
    path_sd: np.ndarray
    log_mass: float

    @property
    def raw_sd(self) -> np.ndarray:
        """Standard deviations of the numbers."""
        return np.sqrt(np.diagonal(self.covariance))


def tops(
    model: Model,
    observations: Observations,
    q: AbstractBanded,
    layout: Layout,
    points: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> list[Top]:
    """The top of a fit, and others that are found from other starts.

    Args:
        model: The model, with learnt numbers at any value.
        observations: The series; it may be filled up with steps that are cut off.
        q: Where the fit of the path starts.
        layout: How the learnt numbers lie in a vector; of no numbers if none are learnt.
        points: Points of them without bounds, (P, K), and their weights.
        seed: For starts.
    """
    raw = points[0][int(np.argmax(points[1]))]
    if not layout.places:
        state = newton.refit(model, observations, q)
        own = _top(raw, np.zeros((0, 0)), state.q, float(state.elbo))
        return [own, *_of_path(own, state.q, model, observations, seed)]
    limit = jnp.asarray(newton.Settings().max_iterations)
    tolerance = jnp.asarray(INNER_TOLERANCE)
    problem = LearningProblem(model, observations, layout, tolerance, limit, is_panel=False)
    own, q, _ = _climbed(raw, q, problem)
    at_top = with_values(model, layout.values(jnp.asarray(own.raw)))
    return [own, *_of_path(own, q, at_top, observations, seed), *_of_numbers(own, q, problem)]


def _of_path(own: Top, q, model, observations, seed) -> list[Top]:
    """Tops at which the path is elsewhere, with the numbers where they are."""
    elbo = float(newton.begin(q, model, observations).elbo)
    modes = other_modes(model, observations, q, elbo, seed)
    return [_top(own.raw, own.covariance, mode.q, own.log_mass + mode.elbo - elbo) for mode in modes]


def _of_numbers(own: Top, q, problem) -> list[Top]:
    """Tops at which learnt numbers are elsewhere."""
    known = [own]
    for raw, start in (*_other_signs(own.raw, q, problem), *_rising_again(own, q, problem)):
        top, _, reached = _climbed(raw, start, problem)
        likely = reached and top.log_mass > own.log_mass - LOWEST
        if likely and all(_differ_in_numbers(top, other) for other in known):
            known.append(top)
    return known[1:]


def _climbed(raw, q, problem):
    """The top to which a climb leads, the fit of the path there, and whether it is one."""

    def fit(raws, q):
        return fit_together(raws, q, problem)

    found = climb(raw[None], _one(q), fit, _quiet(), free=problem.layout.free())
    found = jax.tree.map(lambda leaf: leaf[0], found)
    log_mass = float(found.best.value) + 0.5 * float(np.linalg.slogdet(found.covariances)[1])
    return _top(found.raws, found.covariances, found.best.q, log_mass), found.best.q, bool(found.reached)


def _quiet():
    return Reporter("searching", None, False)


def _top(raw, covariance, q, log_mass):
    return Top(raw, covariance, np.asarray(q.mean), np.sqrt(np.asarray(_variances(q))), log_mass)


def _other_signs(center, q, problem):
    """The other sign of each number that has two, and of all of them; with the better of two paths."""
    layout = problem.layout
    parts = [
        layout.parts()[place]
        for place, support in zip(layout.places, layout.supports, strict=True)
        if support.lower == -support.upper and np.any(center[layout.parts()[place]])
    ]
    together = [parts] if len(parts) > 1 else []
    for turned in [*([part] for part in parts), *together]:
        raw = center.copy()
        for part in turned:
            raw[part] *= -1.0
        starts = (eqx.tree_at(lambda q: q.mean, q, mean) for mean in (q.mean, -q.mean))
        found = [fit_together(raw[None], _one(start), problem) for start in starts]
        known = [one for one in found if np.isfinite(one.value[0]) and np.isfinite(one.gradient).all()]
        if known:
            best = max(known, key=lambda one: float(one.value[0]))
            yield raw, jax.tree.map(lambda leaf: leaf[0], best.q)


def _rising_again(own: Top, q, problem):
    """Places along each number, with the others as they go with it, at which the posterior rises again."""
    if len(own.raw) > MOST_SCANNED:
        return
    top = float(fit_together(own.raw[None], _one(q), problem).value[0])
    for along in own.covariance / own.raw_sd[:, None]:
        for direction in (-along, along):
            before = top
            for distance in DISTANCES:
                raw = own.raw + distance * direction
                found = fit_together(raw[None], _one(q), problem)
                value, slope = float(found.value[0]), distance * float(found.gradient[0] @ direction)
                if not np.isfinite(value + slope):
                    break
                if value > before + RISEN or slope > RISEN:
                    yield raw, jax.tree.map(lambda leaf: leaf[0], found.q)
                    break
                before = value


def _one(q):
    """A family with a leading axis, as of a single series of a panel."""
    return jax.tree.map(lambda leaf: leaf[None], q)


def _differ_in_numbers(one: Top, other: Top):
    return bool((np.abs(one.raw - other.raw) > APART * np.hypot(one.raw_sd, other.raw_sd)).any())


@eqx.filter_jit
def _variances(q):
    return q.variances()


def unvisited(found: Sequence[Top], raws: np.ndarray, paths: np.ndarray) -> float:
    """What part of the posterior lies around tops that draws have hardly visited.

    Args:
        found: The tops.
        raws: Draws of the learnt numbers without bounds, (chains, draws, K).
        paths: Draws of the path, (chains, draws, T, *shape).
    """
    if len(found) == 1:
        return 0.0
    masses = np.array([top.log_mass for top in found])
    shares = np.exp(masses - np.logaddexp.reduce(masses))
    nearest = np.argmax([_heights(top, raws, paths) for top in found], axis=0)
    visits = np.array([np.mean(nearest == place) for place in range(len(found))])
    return float(shares[visits < HARDLY * shares].sum())


def _heights(top: Top, raws, paths):
    """Log densities of draws around a top, as if every number were independent of the others."""
    num_steps = paths.shape[2]
    path, path_sd = top.path[:num_steps], top.path_sd[:num_steps]
    squares = np.sum(((paths - path) / path_sd) ** 2, axis=tuple(range(2, paths.ndim)))
    total = -0.5 * squares - np.sum(np.log(path_sd))
    if raws.shape[2]:
        total += -0.5 * np.sum(((raws - top.raw) / top.raw_sd) ** 2, axis=2) - np.sum(np.log(top.raw_sd))
    return total
