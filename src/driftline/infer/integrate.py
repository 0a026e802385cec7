"""Learnt numbers: their most probable values, or a posterior over them with the path averaged over it.

Everything happens on a scale without bounds. The optimised ELBO stands in for the log evidence. Its gradient
needs no derivative of q, because q is at its own optimum (the envelope theorem). A quasi-Newton climb finds
the mode; differences of the gradient give the curvature there; importance sampling with quasi-random points
then corrects for skew and tails, in the spirit of nested Laplace approximations (Rue et al. 2009). See
`docs/maths.md`, section 10.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractFamily, BlockGaussMarkov, GaussMarkov
from driftline.infer import newton
from driftline.infer.expectation import Moments, expected_log_joint, moments
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.infer.quadrature import quasi_normal
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import Support, learnt, with_values

MOST_CLIMBS = 60
CLIMB_TOLERANCE = 1e-4  # expected rise, in nats, below which the climb ends
LONGEST_MOVE = 2.0  # of one climb, on the scale without bounds
DIFFERENCE = 0.02  # for the curvature at the mode, in units of the scale without bounds
POINTS_PER_NUMBER, MOST_POINTS = 48, 1024
POINTS_BUDGET = 200_000  # points times length, as long as it lies between the two above
DRAWS_FOR_GAP, DRAWS_AT_ONCE = 128, 8
SIDE_BY_SIDE = 50  # series of a panel that are fitted at the same time, while they stay in the cache
MOST_NUMBERS_AT_ONCE = 20_000_000  # bounds the memory of the batch of fits
WIDE_SHARE, WIDE = 0.25, 3.0  # part of the points that is drawn from a wider Gaussian, against heavy tails
MOST_ROUNDS = 4
FAR_OUT = 4.0  # standard deviations from the centre at which a posterior must have fallen
FALL = 1.0  # by at least so many nats
ENOUGH = 0.4  # effective share of points at which the rounds end
TOO_FEW = 0.05  # effective share below which the posterior of the numbers is not to be trusted


class Fitted(NamedTuple):
    """A fit of the path with the learnt numbers held fixed.

    Attributes:
        value: Log posterior density of the numbers, up to a constant.
        gradient: Its gradient.
        elbo: ELBO of the path's fit.
        q: The fitted family.
    """

    value: Float[Array, ""]
    gradient: Float[Array, " K"]
    elbo: Float[Array, ""]
    q: GaussMarkov | BlockGaussMarkov


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which numbers are learnt, and how they lie in one vector; hashable, as compilation needs."""

    places: tuple[str, ...]
    supports: tuple[Support, ...]
    shapes: tuple[tuple[int, ...], ...]
    flat: bool  # whether the density is taken on the numbers' own scale, without the stretch of the map

    def split(self, raw: Float[Array, " K"]) -> dict[str, Float[Array, "..."]]:
        """The vector as one array for each number, still without bounds."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        ends = np.cumsum([0, *sizes])
        return {
            place: raw[start:end].reshape(shape)
            for place, shape, start, end in zip(self.places, self.shapes, ends[:-1], ends[1:], strict=True)
        }

    def values(self, raw: Float[Array, " K"]) -> dict[str, Float[Array, "..."]]:
        """The numbers themselves."""
        parts = self.split(raw)
        return {
            place: support.from_raw(parts[place])
            for place, support in zip(self.places, self.supports, strict=True)
        }

    def log_prior(self, raw: Float[Array, " K"]) -> Float[Array, ""]:
        """Log prior density of the vector."""
        parts, values = self.split(raw), self.values(raw)
        total = jnp.zeros((), raw.dtype)
        for place, support in zip(self.places, self.supports, strict=True):
            total += support.log_prior(values[place])
            if not self.flat:
                total += support.log_stretch(parts[place])
        return total


class Learning(NamedTuple):
    """The result of learning: weighted values of each number, and the averaged fit."""

    values: dict[str, np.ndarray]
    weights: np.ndarray
    outcome: Outcome


def learn_numbers(
    model: Model,
    observations: Observations,
    start: Callable[[Model], GaussMarkov | BlockGaussMarkov],
    settings: newton.Settings,
    *,
    mode: str,
    reporter: Reporter,
) -> Learning:
    """Find the learnt numbers of a model.

    Args:
        model: A model with learnt numbers.
        observations: The series.
        start: Makes a starting family for the model with its numbers at their start.
        settings: Of the inner fits.
        mode: "maximise" for the most probable values, "integrate" for a posterior over them.
        reporter: Told about every fit of the climb.
    """
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
    summit = _climb(raw, start(template), problem, reporter)
    reporter.close()
    return _single(layout, summit) if mode == "maximise" else _integrated(layout, summit, problem)


@eqx.filter_jit
def _fit_at(raw, q, template, observations, layout, tolerance, limit) -> Fitted:
    model = with_values(template, layout.values(raw))

    def fit_path(pair):
        q, observations = pair
        state = newton.iterate(newton.begin(q, model, observations), model, observations, limit, tolerance)

        def expected(raw):
            model = with_values(template, layout.values(raw))
            blocks = isinstance(state.q, BlockGaussMarkov)
            return expected_log_joint(moments(state.q), model, observations, blocks=blocks)

        return state.elbo, jax.grad(expected)(raw), state.q

    if is_panel(q, template):
        elbos, slopes, q = jax.lax.map(fit_path, (q, observations), batch_size=min(len(q.mean), SIDE_BY_SIDE))
        elbo, slope = jnp.sum(elbos), jnp.sum(slopes, axis=0)
    else:
        elbo, slope, q = fit_path((q, observations))
    log_prior, prior_slope = jax.value_and_grad(layout.log_prior)(raw)
    return Fitted(elbo + log_prior, slope + prior_slope, elbo, q)


def is_panel(q: AbstractFamily, model: Model) -> bool:
    """Whether a family has a leading axis for the series of a panel."""
    return q.mean.ndim > 1 + len(model.prior.shape)


@eqx.filter_jit
def _fit_many(raws, q, template, observations, layout, tolerance, limit) -> Fitted:
    def one(raw):
        return _fit_at(raw, q, template, observations, layout, tolerance, limit)

    return jax.lax.map(one, raws, batch_size=min(_at_once(q), len(raws)))


class Summit(NamedTuple):
    """Where a climb ended.

    Attributes:
        raw: The mode, on the scale without bounds.
        best: The fit of the path there.
        covariance: Inverse of minus the Hessian there.
        climbs: Number of moves.
        reached: Whether it is a mode, rather than where the climb gave up.
    """

    raw: np.ndarray
    best: Fitted
    covariance: np.ndarray
    climbs: int
    reached: bool


def fit_points(
    model: Model,
    observations: Observations,
    numbers: dict[str, np.ndarray],
    q: AbstractFamily,
) -> GaussMarkov | BlockGaussMarkov:
    """Fit the path once for every point of the learnt numbers; returns the fits with a leading axis."""
    if not numbers:
        return jax.tree.map(lambda leaf: leaf[None], newton.refit(model, observations, q).q)
    return _fit_points(jax.tree.map(jnp.asarray, numbers), q, model, observations)


@eqx.filter_jit
def _fit_points(numbers, q, template, observations):
    def one(own):
        return newton.refit(with_values(template, own), observations, q).q

    num_points = len(next(iter(numbers.values())))
    return jax.lax.map(one, numbers, batch_size=min(_at_once(q), num_points))


def _at_once(q):
    """How many fits fit into memory at the same time."""
    return max(1, MOST_NUMBERS_AT_ONCE // (24 * q.mean.size))


def _climb(raw, q, problem, reporter) -> Summit:
    """Quasi-Newton ascent; every fit of the path starts from the one before.

    Where the moves become small, the true curvature decides whether this is the top or only a ridge that
    the gathered curvature knows too little of.
    """
    best = _fit_at(jnp.asarray(raw), q, *problem)
    _check_start(best)
    inverse = 0.1 * np.eye(len(raw)) / max(1.0, float(np.linalg.norm(best.gradient)))
    for climb in range(1, MOST_CLIMBS + 1):
        gradient = np.asarray(best.gradient)
        if climb > 2 and gradient @ inverse @ gradient < CLIMB_TOLERANCE:
            inverse = _covariance_at(raw, best, problem)
            if gradient @ inverse @ gradient < CLIMB_TOLERANCE:
                return Summit(raw, best, inverse, climb, reached=True)
        move = inverse @ gradient
        new, step = _backtrack(raw, move * min(1.0, LONGEST_MOVE / np.linalg.norm(move)), best, problem)
        reporter.update(climb, float(best.elbo), float(np.linalg.norm(gradient)))
        if new is None:
            return Summit(raw, best, _covariance_at(raw, best, problem), climb, reached=False)
        raw, inverse = raw + step, _updated(inverse, step, gradient - np.asarray(new.gradient), climb)
        best = new
    return Summit(raw, best, _covariance_at(raw, best, problem), MOST_CLIMBS, reached=False)


def _backtrack(raw, move, best, problem) -> tuple[Fitted | None, np.ndarray]:
    for halvings in range(12):
        step = move * 0.5**halvings
        new = _fit_at(jnp.asarray(raw + step), best.q, *problem)
        if float(new.value) >= float(best.value) + 1e-4 * float(np.asarray(best.gradient) @ step):
            return new, step
    return None, move


def _updated(inverse, step, fall, climb):
    """The BFGS update of the inverse curvature; `fall` is by how much the gradient fell."""
    curvature = step @ fall
    if curvature <= 1e-10 * np.linalg.norm(step) * np.linalg.norm(fall):
        return inverse
    if climb == 1:
        inverse = np.eye(len(step)) * curvature / (fall @ fall)
    left = np.eye(len(step)) - np.outer(step, fall) / curvature
    return left @ inverse @ left.T + np.outer(step, step) / curvature


def _integrated(layout, summit: Summit, problem) -> Learning:
    center, covariance = summit.raw, summit.covariance
    num_points = _num_points(len(center), summit.best.q.mean.size)
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
    q = _mixed(jnp.asarray(found.raws[main]), jnp.asarray(shares), summit.best.q, *problem)
    effective = f", {found.share:.0%} of {num_points} points effective"
    reached = summit.reached and found.share >= TOO_FEW
    return Learning(values, found.weights, _outcome(q, found.log_evidence, summit.climbs, reached, effective))


class Round(NamedTuple):
    """Weighted points of the learnt numbers.

    Attributes:
        raws: The points, on the scale without bounds.
        weights: Their weights, which sum to one.
        heights: Log posterior at each, up to a constant.
        distances: How far each is from the centre, in standard deviations of the narrower proposal.
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
    values, gaps = _heights(jnp.asarray(raws), best.q, *problem)
    log_bounds = np.nan_to_num(np.asarray(values) - log_density, nan=-np.inf)
    log_weights = np.nan_to_num(log_bounds + np.asarray(gaps), nan=-np.inf)
    weights = np.exp(log_weights - log_weights.max())
    weights = weights / weights.sum()
    share = float(1.0 / (num_points * np.sum(weights**2)))
    highest = log_bounds.max()
    log_evidence = float(highest + np.log(np.mean(np.exp(log_bounds - highest))))
    return Round(raws, weights, log_weights + log_density, distances, share, log_evidence)


@eqx.filter_jit
def _heights(raws, q, template, observations, layout, tolerance, limit):
    """The log posterior at each point, and what the ELBO in it falls short of the log evidence."""

    def one(raw):
        fitted = _fit_at(raw, q, template, observations, layout, tolerance, limit)
        return fitted.value, _gap(with_values(template, layout.values(raw)), fitted.q, observations)

    return jax.lax.map(one, raws, batch_size=min(_at_once(q), len(raws)))


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


def _covariance_at(raw, best, problem):
    """Inverse of minus the Hessian at the mode, from differences of the gradient; kept positive definite."""
    steps = DIFFERENCE * np.eye(len(raw))
    fits = _fit_many(jnp.asarray(np.concatenate([raw + steps, raw - steps])), best.q, *problem)
    up, down = np.split(np.asarray(fits.gradient), 2)
    hessian = (down - up) / (2 * DIFFERENCE)
    sizes, axes = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return axes @ np.diag(1.0 / np.clip(sizes, 0.1, None)) @ axes.T


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
    return center + white @ factor.T, np.logaddexp(narrow, other) + constant, np.sqrt(square)


@eqx.filter_jit
def _mixed(raws, weights, q, template, observations, layout, tolerance, limit):
    """The Gauss-Markov density with the moments of the weighted mixture of fits, one fit after the other."""
    each = jax.vmap if is_panel(q, template) else lambda function: function
    blocks = isinstance(q, BlockGaussMarkov)

    def add(total, row):
        raw, weight = row
        fitted = _fit_at(raw, q, template, observations, layout, tolerance, limit)
        # Around the mean of `q`, so that little is lost to rounding.
        found = each(moments)(fitted.q)
        found = each(lambda found: _with_products(found, 1.0, blocks))(
            found._replace(mean=found.mean - q.mean)
        )
        return jax.tree.map(lambda sum, part: sum + weight * part, total, found), None

    zero = jax.tree.map(jnp.zeros_like, each(moments)(q))
    total, _ = jax.lax.scan(add, zero, (raws, weights))
    mixed = each(lambda total: _with_products(total, -1.0, blocks))(total)
    return each(type(q).from_moments)(q.mean + mixed.mean, mixed.within, mixed.between)


def _with_products(found, sign, blocks):
    """Moments, with the products of their means added to the covariances or taken away."""
    mean = found.mean
    if blocks:
        flat = mean.reshape(len(mean), -1)
        within, between = flat[:, :, None] * flat[:, None, :], flat[:-1, :, None] * flat[1:, None, :]
    else:
        within, between = mean * mean, mean[:-1] * mean[1:]
    return Moments(mean, found.within + sign * within, found.between + sign * between)


def _single(layout, summit: Summit) -> Learning:
    values = {name: np.asarray(v)[None] for name, v in layout.values(jnp.asarray(summit.raw)).items()}
    outcome = _outcome(summit.best.q, float(summit.best.elbo), summit.climbs, summit.reached, "")
    return Learning(values, np.ones(1), outcome)


def _outcome(q, elbo, climbs, reached, effective: str) -> Outcome:
    ending = "converged" if reached else "not converged"
    message = f"{ending} after {climbs} moves of the learnt numbers{effective}"
    return Outcome(q, elbo, 0.0, converged=reached, iterations=climbs, message=message)


def _check_start(fitted: Fitted) -> None:
    if not np.isfinite(float(fitted.value)) or not np.isfinite(np.asarray(fitted.gradient)).all():
        raise ValueError(
            f"the log posterior of the learnt numbers is {float(fitted.value)} with gradient "
            f"{np.asarray(fitted.gradient)} where they start; start them elsewhere"
        )
