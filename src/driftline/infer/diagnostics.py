"""How good a fit is: how far its ELBO is from the log evidence, where in time, and with what tails."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from driftline.families import AbstractFamily
from driftline.infer import particles
from driftline.infer.given_numbers import fit_points
from driftline.models.model import Model
from driftline.models.observations import Observations
from driftline.models.parameters import with_values

FILTERS = 16  # independent filters, for the error bar
FEWEST_PARTICLES, MOST_PARTICLES = 32, 256  # in each of them
NUMBERS_TO_DRAW = 20_000_000  # by all filters together, as long as the particles lie between the two above
PARTICLES_IN_MEMORY, MOST_KEPT = 2**26, 1024  # of the filter that corrected paths are drawn from
MOST_WINDOWS = 50
SHORTEST_WINDOW = 10
# A mean that is off by a share s of a standard deviation costs s²/2 nats.
GOOD_PER_NUMBER, FAIR_PER_NUMBER = 0.5 * 0.1**2, 0.5 * 0.25**2
UNCERTAIN = 0.5  # nats of standard error above which the estimate itself is doubtful
HEAVY = 0.7  # k-hat from which importance weights cannot be trusted
EVEN = 0.05  # nats of divergence in a window below which its weights hardly differ, whatever their tail


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    r"""A verdict on a fit; print it for a summary.

    Attributes:
        log_evidence: Estimate of the log evidence $\log p(x)$ from particle filters, in nats.
        elbo: The fit's ELBO that it is compared with.
        gap: Estimate of $\log p(x)$ - ELBO, which is the divergence KL(q ‖ p) of the fit.
        gap_error: Standard error of `gap`, from the filters and from the ELBO.
        gap_in_time: What every step contributes to `gap`.
        windows: First step of each window of time, and one past the last step.
        k_hat: Pareto shape of the importance weights in each window; below 0.7 they can be trusted. Zero
            where the weights differ by so little that their tail does not matter.
        k_hat_joint: The same for whole paths. It grows with the length of a series even if every window is
            fine, and then says nothing about the marginals.
        verdict: One line in words.
        flagged: Whether the fit should not be trusted as it is.
        log_evidence_error: Standard error of `log_evidence`, from the filters alone.
    """

    log_evidence: float
    elbo: float
    gap: float
    gap_error: float
    gap_in_time: np.ndarray
    windows: np.ndarray
    k_hat: np.ndarray
    k_hat_joint: float
    verdict: str
    flagged: bool
    log_evidence_error: float

    @property
    def gap_in_windows(self) -> np.ndarray:
        """The gap of each window."""
        return np.add.reduceat(self.gap_in_time, self.windows[:-1])

    def __str__(self):
        worst, largest = int(np.argmax(self.k_hat)), int(np.argmax(self.gap_in_windows))

        def span(place):
            return f"steps {self.windows[place]} to {self.windows[place + 1] - 1}"

        return "\n".join(
            [
                self.verdict,
                f"  log evidence  {self.log_evidence:.3f} ± {self.log_evidence_error:.3f}",
                f"  ELBO          {self.elbo:.3f}",
                f"  gap           {self.gap:.3f} ± {self.gap_error:.3f} nats, most of it in {span(largest)}",
                f"  k-hat         {self.k_hat[worst]:.2f} at worst, in {span(worst)}; "
                f"whole path {self.k_hat_joint:.2f}",
            ]
        )


def diagnose(
    q: AbstractFamily, model: Model, observations: Observations, elbo: float, elbo_error: float, seed: int
) -> Diagnosis:
    """Compare a fitted Gaussian with the posterior that it stands for.

    Args:
        q: The Gaussian.
        model: The model, with fixed numbers.
        observations: The series.
        elbo: The ELBO of q.
        elbo_error: Its standard error.
        seed: The same seed gives the same numbers.
    """
    num_steps = len(q.mean)
    window = max(SHORTEST_WINDOW, -(-num_steps // MOST_WINDOWS))
    keys = jr.split(jr.key(seed), FILTERS)
    affordable = NUMBERS_TO_DRAW // (FILTERS * q.mean.size)
    num_particles = int(np.clip(affordable, FEWEST_PARTICLES, MOST_PARTICLES))
    found = _filters(q, model, observations, keys, num_particles, window)
    logs = np.asarray(found.log_evidence)
    highest = logs.max()
    ratios = np.exp(logs - highest)
    log_evidence = float(highest + np.log(ratios.mean()))
    log_evidence_error = float(ratios.std(ddof=1) / ratios.mean() / np.sqrt(FILTERS))
    error = float(np.hypot(log_evidence_error, elbo_error))
    in_time = np.asarray(found.rises).mean(axis=0) - np.asarray(found.expected).mean(axis=0)
    weights = np.concatenate(list(np.asarray(found.log_weights)), axis=1)
    k_hat = np.array([_shape_if_uneven(row) for row in weights])
    gap = log_evidence - elbo
    verdict, flagged = _verdict(gap, error, k_hat, q.mean.size)
    return Diagnosis(
        log_evidence=log_evidence,
        elbo=elbo,
        gap=gap,
        gap_error=error,
        gap_in_time=in_time,
        windows=np.append(np.arange(0, num_steps, window), num_steps),
        k_hat=k_hat,
        k_hat_joint=pareto_shape(weights.sum(axis=0)),
        verdict=verdict,
        flagged=flagged,
        log_evidence_error=log_evidence_error,
    )


@eqx.filter_jit
def _filters(q, model, observations, keys, num_particles, window):
    guide = particles.Guide(q, model, observations)

    def one(key):
        return particles.run(guide, key, num_particles=num_particles, window=window)

    return jax.vmap(one)(keys)


def corrected_sample(
    model: Model,
    observations: Observations,
    q: AbstractFamily,
    numbers: dict[str, np.ndarray],
    num_draws: int,
    seed: int,
) -> np.ndarray:
    """Draw paths from the posterior itself, as near as particles come to it: (draws, T, *shape).

    Args:
        model: The model, with learnt numbers at any value.
        observations: The series.
        q: The Gaussian that was fitted to it.
        numbers: Draws of the learnt numbers, each with a leading axis; the paths are spread over them.
        num_draws: Number of paths.
        seed: The same seed gives the same numbers.
    """
    num_particles = int(np.clip(PARTICLES_IN_MEMORY // q.mean.size, FEWEST_PARTICLES, MOST_KEPT))
    num_points = len(next(iter(numbers.values()))) if numbers else 1
    share = -(-num_draws // num_points)
    members = jax.tree.map(lambda leaf: leaf[None], q)
    if numbers:
        members = fit_points(model, observations, numbers, q).q
    paths = []
    for point, key in enumerate(jr.split(jr.key(seed), num_points)):
        own = with_values(model, {place: jnp.asarray(values[point]) for place, values in numbers.items()})
        member = jax.tree.map(lambda leaf, point=point: leaf[point], members)
        paths.append(np.asarray(_corrected(member, own, observations, key, num_particles, share)))
    mixed = np.random.default_rng(seed).permutation(np.concatenate(paths))
    return mixed[:num_draws]


@eqx.filter_jit
def _corrected(q, model, observations, key, num_particles, num_draws):
    guide = particles.Guide(q, model, observations)
    key_filter, key_trace = jr.split(key)
    kept = particles.run_and_keep(guide, key_filter, num_particles=num_particles)
    return jnp.swapaxes(particles.trace_back(guide, kept, key_trace, num_draws), 0, 1)


def _shape_if_uneven(log_weights):
    highest = log_weights.max()
    divergence = highest + np.log(np.mean(np.exp(log_weights - highest))) - log_weights.mean()
    return 0.0 if divergence < EVEN else pareto_shape(log_weights)


def pareto_shape(log_weights: np.ndarray) -> float:
    """Shape of the generalised Pareto distribution that fits the largest importance weights.

    Fitted to the exceedances of the upper tail by the empirical Bayes rule of Zhang and Stephens (2009),
    with the weak pull towards 1/2 of Vehtari et al. (2024).
    """
    log_weights = log_weights[~np.isnan(log_weights)]
    if len(log_weights) < 25 or np.ptp(log_weights) < 1e-10:
        return 0.0 if len(log_weights) else np.inf
    count = len(log_weights)
    size = int(min(0.2 * count, 3.0 * np.sqrt(count)))
    ordered = np.sort(log_weights)
    tail = np.exp(ordered[-size:] - ordered[-1])
    excess = tail - np.exp(ordered[-size - 1] - ordered[-1])
    excess = excess[excess > 0]
    if len(excess) < 5:
        return 0.0
    return _fit_pareto(excess)


def _fit_pareto(excess):
    """The posterior mean of the shape over a grid of values for minus shape over scale."""
    count = len(excess)
    grid = np.arange(1, 31 + int(np.sqrt(count))) - 0.5
    quarter = excess[int(count / 4 + 0.5) - 1]
    candidates = 1.0 / excess[-1] + (1.0 - np.sqrt(len(grid) / grid)) / (3.0 * quarter)
    shapes = np.log1p(-candidates[:, None] * excess).mean(axis=1)
    log_likelihoods = count * (np.log(-candidates / shapes) - shapes - 1.0)
    shares = np.exp(log_likelihoods - log_likelihoods.max())
    chosen = np.sum(candidates * shares) / shares.sum()
    shape = np.log1p(-chosen * excess).mean()
    return float((count * shape + 0.5 * 10) / (count + 10))


def _verdict(gap, error, k_hat, size):
    per_number = max(gap, 0.0) / size
    heavy = k_hat >= HEAVY
    facts = f"gap {gap:.2f} ± {error:.2f} nats over {size:,} numbers, worst k-hat {k_hat.max():.2f}"
    if not np.isfinite(gap) or error > max(UNCERTAIN, 0.1 * gap):
        return f"doubtful: the posterior is too far from the fit to say how far; {facts}", True
    if per_number > FAIR_PER_NUMBER or heavy.mean() > 0.2:
        return f"poor: the fit misses much of the posterior; use sample(corrected=True); {facts}", True
    if per_number > GOOD_PER_NUMBER or heavy.any():
        return f"fair: means are right to about a quarter of a standard deviation; {facts}", False
    return f"good: practically the posterior; {facts}", False
