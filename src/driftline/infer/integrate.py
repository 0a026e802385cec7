"""Learnt numbers: their most probable values, or a posterior over them with the path averaged over it.

Everything happens on a scale without bounds. The optimised ELBO stands in for the log evidence. A
quasi-Newton climb finds the mode; importance sampling with quasi-random points around it then corrects for
skew and tails, in the spirit of nested Laplace approximations (Rue et al. 2009). See `docs/maths.md`,
section 10.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.families import BlockGaussMarkov, GaussMarkov
from driftline.infer import marginals, newton, threads
from driftline.infer.climb import Summits, climb
from driftline.infer.expectation import Moments, moments
from driftline.infer.given_numbers import SIDE_BY_SIDE, at_once, fit_apart, fit_at, fit_together, is_panel
from driftline.infer.layout import Layout
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.infer.quadrature import quasi_normal
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import learnt, with_values

POINTS_PER_NUMBER, MOST_POINTS = 48, 1024
POINTS_BUDGET = 200_000  # points times length, as long as it lies between the two above
DRAWS_FOR_GAP, DRAWS_AT_ONCE = 128, 8
WIDE_SHARE, WIDE = 0.25, 3.0  # part of the points that is drawn from a wider Gaussian, against heavy tails
MOST_ROUNDS = 4
FAR_OUT = 4.0  # standard deviations from the centre at which a posterior must have fallen
FALL = 1.0  # by at least so many nats
ENOUGH = 0.4  # effective share of points at which the rounds end
MOST_GAP = 5.0  # nats that the gap of a point may exceed that of the favoured points by
TOO_FEW = 0.05  # effective share below which the posterior of the numbers is not to be trusted


class Learning(NamedTuple):
    """The result of learning: weighted values of each number, and the averaged fit.

    If it was interrupted, the most probable values so far and the fit that belongs to them.
    """

    values: dict[str, np.ndarray]
    weights: np.ndarray
    outcome: Outcome
    interrupted: bool = False


def learn_numbers(
    model: Model,
    observations: Observations,
    start: Callable[[Model], GaussMarkov | BlockGaussMarkov],
    settings: newton.Settings,
    *,
    mode: str,
    reporter: Reporter,
) -> Learning:
    """Find the learnt numbers of a model of one series, or of all series of a panel.

    Args:
        model: A model with learnt numbers.
        observations: The series.
        start: Makes a starting family for the model with its numbers at their start.
        settings: Of the inner fits.
        mode: "maximise" for the most probable values, "integrate" for a posterior over them.
        reporter: Told about every fit of the climb.
    """
    layout, raw, problem = _set_up(model, observations, settings, mode)
    q = jax.tree.map(lambda leaf: leaf[None], start(problem[0]))
    summits = climb(raw[None], q, lambda raws, q: fit_together(raws, q, problem), reporter)
    reporter.close()
    num_points = _num_points(len(raw), q.mean.size)
    return _learning(layout, _summit(summits, 0), problem, mode, num_points)


def learn_numbers_of_each(
    model: Model,
    observations: Observations,
    start: Callable[[Model], GaussMarkov],
    settings: newton.Settings,
    *,
    mode: str,
    names: Sequence[Any],
    reporters: tuple[Reporter, Reporter],
) -> Iterator[Learning]:
    """The same for every series of a panel on its own; all of them climb side by side.

    Args:
        model: A model with learnt numbers.
        observations: The series, with a leading axis for them.
        start: Makes starting families for the model with its numbers at their start.
        settings: Of the inner fits.
        mode: As in `learn_numbers`.
        names: Of the series, for errors.
        reporters: Told about every move of the climbs, and about every series that is done.
    """
    layout, raw, problem = _set_up(model, observations, settings, mode)
    template, _, *rest = problem
    q = start(template)
    raws = np.tile(raw, (len(q.mean), 1))
    summits = climb(raws, q, lambda raws, q: fit_apart(raws, q, problem), reporters[0], names)
    reporters[0].close()
    # As many points as for a series alone: what is found must not depend on the company that it is in.
    num_points, total, interrupted = _num_points(len(raw), q.mean[0].size), 0.0, False
    for place, name in enumerate(names):
        own = jax.tree.map(lambda leaf, place=place: jnp.asarray(leaf[place]), observations)
        summit = _summit(summits, place)
        if interrupted:
            summit = summit._replace(interrupted=True)
        try:
            learning = _learning(layout, summit, (template, own, *rest), mode, num_points)
        except ValueError as error:
            raise ValueError(f"series {name!r}: {error}") from error
        interrupted = learning.interrupted
        total += learning.outcome.elbo
        reporters[1].update(place + 1, total, 0.0)
        yield learning
    reporters[1].close()


def _set_up(model, observations, settings, mode):
    """How the numbers lie in a vector, where it starts, and what a fit at a vector needs to know."""
    numbers = learnt(model)
    layout = Layout(
        tuple(numbers),
        tuple(number.support for number in numbers.values()),
        tuple(number.start.shape for number in numbers.values()),
        flat=mode == "maximise",
    )
    raw = np.concatenate([np.ravel(n.support.to_raw(n.start)) for n in numbers.values()])
    template = with_values(model, {place: number.start for place, number in numbers.items()})
    problem = (
        template,
        observations,
        layout,
        jnp.asarray(settings.tolerance),
        jnp.asarray(settings.max_iterations),
    )
    return layout, raw, problem


def _summit(summits: Summits, place) -> Summits:
    """One of many summits, without the leading axis."""
    return jax.tree.map(lambda leaf: leaf[place], summits)


def _learning(layout, summit: Summits, problem, mode, num_points) -> Learning:
    if mode == "maximise" or summit.interrupted:
        return _single(layout, summit)
    try:
        return _averaged(layout, summit, problem, num_points)
    except KeyboardInterrupt:
        return _single(layout, summit._replace(interrupted=True))


def _averaged(layout, summit: Summits, problem, num_points) -> Learning:
    center, covariance = summit.raws, summit.covariances
    found = _sample_round(center, covariance, num_points, summit.best, problem)
    for _ in range(MOST_ROUNDS - 1):
        if found.share >= ENOUGH:
            break
        center = found.weights @ found.raws
        apart = found.raws - center
        covariance = apart.T @ (found.weights[:, None] * apart) + 1e-10 * np.eye(len(center))
        found = _sample_round(center, covariance, num_points, summit.best, problem)
    _check_ends(layout, found, center, np.sqrt(np.diag(covariance)))
    batched = jax.vmap(layout.values)(jnp.asarray(found.raws))
    values = {place: np.asarray(batched[place]) for place in layout.places}
    main = np.argsort(-found.weights)[: _num_main(found.weights)]
    shares = found.weights[main] / found.weights[main].sum()
    q, quantiles = _mixed(found.raws[main], shares, summit.best.q, problem)
    effective = f", {found.share:.0%} of {num_points} points effective"
    reached = summit.reached and found.share >= TOO_FEW
    ending = "converged" if reached else "not converged"
    outcome = _outcome(q, found.log_evidence, summit.climbs, ending, effective)
    return Learning(values, found.weights, dataclasses.replace(outcome, quantiles=np.asarray(quantiles)))


class Round(NamedTuple):
    """Weighted points of the learnt numbers.

    Attributes:
        raws: The points, on the scale without bounds.
        weights: Their weights, which sum to one.
        heights: Log posterior at each, up to a constant.
        distances: How far each is from the centre along the axis along which it is farthest, in standard
            deviations of the narrower proposal.
        share: Effective share of the points.
        log_evidence: Logarithm of the integral of the optimised ELBO's exponential: a lower bound.
    """

    raws: np.ndarray
    weights: np.ndarray
    heights: np.ndarray
    distances: np.ndarray
    share: float
    log_evidence: float


def _check_ends(layout, found: Round, center, sd):
    """Refuse numbers whose posterior does not fall off: far out it would be as high as near the mode."""
    far = found.distances > FAR_OUT
    if not far.any() or found.heights[far].max() < found.heights[~far].max() - FALL:
        return
    end = found.raws[int(np.argmax(np.where(far, found.heights, -np.inf)))]
    at_end = layout.split(jnp.asarray(np.abs(end - center) / sd))
    place = max(at_end, key=lambda place: float(jnp.max(at_end[place])))
    value = np.asarray(layout.values(jnp.asarray(end))[place])
    raise ValueError(
        f"the data do not hold {place}: {np.array2string(value, precision=3)} is as probable as anything, "
        "so that its posterior has no end and the model is improper; give it a prior, dl.learn(..., "
        "prior=...), or a fixed value"
    )


def _num_main(weights):
    """How many of the heaviest points carry nearly all of the weight, up to a power of two."""
    count = 1 + int(np.searchsorted(np.cumsum(np.sort(weights)[::-1]), 0.9999))
    return min(len(weights), 1 << (count - 1).bit_length())


def _num_points(num_learnt, size):
    return int(np.clip(POINTS_BUDGET // size, POINTS_PER_NUMBER * num_learnt, MOST_POINTS))


def _sample_round(center, covariance, num_points, best, problem) -> Round:
    raws, log_density, distances = _proposals(center, covariance, num_points)
    values, gaps = _heights(raws, best.q, problem)
    usable = np.isfinite(values) & np.isfinite(gaps)
    if not usable.any():
        raise ValueError(
            f"none of {num_points} fits of the path around the most probable learnt numbers has a finite "
            "ELBO; give the numbers narrower priors, dl.learn(..., prior=...), or take parameters='maximise'"
        )
    log_bounds = np.where(usable, values - log_density, -np.inf)
    log_weights = log_bounds + _credible(np.where(usable, gaps, 0.0), log_bounds)
    weights = _normalised(log_weights)
    share = float(1.0 / (num_points * np.sum(weights**2)))
    highest = log_bounds.max()
    log_evidence = float(highest + np.log(np.mean(np.exp(log_bounds - highest))))
    return Round(raws, weights, log_weights + log_density, distances, share, log_evidence)


def _credible(gaps, log_bounds):
    """Gaps, cut off where they are far above those of the points that the ELBO favours.

    Where the path's posterior has several tops, as under a Student-t of tiny scale, the log weight has a
    long lower tail, and half of its variance can be hundreds of nats that are not there.
    """
    return np.minimum(gaps, _normalised(log_bounds) @ gaps + MOST_GAP)


def _normalised(log_weights):
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _heights(raws, q, problem):
    """The log posterior at each point, and what the ELBO in it falls short of the log evidence."""

    def some(part):
        found = _some_heights(jnp.asarray(raws[part.rows]), q, *problem)
        return [np.asarray(array)[part.known :] for array in found]

    found = threads.share_out(some, threads.parts(len(raws)))
    return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]


@eqx.filter_jit
def _some_heights(raws, q, template, observations, layout, tolerance, limit):
    def one(raw):
        fitted = fit_at(raw, q, template, observations, layout, tolerance, limit)
        return fitted.value, _gap(with_values(template, layout.values(raw)), fitted.q, observations)

    return jax.lax.map(one, raws, batch_size=min(at_once(q), len(raws)))


def _gap(model, q, observations):
    r"""Second-order estimate of the gap between ELBO and log evidence.

    For $w = \log p(x, z) - \log q(z)$ under q the log evidence is $E[w] + \frac12 \mathrm{Var}[w]$ up to
    third cumulants (eq. 27). The same noise serves all points, so that the estimates differ by what matters.
    """
    if is_panel(q, model):
        series = jax.lax.map(lambda pair: _gap(model, *pair), (q, observations), batch_size=SIDE_BY_SIDE)
        return jnp.sum(series)
    half = jr.normal(jr.key(0), (DRAWS_FOR_GAP // 2, *q.mean.shape), q.mean.dtype)

    def log_weight(noise):
        path = q.mean + q.unwhiten(noise)
        return model.log_joint(path, observations) - q.log_prob_of_noise(noise)

    return 0.5 * jnp.var(jax.lax.map(log_weight, jnp.concatenate([half, -half]), batch_size=DRAWS_AT_ONCE))


def _proposals(center, covariance, num_points):
    """Quasi-random points from a Gaussian and a wider one, their log density, and how far out they are."""
    factor = np.linalg.cholesky(covariance)
    white = quasi_normal(num_points, len(center))
    wide = np.arange(num_points) % round(1 / WIDE_SHARE) == 0
    white = white * np.where(wide, WIDE, 1.0)[:, None]
    square, dim = np.sum(white**2, axis=1), len(center)
    narrow = np.log(1 - WIDE_SHARE) - 0.5 * square
    other = np.log(WIDE_SHARE) - 0.5 * square / WIDE**2 - dim * np.log(WIDE)
    constant = -0.5 * dim * np.log(2 * np.pi) - np.log(np.diag(factor)).sum()
    return center + white @ factor.T, np.logaddexp(narrow, other) + constant, np.abs(white).max(axis=1)


def _mixed(raws, weights, q, problem):
    """The weighted mixture of fits, one fit after the other.

    Returns:
        The Gauss-Markov density with the moments of the mixture, and the quantiles of every step.
    """

    def some(part):
        own = weights[part.rows].copy()
        own[: part.known] = 0.0  # counted by the part before
        return _sums(jnp.asarray(raws[part.rows]), jnp.asarray(own), q, *problem)

    totals = threads.share_out(some, threads.parts(len(raws)))
    total = functools.reduce(lambda one, other: jax.tree.map(jnp.add, one, other), totals)
    return _from_sums(total, q, problem[0])


@eqx.filter_jit
def _sums(raws, weights, q, template, observations, layout, tolerance, limit):
    """Weighted sums over fits: of moments around the mean of `q`, and of tails in its standard deviations."""
    each, blocks = _each(q, template), isinstance(q, BlockGaussMarkov)
    start = each(moments)(q)
    unit = _sd(start, blocks)

    def add(total, row):
        raw, weight = row
        fitted = fit_at(raw, q, template, observations, layout, tolerance, limit)
        # Around the mean of `q`, so that little is lost to rounding.
        found = each(moments)(fitted.q)
        found = found._replace(mean=found.mean - q.mean)
        tails = marginals.tails(found.mean, _sd(found, blocks), unit)
        found = each(lambda found: _with_products(found, 1.0, blocks))(found)
        parts = jax.tree.map(lambda part: weight.astype(part.dtype) * part, (found, tails))
        return jax.tree.map(jnp.add, total, parts), None

    zero = jax.tree.map(jnp.zeros_like, start), marginals.no_tails(unit)
    return jax.lax.scan(add, zero, (raws, weights))[0]


@eqx.filter_jit
def _from_sums(sums, q, template):
    (total, tails), each, blocks = sums, _each(q, template), isinstance(q, BlockGaussMarkov)
    unit = _sd(each(moments)(q), blocks)
    mixed = each(lambda total: _with_products(total, -1.0, blocks))(total)
    quantiles = marginals.quantiles(tails, unit, mixed.mean, _sd(mixed, blocks))
    return each(type(q).from_moments)(q.mean + mixed.mean, mixed.within, mixed.between), quantiles


def _each(q, template):
    """What makes a function of one family one of all series of a panel, if it is a panel."""
    return jax.vmap if is_panel(q, template) else lambda function: function


def _sd(found, blocks):
    """Standard deviations of every element, for one series or for a panel."""
    variances = jnp.diagonal(found.within, axis1=-2, axis2=-1) if blocks else found.within
    return jnp.sqrt(variances).reshape(found.mean.shape)


def _with_products(found, sign, blocks):
    """Moments, with the products of their means added to the covariances or taken away."""
    mean = found.mean
    if blocks:
        flat = mean.reshape(len(mean), -1)
        within, between = flat[:, :, None] * flat[:, None, :], flat[:-1, :, None] * flat[1:, None, :]
    else:
        within, between = mean * mean, mean[:-1] * mean[1:]
    return Moments(mean, found.within + sign * within, found.between + sign * between)


def _single(layout, summit: Summits) -> Learning:
    values = {name: np.asarray(v)[None] for name, v in layout.values(jnp.asarray(summit.raws)).items()}
    ending = "converged" if summit.reached else "not converged"
    rest = ""
    if summit.interrupted:
        ending, rest = "interrupted", ", not averaged over them"
    outcome = _outcome(summit.best.q, float(summit.best.elbo), summit.climbs, ending, rest)
    return Learning(values, np.ones(1), outcome, bool(summit.interrupted))


def _outcome(q, elbo, climbs, ending: str, rest: str) -> Outcome:
    message = f"{ending} after {climbs} moves of the learnt numbers{rest}"
    return Outcome(q, elbo, 0.0, converged=ending == "converged", iterations=int(climbs), message=message)
