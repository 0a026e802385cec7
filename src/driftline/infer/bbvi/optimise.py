"""Structured black box variational inference: the paper's gradient, Adam, and a stopping rule for noise.

Steps are taken at a constant rate until averages over growing windows of steps agree with each other; then
the rate falls, the demand rises, and the next stage starts from the average. The fit has converged when the
averages agree to the tolerance, within a stage and between the last two. Agreement is measured as the
Kullback-Leibler divergence between two averages per latent number, which is exact and O(T), and does not
care how noisy the ELBO itself is.
"""

import dataclasses
import math
from typing import NamedTuple, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Key

from driftline.families import AbstractFamily
from driftline.infer.bbvi import adam
from driftline.infer.bbvi.gradient import estimate
from driftline.infer.bbvi.noise import standard_normal
from driftline.infer.failures import DivergenceError
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.linalg import bidiagonal, tridiagonal
from driftline.models.model import Model
from driftline.models.observations import Observations

STEPS_PER_BLOCK = 50
STEPS_PER_STRIDE = 5
DROP = 0.3  # of the rate and of the goal, from one stage to the next
FIRST_GOAL = 30.0  # goal of the first stage, in tolerances
STAGES_AGREE = 4.0  # how far apart the averages of the last two stages may be, in tolerances
MOST_STAGES = 12
DRAWS_FOR_ELBO = 64


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of `method="bbvi"` and `method="mean-field"`.

    Attributes:
        samples: Draws per step, the paper's S.
        max_iterations: Steps after which the fit stops, converged or not; rounded up to whole blocks of 50.
        tolerance: Divergence between averages, in nats per latent number, below which they agree. The
            means are then right to about sqrt(tolerance) posterior standard deviations, on average over
            the path.
        learning_rate: Adam's first rate, in units of the posterior's standard deviation.
        estimator: "analytic" entropy, as the paper, or "sticking-the-landing", whose noise vanishes where the
            family can match the posterior; where it cannot, as with "mean-field", it is the noisier one.
        basis: Coordinates in which the means move: "standard", or "prior" for the prior's natural basis.
    """

    samples: int = 8
    max_iterations: int = 50_000
    tolerance: float = 1e-4
    learning_rate: float = 0.05
    estimator: str = "analytic"
    basis: str = "standard"

    def __post_init__(self):
        for name in ("samples", "max_iterations"):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
        for name in ("tolerance", "learning_rate"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number greater than zero, got {value!r}")
        if self.estimator not in ("analytic", "sticking-the-landing"):
            raise ValueError(
                f"estimator must be 'analytic' or 'sticking-the-landing', got {self.estimator!r}"
            )
        if self.basis not in ("standard", "prior"):
            raise ValueError(f"basis must be 'standard' or 'prior', got {self.basis!r}")


class StandardBasis(eqx.Module):
    """The means themselves, in units of the standard deviations that q had when the stage began."""

    scale: Float[Array, " T *shape"]

    def of_gradient(self, gradient: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """A gradient with respect to the means, in this basis."""
        return self.scale * gradient

    def to_step(self, step: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """A step in this basis, as a step of the means."""
        return self.scale * step


class PriorBasis(eqx.Module):
    r"""The companion paper's natural basis: $\mu = A\rho$ with $A A^\top$ the prior's covariance."""

    diag: Float[Array, " T *shape"]
    upper: Float[Array, " T-1 *shape"]

    def of_gradient(self, gradient: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """A gradient with respect to the means, in this basis."""
        return bidiagonal.solve_transposed(self.diag, self.upper, gradient)

    def to_step(self, step: Float[Array, " T *shape"]) -> Float[Array, " T *shape"]:
        """A step in this basis, as a step of the means."""
        return bidiagonal.solve(self.diag, self.upper, step)


class State(NamedTuple):
    """What the next step needs."""

    q: AbstractFamily
    moments: adam.Moments


class Block(NamedTuple):
    """What a block of steps reports; nothing here is needed by the next one.

    Everything is looked at once per stride. The norm is that of Adam's running average of the gradient of
    the means.
    """

    mean_q: AbstractFamily
    elbo: Float[Array, " strides"]
    gradient_norm: Float[Array, " strides"]


def maximise(
    model: Model,
    observations: Observations,
    q: AbstractFamily,
    settings: Settings,
    *,
    seed: int,
    reporter: Reporter,
) -> Outcome:
    """Maximise the ELBO over the family of `q`, starting from `q`."""
    key_steps, key_elbo = jr.split(jr.key(seed))
    run = _Run(model, observations, settings, key_steps, reporter)
    start = q
    try:
        q, converged, message = _stages(run, q)
    except KeyboardInterrupt:
        if not run.iteration:  # the start is not a fit
            raise
        q, converged, message = run.best(q, key_elbo), False, f"interrupted after {run.iteration} steps"
    reporter.close()
    elbo, error = map(float, _final_elbo(model, observations, q, key_elbo))
    _check_outcome(run, elbo, error, *map(float, _final_elbo(model, observations, start, key_elbo)))
    return Outcome(
        q, elbo, error, converged=converged, iterations=run.iteration,
        message=message, history=run.history(),
    )  # fmt: skip


class _Run:
    """The state of one fit: where it is, what it has seen, and the averages it would return now."""

    def __init__(self, model, observations, settings, key, reporter):
        self.model, self.observations, self.settings = model, observations, settings
        self.key, self.reporter = key, reporter
        self.iteration = 0
        self.average: AbstractFamily | None = None
        self.latest: AbstractFamily | None = None
        self._blocks: list[Block] = []
        self._rates: list[float] = []

    def advance(self, state: State, basis, rate: float) -> tuple[State, AbstractFamily]:
        """Take one block of steps; returns the new state and the average of q over the block."""
        new, block = _take_steps(
            state, basis, self.model, self.observations, self.key,
            jnp.asarray(self.iteration), jnp.asarray(rate),
            self.settings.samples, self.settings.estimator, STEPS_PER_BLOCK,
        )  # fmt: skip
        elbo = np.asarray(block.elbo)
        if not np.isfinite(elbo).all() or not np.isfinite(block.gradient_norm[-1]):
            _explain_divergence(self, state, basis, rate)
        self.iteration += STEPS_PER_BLOCK
        self._blocks.append(block._replace(mean_q=None))
        self._rates.append(rate)
        self.latest = block.mean_q
        self.reporter.update(self.iteration, elbo.mean(), float(block.gradient_norm[-1]))
        return new, block.mean_q

    @property
    def exhausted(self) -> bool:
        return self.iteration >= self.settings.max_iterations

    def best(self, q: AbstractFamily, key: Key[Array, ""]) -> AbstractFamily:
        """What to return when the fit stops early: the start, the latest block or the average."""
        candidates = [q, self.latest, self.average]
        known = [candidate for candidate in candidates if candidate is not None]
        return max(known, key=lambda q: float(_final_elbo(self.model, self.observations, q, key)[0]))

    def history(self) -> dict[str, np.ndarray]:
        if not self._blocks:
            return {name: np.zeros(0) for name in ("elbo", "gradient_norm", "rate")}

        def each_step(name):
            return np.repeat([getattr(block, name) for block in self._blocks], STEPS_PER_STRIDE)

        return {
            "elbo": each_step("elbo"),
            "gradient_norm": each_step("gradient_norm"),
            "rate": np.repeat(self._rates, STEPS_PER_BLOCK),
        }


def _stages(run: _Run, q: AbstractFamily) -> tuple[AbstractFamily, bool, str]:
    tolerance, rate = run.settings.tolerance, run.settings.learning_rate
    # Early stages only have to come near: their rate, and with it their bias, is too high for more.
    goal = FIRST_GOAL * tolerance
    previous = None
    for _ in range(MOST_STAGES):
        q, settled = _stage(run, q, rate, goal)
        if not settled:
            break
        if goal == tolerance and _divergence(q, previous) <= STAGES_AGREE * tolerance:
            return q, True, f"converged after {run.iteration} steps"
        if run.exhausted:
            break
        previous, rate, goal = q, rate * DROP, max(goal * DROP, tolerance)
    return q, False, f"not converged after {run.iteration} steps; raise max_iterations or tolerance"


def _stage(run: _Run, q: AbstractFamily, rate: float, goal: float) -> tuple[AbstractFamily, bool]:
    """Step at a constant rate until the averages over two neighbouring windows agree."""
    basis = _basis(run.model, run.observations, q, run.settings.basis)
    # Adam starts afresh: what it remembers of larger gradients would hold back the smaller ones of now.
    state = State(q, adam.begin(q))
    state, before = _window(run, state, basis, rate, 1)
    length = 2
    while not run.exhausted:
        state, window = _window(run, state, basis, rate, length)
        run.average = average = _mix(before, window, jnp.asarray(0.6))
        if _divergence(window, before) <= goal:
            return average, True
        before, length = window, length + (length + 1) // 2
    return run.best(state.q, run.key), False


def _window(run: _Run, state: State, basis, rate: float, num_blocks: int) -> tuple[State, AbstractFamily]:
    """Take several blocks of steps; returns the new state and the average of q over them."""
    state, average = run.advance(state, basis, rate)
    for count in range(2, num_blocks + 1):
        if run.exhausted:
            break
        state, mean_q = run.advance(state, basis, rate)
        average = _mix(average, mean_q, jnp.asarray(1 / count))
    return state, average


def _basis(model, observations, q, name):
    if name == "standard":
        return StandardBasis(_standard_deviations(q))
    if not model.prior.is_gaussian:
        raise ValueError(
            f"basis='prior' needs a Gaussian prior, not {type(model.prior).__name__}; use basis='standard'"
        )
    return PriorBasis(*_prior_factor(model.prior, observations.gaps))


@eqx.filter_jit
def _take_steps(state, basis, model, observations, key, iteration, rate, samples, estimator, num_steps):
    def step(state, inputs):
        key, is_last = inputs
        elbo, gradient = _gradient(state.q, model, observations, key, samples, estimator, with_elbo=is_last)
        gradient = eqx.tree_at(lambda g: g.mean, gradient, basis.of_gradient(gradient.mean))
        updates, moments = adam.direction(gradient, state.moments)
        updates = jax.tree.map(lambda leaf: rate * leaf, updates)
        updates = eqx.tree_at(lambda u: u.mean, updates, basis.to_step(updates.mean))
        return State(state.q.moved(updates), moments), elbo

    def stride(carry, keys):
        state, total = carry
        state, elbos = jax.lax.scan(step, state, (keys, jnp.arange(len(keys)) == len(keys) - 1))
        norm = jnp.sqrt(jnp.mean(state.moments.first.mean**2))
        return (state, jax.tree.map(jnp.add, total, state.q)), (elbos[-1], norm)

    # Neighbouring iterates are nearly the same: a look at every few of them is as good, and cheaper.
    num_strides = max(1, num_steps // STEPS_PER_STRIDE)
    zero = jax.tree.map(jnp.zeros_like, state.q)
    keys = jax.vmap(lambda i: jr.fold_in(key, i))(iteration + jnp.arange(num_steps))
    (state, total), (elbos, norms) = jax.lax.scan(stride, (state, zero), keys.reshape(num_strides, -1))
    mean_q = jax.tree.map(lambda leaf: leaf / num_strides, total)
    return state, Block(mean_q, elbos, norms)


def _noise(q, key: Key[Array, ""], samples):
    num_steps, *shape = q.mean.shape
    return standard_normal(key, (num_steps, samples, *shape), q.mean.dtype)


def _gradient(q, model, observations, key: Key[Array, ""], samples, estimator, *, with_elbo):
    noise = _noise(q, key, samples)
    return estimate(
        q,
        lambda path: model.log_joint(path, observations),
        noise,
        sticking_the_landing=estimator == "sticking-the-landing",
        with_elbo=with_elbo,
    )


@eqx.filter_jit
def _final_elbo(model, observations, q, key):
    def one(key):
        path, noise = q.sample(key)
        return model.log_joint(path, observations) - q.log_prob_of_noise(noise)

    elbos = jax.lax.map(one, jr.split(key, DRAWS_FOR_ELBO))
    return jnp.mean(elbos), jnp.std(elbos, ddof=1) / jnp.sqrt(1.0 * DRAWS_FOR_ELBO)


@eqx.filter_jit
def _divergence(q, other):
    return q.divergence(other) / q.mean.size


@eqx.filter_jit
def _mix(first, second, weight):
    return jax.tree.map(lambda a, b: a + weight * (b - a), first, second)


@eqx.filter_jit
def _standard_deviations(q):
    return jnp.sqrt(q.variances())


@eqx.filter_jit
def _prior_factor(prior, gaps):
    return tridiagonal.cholesky(*prior.precision(gaps))


@eqx.filter_jit
def _probe_draws(q, model, observations, key, samples):
    """The draws of a step, at which time steps the model is finite for all, and their prior log densities."""
    num_steps, noise = len(q.mean), _noise(q, key, samples)

    def one(noise):
        path = q.mean + q.unwhiten(noise)
        score = jax.grad(model.log_joint)(path, observations)
        terms = model.log_likelihoods(path, observations)
        finite = [jnp.isfinite(leaf).reshape(num_steps, -1).all(axis=1) for leaf in (path, score, terms)]
        return path, finite[0] & finite[1] & finite[2], model.log_prior(path, observations)

    paths, finite, log_priors = jax.vmap(one, in_axes=1)(noise)
    return paths, finite.all(axis=0), log_priors


def _explain_divergence(run: _Run, state: State, basis, rate: float) -> NoReturn:
    """Retrace the failing block step by step and say where it went wrong."""
    settings, where = run.settings, ""
    for iteration in range(run.iteration, run.iteration + STEPS_PER_BLOCK):
        key = jr.fold_in(run.key, iteration)
        paths, finite, log_priors = _probe_draws(state.q, run.model, run.observations, key, settings.samples)
        if not finite.all():
            step = int(np.argmin(finite))
            draws = ", ".join(f"{draw:.3g}" for draw in np.asarray(paths[:, step]).ravel()[:8])
            where = (
                f" at iteration {iteration}: the log joint or its gradient is not finite at time step "
                f"{step}, where draws of the path are {draws}"
            )
            break
        if not np.isfinite(log_priors).all():
            odd = next(float(value) for value in log_priors if not np.isfinite(value))
            where = f" at iteration {iteration}: the prior's log density of a draw is {odd}"
            break
        state, _ = _take_steps(
            state, basis, run.model, run.observations, run.key,
            jnp.asarray(iteration), jnp.asarray(rate), settings.samples, settings.estimator, 1,
        )  # fmt: skip
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.q)):
            where = f" at iteration {iteration}: the step led to numbers that are not finite"
            break
    raise DivergenceError(
        f"the fit diverged{where}; try a smaller learning_rate (now {rate:g}), more samples (now "
        f"{settings.samples}), or a prior that keeps the path where the likelihood is finite"
    )


def _check_outcome(run, elbo, error, start_elbo, start_error):
    settings = run.settings
    if not np.isfinite(elbo) or elbo + 5 * error < start_elbo - 5 * start_error:
        raise DivergenceError(
            f"after {run.iteration} steps the fit is worse than where it began: ELBO {elbo:.6g}, at first "
            f"{start_elbo:.6g}; try a smaller learning_rate (now {settings.learning_rate:g}), more samples "
            f"(now {settings.samples}) or, if it had no time, more max_iterations (now "
            f"{settings.max_iterations})"
        )
