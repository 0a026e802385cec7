r"""Natural-gradient steps in the structured family: tens of iterations, and no noise.

$$\Lambda \leftarrow (1-\rho)\Lambda - \rho\,E_q[\nabla^2 \log p], \qquad
  \mu \leftarrow \mu + \rho\,\Lambda^{-1} E_q[\nabla \log p].$$

The Hessian of a Markov model has the family's own band, so the step stays in the family and costs O(T). The
expectations are deterministic, so the ELBO is too: a step that lowers it, or that leaves the positive
definite matrices, is halved. With a linear-Gaussian model one step is exact. See `docs/maths.md`, section 9.
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftline.families import AbstractBanded, AbstractMoments
from driftline.infer.expectation import expected_log_joint
from driftline.infer.outcome import Outcome
from driftline.infer.progress import Reporter
from driftline.infer.quadrature import standard_normal
from driftline.models.model import Model
from driftline.models.observations import Observations

ITERATIONS_PER_CALL = 10
SMALLEST_STEP = 1e-7
ROUNDING = 1e-13  # of the ELBO, relative to its size


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of `method="newton"`.

    Attributes:
        max_iterations: Steps after which the fit stops, converged or not; halved steps count.
        tolerance: Rise of the ELBO in nats below which a full step ends the fit.
    """

    max_iterations: int = 300
    tolerance: float = 1e-6

    def __post_init__(self):
        if not isinstance(self.max_iterations, int | np.integer) or self.max_iterations < 1:
            raise ValueError(f"max_iterations must be a whole number from 1 on, got {self.max_iterations!r}")
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be greater than zero, got {self.tolerance!r}")


class State(NamedTuple):
    """Where the fit is.

    Attributes:
        q: The best member of the family so far.
        elbo: Its ELBO.
        slope: Derivatives of its expected log joint with respect to its moments.
        step: Size of the next step to try.
        rise: By how much the last accepted step raised the ELBO, per unit of step.
        iteration: Number of steps tried.
    """

    q: AbstractBanded
    elbo: Float[Array, ""]
    slope: AbstractMoments
    step: Float[Array, ""]
    rise: Float[Array, ""]
    iteration: Float[Array, ""]


def maximise(
    model: Model,
    observations: Observations,
    q: AbstractBanded,
    settings: Settings,
    *,
    reporter: Reporter,
) -> Outcome:
    """Maximise the ELBO over the family of `q`, starting from `q`."""
    state = begin(q, model, observations)
    _check_start(state, model, observations)
    elbos, message = [float(state.elbo)], ""
    try:
        while not (message := _verdict(state, settings)):
            limit = min(int(state.iteration) + ITERATIONS_PER_CALL, settings.max_iterations)
            state = iterate(state, model, observations, jnp.asarray(limit), jnp.asarray(settings.tolerance))
            elbos.append(float(state.elbo))
            norm = float(jnp.sqrt(jnp.mean(state.slope.mean**2)))
            reporter.update(int(state.iteration), elbos[-1], norm)
    except KeyboardInterrupt:
        if not int(state.iteration):  # the start is not a fit
            raise
        message = f"interrupted after {int(state.iteration)} steps"
    reporter.close()
    if message.startswith("stalled"):
        _check_curvature(state)
    return Outcome(
        state.q,
        float(state.elbo),
        0.0,
        converged=message.startswith("converged"),
        iterations=int(state.iteration),
        message=message,
        history={"elbo": np.array(elbos)},
    )


def _verdict(state: State, settings: Settings) -> str:
    iterations = int(state.iteration)
    if has_converged(state, settings.tolerance):
        return f"converged after {iterations} steps"
    if float(state.step) < SMALLEST_STEP:
        return f"stalled after {iterations} steps: no step raises the ELBO further"
    if iterations >= settings.max_iterations:
        return f"not converged after {iterations} steps; raise max_iterations or tolerance"
    return ""


def has_converged(state: State, tolerance: Any) -> Any:
    """Whether the last step brought no more than the tolerance, or than rounding."""
    return state.rise <= tolerance + ROUNDING * abs(state.elbo)


def refit(model: Model, observations: Observations, q: AbstractBanded) -> State:
    """The fit of a model, from a start that is near it."""
    limit, tolerance = jnp.asarray(Settings().max_iterations), jnp.asarray(Settings().tolerance)
    return iterate(begin(q, model, observations), model, observations, limit, tolerance)


@eqx.filter_jit
def begin(q: AbstractBanded, model: Model, observations: Observations) -> State:
    """The state of a fit that starts from `q`."""
    elbo, slope = _evaluate(q, model, observations)
    one = jnp.ones_like(elbo)
    return State(q, elbo, slope, one, jnp.inf * one, jnp.zeros((), int))


@eqx.filter_jit
def iterate(
    state: State, model: Model, observations: Observations, limit: Int[Array, ""], tolerance: Float[Array, ""]
) -> State:
    """Try steps until one that is accepted brings less than the tolerance, or up to a limit."""

    def goes_on(state):
        return ~has_converged(state, tolerance) & (state.iteration < limit) & (state.step >= SMALLEST_STEP)

    def try_step(state):
        q = _stepped(state)
        elbo, slope = _evaluate(q, model, observations)
        accepted = elbo >= state.elbo - ROUNDING * jnp.abs(state.elbo)  # False for NaN
        new = State(
            q,
            elbo,
            slope,
            jnp.minimum(1.0, 2.0 * state.step),
            jnp.maximum(elbo - state.elbo, 0.0) / state.step,
            state.iteration + 1,
        )
        old = state._replace(step=0.5 * state.step, iteration=state.iteration + 1)
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    return jax.lax.while_loop(goes_on, try_step, state)


def _evaluate(
    q: AbstractBanded, model: Model, observations: Observations
) -> tuple[Float[Array, ""], AbstractMoments]:
    """The ELBO, and the derivatives of the expected log joint with respect to the moments of q."""
    value, slope = jax.value_and_grad(expected_log_joint)(q.moments(), model, observations)
    return value + q.entropy(), slope


def _stepped(state: State) -> AbstractBanded:
    """The member one step along the natural gradient."""
    q, slope, step = state.q, state.slope.symmetric(), state.step
    diag, off = q.precision()
    diag = (1.0 - step) * diag - step * 2.0 * slope.within
    off = (1.0 - step) * off - step * slope.between
    move = type(q).from_natural(slope.mean, diag, off)  # its mean is the precision's solve
    return eqx.tree_at(lambda move: move.mean, move, q.mean + step * move.mean)


def _finite_steps(values: Any) -> np.ndarray:
    values = np.asarray(values)
    return np.isfinite(values).reshape(len(values), -1).all(axis=1)


def _check_curvature(state: State) -> None:
    """Explain a fit that got stuck because the log joint has no top."""
    curvatures = np.asarray(state.slope.variances())  # by the variances
    upwards = (curvatures.reshape(len(curvatures), -1) >= 0).any(axis=1)
    if upwards.any():
        raise ValueError(
            f"the expected log joint curves upwards at step {int(np.argmax(upwards))} wherever the fit "
            "goes, so that the path has no posterior there: the likelihood grows faster than the prior "
            "falls; check its sign and its tails, or narrow the prior"
        )


def _check_start(state: State, model: Model, observations: Observations) -> None:
    bad = ~(_finite_steps(state.slope.mean) & _finite_steps(state.slope.within))
    if np.isfinite(float(state.elbo)) and not bad.any():
        return
    if not bad.any():  # a density may be NaN and its derivatives finite, as log is below zero
        sd = jnp.sqrt(state.q.variances())
        for node in standard_normal(1)[0][:, 0]:
            bad |= ~_finite_steps(model.log_likelihoods(state.q.mean + node * sd, observations))
    where = f" at step {int(np.argmax(bad))}" if bad.any() else ""
    raise ValueError(
        f"the expected log joint is {float(state.elbo)} where the fit begins, or its gradient or curvature "
        f"is not finite{where}; check that the model is finite for all paths within a few prior standard "
        "deviations, or narrow the prior"
    )
