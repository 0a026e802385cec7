"""How probable points of the learnt numbers are: by the ELBO of the path's fit, and by the evidence."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from driftline.families import AbstractBanded, GaussMarkov
from driftline.infer import threads
from driftline.infer.learning.fits_at_numbers import at_once, fit_at
from driftline.infer.learning.problem import LearningProblem
from driftline.infer.sampling import particles
from driftline.infer.skewed_marginals import is_tilted, tilted
from driftline.models.model import Model
from driftline.models.observations import Observations

FEW_AT_A_TIME, MANY_AT_A_TIME = 16, 64  # points that are fitted in one call
DRAWS_FOR_GAP, DRAWS_AT_ONCE = 128, 8
UNSETTLED = 0.01  # nats: rise of the last step of a fit that was not at its end
TOO_FAR = 2.0  # nats: gap of a single element whose likelihood its Gaussian factor is no match for
PARTICLES = 512  # of a filter


def known_heights(
    raws: np.ndarray, q: AbstractBanded, problem: LearningProblem
) -> tuple[np.ndarray, np.ndarray]:
    """Log posteriors by the ELBO, minus infinity where there is none, and what these fall short of.

    Where the fit of the path did not come to its end, as under a likelihood without an upper end, neither is
    to be trusted; a filter that knows nothing of the fit then has the evidence.
    """
    values, elbos, gaps, largest, rises = _heights(raws, q, problem)
    usable = np.isfinite(values) & np.isfinite(gaps)
    lost = ~usable | (rises > UNSETTLED) | (largest > TOO_FAR)
    if lost.any() and problem.template.prior.is_gaussian:
        log_priors, log_evidences = _by_filters(raws[lost], q, problem)
        elbo = np.where(np.isfinite(elbos[lost]), elbos[lost], log_evidences)
        values[lost], gaps[lost] = elbo + log_priors, np.maximum(log_evidences - elbo, 0.0)
        usable = np.isfinite(values) & np.isfinite(gaps)
    else:
        gaps = np.where(lost, 0.0, gaps)  # at least a lower bound
    return np.where(usable, values, -np.inf), np.where(usable, gaps, 0.0)


def _in_parts(
    function: Callable, raws: np.ndarray, q: AbstractBanded, problem: LearningProblem
) -> list[np.ndarray]:
    """A compiled function of points, always of as many of them."""
    size = int(np.clip(at_once(q), FEW_AT_A_TIME, MANY_AT_A_TIME))
    count = len(raws)
    raws = np.concatenate([raws, np.repeat(raws[-1:], max(0, size - count), axis=0)])

    def some(part):
        found = function(jnp.asarray(raws[part.rows]), q, problem)
        return [np.asarray(array)[part.known :] for array in found]

    found = threads.share_out(some, threads.parts(len(raws), size))
    return [np.concatenate(arrays)[:count] for arrays in zip(*found, strict=True)]


def _heights(raws: np.ndarray, q: AbstractBanded, problem: LearningProblem) -> list[np.ndarray]:
    """At each point: log posterior by the ELBO, ELBO, its gap, that of the worst element, the last rise."""
    return _in_parts(_some_heights, raws, q, problem)


@eqx.filter_jit
def _some_heights(
    raws: Float[Array, " P K"], q: AbstractBanded, problem: LearningProblem
) -> tuple[Array, ...]:
    gap_at = _gap_of_all if problem.is_panel else _gap

    def one(raw):
        fitted = fit_at(raw, q, problem)
        gap, largest = gap_at(problem.model_at(raw), fitted.q, problem.observations)
        return fitted.value, fitted.elbo, gap, largest, fitted.rise

    return jax.lax.map(one, raws, batch_size=min(at_once(q), len(raws)))


def _by_filters(raws: np.ndarray, q: AbstractBanded, problem: LearningProblem) -> list[np.ndarray]:
    return _in_parts(_some_by_filters, raws, q, problem)


@eqx.filter_jit
def _some_by_filters(
    raws: Float[Array, " P K"], q: AbstractBanded, problem: LearningProblem
) -> tuple[Array, Array]:
    """Log prior of the numbers, and the log evidence by a filter that draws paths from their prior."""

    def log_evidence(model, observations):
        prior = GaussMarkov.from_precision(
            model.prior.mean_path(observations.gaps), *model.prior.precision(observations.gaps)
        )
        guide = particles.Guide(prior, model, observations)
        return particles.run(guide, jr.key(0), num_particles=PARTICLES, window=guide.num_steps).log_evidence

    def one(raw):
        model, observations = problem.model_at(raw), problem.observations
        log_prior = problem.layout.log_prior(raw)
        if problem.is_panel:
            each = jax.lax.map(lambda series: log_evidence(model, series), observations)
            return log_prior, jnp.sum(each)
        return log_prior, log_evidence(model, observations)

    return jax.lax.map(one, raws)


def _gap_of_all(model: Model, q: AbstractBanded, observations: Observations) -> tuple[Array, Array]:
    """The gap of all series of a panel together, and the largest of a single element."""
    gaps, largest = jax.lax.map(
        lambda pair: _gap(model, *pair), (q, observations), batch_size=threads.SIDE_BY_SIDE
    )
    return jnp.sum(gaps), jnp.max(largest)


def _gap(model: Model, q: AbstractBanded, observations: Observations) -> tuple[Array, Array]:
    r"""Second-order estimate of the gap between ELBO and log evidence.

    For $w = \log p(x, z) - \log q(z)$ under q the log evidence is $E[w] + \frac12 \mathrm{Var}[w]$ up to
    third cumulants (eq. 27). The same noise serves all points, so that the estimates differ by what matters.
    Where every element has a likelihood of its own, the gaps of each are summed instead (`tilted`), and the
    largest of them is the second result.
    """
    if is_tilted(model):
        sd = q.moments().standard_deviations()
        gaps = tilted(model, observations, q.mean, sd**2, q.mean, sd).gap
        return jnp.sum(gaps), jnp.max(gaps)
    half = jr.normal(jr.key(0), (DRAWS_FOR_GAP // 2, *q.mean.shape), q.mean.dtype)

    def log_weight(noise):
        path = q.mean + q.unwhiten(noise)
        return model.log_joint(path, observations) - q.log_prob_of_noise(noise)

    draws = jax.lax.map(log_weight, jnp.concatenate([half, -half]), batch_size=DRAWS_AT_ONCE)
    return 0.5 * jnp.var(draws), jnp.zeros((), draws.dtype)
