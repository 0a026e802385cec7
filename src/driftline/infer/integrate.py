"""Learnt numbers: their most probable values, or a posterior over them with the path averaged over it.

Everything happens on a scale without bounds. The optimised ELBO stands in for the log evidence. A
quasi-Newton climb finds the mode; a grid around it, or quasi-random points for more than two numbers, then
cover skew and tails, in the spirit of nested Laplace approximations (Rue et al. 2009). See `docs/maths.md`,
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
from driftline.infer import marginals, newton, particles, points, threads
from driftline.infer.climb import Summits, climb
from driftline.infer.expectation import Moments, moments
from driftline.infer.first_guess import first_guess
from driftline.infer.given_numbers import SIDE_BY_SIDE, at_once, fit_apart, fit_at, fit_together, is_panel
from driftline.infer.layout import Layout
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.infer.tilted import is_tilted, tilted
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import learnt, with_values
from driftline.models.priors import AbstractGaussianPrior

POINTS_PER_NUMBER, MOST_POINTS = 48, 1024
POINTS_BUDGET = 200_000  # points times length, as long as it lies between the two above
FEW_AT_A_TIME, MANY_AT_A_TIME = 16, 64  # points that are fitted in one call
ON_A_GRID = 2  # numbers up to which a grid covers them
DRAWS_FOR_GAP, DRAWS_AT_ONCE = 128, 8
MOST_ROUNDS = 6
ENOUGH = 0.4  # effective share of points at which the rounds end
MISSED = np.log(3.0)  # by which the weight of a point of a tail may exceed that of all points
MOST_GAP = 5.0  # nats that the gap of a point may exceed that of the favoured points by
UNSETTLED = 0.01  # nats: rise of the last step of a fit that was not at its end
PARTICLES = 512  # of a filter
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
    raw, q = _better_start(raw, model, start, problem)
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
    raw = _raw(numbers, {place: number.start for place, number in numbers.items()})
    template = with_values(model, {place: number.start for place, number in numbers.items()})
    problem = (
        template,
        observations,
        layout,
        jnp.asarray(settings.tolerance),
        jnp.asarray(settings.max_iterations),
    )
    return layout, raw, problem


def _better_start(raw, model, start, problem):
    """Where the numbers start, or where a look at the series would have them, if that is more probable."""
    template, observations = problem[:2]
    q = jax.tree.map(lambda leaf: leaf[None], start(template))
    numbers = learnt(model)
    guess = first_guess(template, observations, numbers)
    other = _raw(numbers, guess)
    if is_panel(jax.tree.map(lambda leaf: leaf[0], q), template) or np.array_equal(other, raw):
        return raw, q
    try:
        other_q = jax.tree.map(lambda leaf: leaf[None], start(with_values(template, guess)))
    except ValueError:  # no path can start there
        return raw, q
    here, there = (fit_together(at[None], own, problem) for at, own in ((raw, q), (other, other_q)))
    better = float(there.value[0]) > float(here.value[0]) or not np.isfinite(here.value[0])
    return (other, other_q) if better and np.isfinite(there.gradient).all() else (raw, q)


def _raw(numbers, values):
    return np.concatenate([np.ravel(n.support.to_raw(values[place])) for place, n in numbers.items()])


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
    found = _covered(layout, summit, problem, num_points)
    batched = jax.vmap(layout.values)(jnp.asarray(found.raws))
    values = {place: np.asarray(batched[place]) for place in layout.places}
    main = np.argsort(-found.weights)[: _num_main(found.weights)]
    shares = found.weights[main] / found.weights[main].sum()
    q, quantiles = _mixed(found.raws[main], shares, summit.best.q, problem)
    reached = summit.reached and found.covered
    ending = "converged" if reached else "not converged"
    outcome = _outcome(q, found.log_evidence, summit.climbs, ending, f", {found.how}")
    return Learning(values, found.weights, dataclasses.replace(outcome, quantiles=np.asarray(quantiles)))


class Round(NamedTuple):
    """Weighted points of the learnt numbers.

    Attributes:
        raws: The points, on the scale without bounds.
        weights: Their weights, which sum to one.
        log_ratios: Log of posterior over the density of the points.
        heights: Log posterior.
        share: Effective share of the points.
        log_evidence: Logarithm of the integral of the optimised ELBO's exponential: a lower bound.
        covered: Whether they cover the posterior with its tails.
        how: What they are, in words.
    """

    raws: np.ndarray
    weights: np.ndarray
    log_ratios: np.ndarray
    heights: np.ndarray
    share: float
    log_evidence: float
    covered: bool
    how: str


def _covered(layout, summit: Summits, problem, num_points) -> Round:
    """Points that cover the posterior: a grid for one or two numbers, else drawn in rounds."""

    def heights(raws):
        return _known_heights(raws, summit.best.q, problem)

    frame = points.Frame.of(summit.raws, summit.covariances)
    bounds, gaps = heights(frame.center[None])
    usual_gap = float(gaps[0])

    def log_posterior(raws):
        bounds, gaps = heights(raws)
        return bounds + np.minimum(gaps, usual_gap + MOST_GAP) if not is_tilted(problem[0]) else bounds + gaps

    reach = points.reach(frame, float(bounds[0] + gaps[0]), log_posterior)
    _check_ends(layout, frame, reach, problem)
    if len(frame.center) <= ON_A_GRID:
        return _on_a_grid(frame, reach, heights, problem)
    return _in_rounds(frame, reach, heights, problem, num_points)


def _on_a_grid(frame, reach: points.Reach, heights, problem) -> Round:
    ends, unit = reach.end.copy(), np.minimum(1.0, reach.width.min(axis=0))
    lengths = np.linalg.norm(frame.axes, axis=0)
    while True:
        laid = points.grid(ends, unit)
        found = _weighed(frame, laid, heights, problem)
        at_ends = np.einsum("skp,p->sk", laid.outermost, found.weights)
        too_much = at_ends > points.EDGE
        too_much &= ends * lengths < points.FARTHEST
        if not too_much.any():
            break
        ends = np.where(too_much, 2.0 * ends, ends)
    how = f"on a grid of {len(found.raws)} points"
    return found._replace(covered=bool(at_ends.max() <= points.EDGE), how=how)


def _in_rounds(frame, reach: points.Reach, heights, problem, num_points) -> Round:
    """Points drawn around the centre, and anew around those that were found, until they cover it."""
    width, rounds = reach.width, 0
    while True:
        rounds += 1
        found = _weighed(frame, points.drawn(num_points, width), heights, problem)
        # Tails that no point has met are known from the search along the axes.
        tails = reach.heights - points.log_density(reach.seen, width) + frame.log_volume
        missed = bool(tails.max() > found.log_ratios.max() + MISSED)
        if rounds == MOST_ROUNDS or (found.share >= ENOUGH and not missed):
            break
        if missed and found.share >= ENOUGH:
            width = _widened(width, reach.seen[int(np.argmax(tails))])
        else:
            frame, width = _recentred(found)
            reach = _seen_again(frame, reach, found)
    how = f"{found.share:.0%} of {num_points} points effective" + (", a tail missed" if missed else "")
    return found._replace(covered=found.share >= TOO_FEW and not missed, how=how)


def _widened(width, tail):
    """More width to the side of an axis on which a tail lies."""
    axis = int(np.argmax(np.abs(tail)))
    wider = width.copy()
    wider[int(tail[axis] > 0), axis] *= 1.5
    return wider


def _recentred(found: Round):
    """Axes of the points that were found, and the widths to either side of them."""
    center = found.weights @ found.raws
    apart = found.raws - center
    frame = points.Frame.of(center, apart.T @ (found.weights[:, None] * apart) + 1e-10 * np.eye(len(center)))
    along = np.linalg.solve(frame.axes, apart.T).T
    width = np.ones((2, len(center)))
    for side, mask in enumerate((along < 0, along >= 0)):
        many = np.maximum((found.weights[:, None] * mask).sum(axis=0), 1e-12)
        width[side] = np.sqrt((found.weights[:, None] * mask * along**2).sum(axis=0) / many)
    return frame, np.clip(width, 0.3, 3.0)


def _seen_again(frame, reach: points.Reach, found: Round):
    """The points of a round that weigh most, in the place of those of the search along the old axes."""
    heavy = np.argsort(-found.weights)[:FEW_AT_A_TIME]
    seen = np.linalg.solve(frame.axes, (found.raws[heavy] - frame.center).T).T
    return reach._replace(seen=seen, heights=found.heights[heavy])


def _weighed(frame, laid: points.Points, heights, problem) -> Round:
    raws = frame.place(laid.apart)
    bounds, gaps = heights(raws)
    if not np.isfinite(bounds).any():
        raise ValueError(
            f"none of {len(raws)} fits of the path around the most probable learnt numbers has a finite "
            "ELBO; give the numbers narrower priors, dl.learn(..., prior=...), or take parameters='maximise'"
        )
    log_density = laid.log_density - frame.log_volume
    log_bounds = bounds - log_density
    log_ratios = log_bounds + (gaps if is_tilted(problem[0]) else _credible(gaps, log_bounds))
    weights = _normalised(log_ratios)
    highest = log_bounds.max()
    return Round(
        raws,
        weights,
        log_ratios,
        heights=log_ratios + log_density,
        share=float(1.0 / (len(raws) * np.sum(weights**2))),
        log_evidence=float(highest + np.log(np.mean(np.exp(log_bounds - highest)))),
        covered=True,
        how="",
    )


def _check_ends(layout, frame: points.Frame, reach: points.Reach, problem):
    """Refuse numbers whose posterior does not fall off, however far one goes."""
    endless = np.isinf(reach.end)
    if not endless.any():
        return
    side, axis = (int(place[0]) for place in np.nonzero(endless))
    far = reach.seen[np.sign(reach.seen[:, axis]) == (-1.0, 1.0)[side]]
    end = frame.place(far[np.argmax(np.abs(far[:, axis]))][None])[0]
    moved = layout.split(jnp.asarray(np.abs(end - frame.center)))
    place = max(moved, key=lambda place: float(jnp.max(moved[place])))
    value = np.asarray(layout.values(jnp.asarray(end))[place])
    raise ValueError(
        f"the data do not hold {place}: {np.array2string(value, precision=3)} is about as probable as "
        f"anything, so that its posterior has no end and the model is improper{_cause(problem)}; give it a "
        "prior, dl.learn(..., prior=...), or a fixed value"
    )


def _cause(problem):
    """Why a series does not hold a number, if that is plain to see."""
    template, observations = problem[0], problem[1]
    values = np.asarray(observations.values)[np.asarray(observations.observed)]
    name = type(template.likelihood).__name__
    if name == "LogVolatility" and (values == 0).any():
        many = int((values == 0).sum())
        return f" ({many} of the returns are exactly zero, where a volatility has no lower end)"
    if (
        name in ("Poisson", "NegativeBinomial", "Bernoulli", "Binomial", "Categorical")
        and (values == 0).all()
    ):
        return " (there is no event in the series: every observation is zero)"
    if name == "Bernoulli" and (values == 1).all():
        return " (every observation is one)"
    return ""


def _num_main(weights):
    """How many of the heaviest points carry nearly all of the weight, up to a power of two."""
    count = 1 + int(np.searchsorted(np.cumsum(np.sort(weights)[::-1]), 0.9999))
    return min(len(weights), 1 << (count - 1).bit_length())


def _num_points(num_learnt, size):
    return int(np.clip(POINTS_BUDGET // size, POINTS_PER_NUMBER * num_learnt, MOST_POINTS))


def _credible(gaps, log_bounds):
    """Gaps, cut off where they are far above those of the points that the ELBO favours.

    Where the path's posterior has several tops, as under a Student-t of tiny scale, the log weight has a
    long lower tail, and half of its variance can be hundreds of nats that are not there.
    """
    return np.minimum(gaps, _normalised(log_bounds) @ gaps + MOST_GAP)


def _normalised(log_weights):
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _known_heights(raws, q, problem):
    """Log posteriors by the ELBO, minus infinity where there is none, and what these fall short of.

    Where the fit of the path did not come to its end, as under a likelihood without an upper end, neither is
    to be trusted; a filter that knows nothing of the fit then has the evidence.
    """
    values, elbos, gaps, rises = _heights(raws, q, problem)
    usable = np.isfinite(values) & np.isfinite(gaps)
    lost = ~usable | (rises > UNSETTLED)
    if lost.any() and isinstance(problem[0].prior, AbstractGaussianPrior) and not is_panel(q, problem[0]):
        log_priors, log_evidences = _by_filters(raws[lost], q, problem)
        elbo = np.where(np.isfinite(elbos[lost]), elbos[lost], log_evidences)
        values[lost], gaps[lost] = elbo + log_priors, np.maximum(log_evidences - elbo, 0.0)
        usable = np.isfinite(values) & np.isfinite(gaps)
    return np.where(usable, values, -np.inf), np.where(usable, gaps, 0.0)


def _in_parts(function, raws, q, problem):
    """A compiled function of points, always of as many of them."""
    size = int(np.clip(at_once(q), FEW_AT_A_TIME, MANY_AT_A_TIME))
    count = len(raws)
    raws = np.concatenate([raws, np.repeat(raws[-1:], max(0, size - count), axis=0)])

    def some(part):
        found = function(jnp.asarray(raws[part.rows]), q, *problem)
        return [np.asarray(array)[part.known :] for array in found]

    found = threads.share_out(some, threads.parts(len(raws), size))
    return [np.concatenate(arrays)[:count] for arrays in zip(*found, strict=True)]


def _heights(raws, q, problem):
    """At each point the log posterior by the ELBO, the ELBO, its gap, and the fit's last rise."""
    return _in_parts(_some_heights, raws, q, problem)


@eqx.filter_jit
def _some_heights(raws, q, template, observations, layout, tolerance, limit):
    def one(raw):
        fitted = fit_at(raw, q, template, observations, layout, tolerance, limit)
        gap = _gap(with_values(template, layout.values(raw)), fitted.q, observations)
        return fitted.value, fitted.elbo, gap, fitted.rise

    return jax.lax.map(one, raws, batch_size=min(at_once(q), len(raws)))


def _by_filters(raws, q, problem):
    return _in_parts(_some_by_filters, raws, q, problem)


@eqx.filter_jit
def _some_by_filters(raws, q, template, observations, layout, tolerance, limit):
    """Log prior of the numbers, and the log evidence by a filter that draws paths from their prior."""

    def one(raw):
        model = with_values(template, layout.values(raw))
        prior = GaussMarkov.from_precision(
            model.prior.mean_path(observations.gaps), *model.prior.precision(observations.gaps)
        )
        guide = particles.Guide(prior, model, observations)
        found = particles.run(guide, jr.key(0), num_particles=PARTICLES, window=guide.num_steps)
        return layout.log_prior(raw), found.log_evidence

    return jax.lax.map(one, raws)


def _gap(model, q, observations):
    r"""Second-order estimate of the gap between ELBO and log evidence.

    For $w = \log p(x, z) - \log q(z)$ under q the log evidence is $E[w] + \frac12 \mathrm{Var}[w]$ up to
    third cumulants (eq. 27). The same noise serves all points, so that the estimates differ by what matters.
    Where every element has a likelihood of its own, the gaps of each are summed instead (`tilted`).
    """
    if is_panel(q, model):
        series = jax.lax.map(lambda pair: _gap(model, *pair), (q, observations), batch_size=SIDE_BY_SIDE)
        return jnp.sum(series)
    if is_tilted(model):
        found, blocks = moments(q), isinstance(q, BlockGaussMarkov)
        sd = _sd(found, blocks)
        return jnp.sum(tilted(model, observations, q.mean, sd**2, q.mean, sd).gap)
    half = jr.normal(jr.key(0), (DRAWS_FOR_GAP // 2, *q.mean.shape), q.mean.dtype)

    def log_weight(noise):
        path = q.mean + q.unwhiten(noise)
        return model.log_joint(path, observations) - q.log_prob_of_noise(noise)

    return 0.5 * jnp.var(jax.lax.map(log_weight, jnp.concatenate([half, -half]), batch_size=DRAWS_AT_ONCE))


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
        tails = _tails(with_values(template, layout.values(raw)), observations, found, q, unit)
        found = each(lambda found: _with_products(found, 1.0, blocks))(found)
        parts = jax.tree.map(lambda part: weight.astype(part.dtype) * part, (found, tails))
        return jax.tree.map(jnp.add, total, parts), None

    zero = jax.tree.map(jnp.zeros_like, start), marginals.no_tails(unit)
    return jax.lax.scan(add, zero, (raws, weights))[0]


def _tails(model, observations, found, q, unit):
    """How much of every marginal lies beyond the points of a grid around the mean of `q`."""
    sd = _sd(found, isinstance(q, BlockGaussMarkov))
    if not is_tilted(model):
        return marginals.tails(found.mean, sd, unit)

    def one(observations, mean, sd, middle, unit):
        return tilted(model, observations, mean, sd**2, middle, unit).tails

    if is_panel(q, model):
        one = jax.vmap(one, out_axes=1)
    return one(observations, q.mean + found.mean, sd, q.mean, unit)


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
