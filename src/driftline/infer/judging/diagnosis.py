"""How good a fit is: how far from the posterior, along which direction, where in time, with what tails."""

import dataclasses
import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jax import Array
from scipy import stats

from driftline.families import AbstractBanded, AbstractFamily
from driftline.infer import newton
from driftline.infer.coupling import couples
from driftline.infer.judging.corrected_draws import places, tempered
from driftline.infer.judging.other_modes import other_modes, other_signs, share_of_others
from driftline.infer.judging.worst_directions import Worst, worst
from driftline.infer.number_vector import Layout
from driftline.infer.sampling import particles
from driftline.infer.sampling.pareto_tails import pareto_shape
from driftline.infer.sampling.whitened_coordinates import coordinates
from driftline.infer.start import starting_family
from driftline.models.model import Model
from driftline.models.observations import Observations

FILTERS = 16  # independent filters, for what every step adds
FEWEST_PARTICLES, MOST_PARTICLES = 32, 256  # in each of them
NUMBERS_TO_DRAW = 20_000_000  # by all filters together, as long as the particles lie between the two above
GROUPS = 16  # of tempered particles, for error bars
FEWEST_TEMPERED, MOST_TEMPERED = 8, 128  # in each of them
TEMPERED_NUMBERS = 2_000_000  # in all of them, as long as they lie between the two above
MOST_NUMBERS = 1_000_000  # in a path beyond which nothing is tempered: hours
MOST_WINDOWS = 50
SHORTEST_WINDOW = 10
SHIFT, RATIO = 0.25, 1.25  # by which a mean or a standard deviation may be off in a fit that is not flagged
GOOD_SHIFT, GOOD_RATIO = 0.1, 1.1  # in one that is good
GOOD_PER_NUMBER, FAIR_PER_NUMBER = 0.5 * GOOD_SHIFT**2, 0.5 * SHIFT**2  # nats that such a shift costs
ROUNDING = 1e-10  # of the evidence, relative to its size
UNCERTAIN = 2.0  # nats of error above which the estimate itself is doubtful
SAME_ELBO = 0.5  # nats that a block may gain on chains
ELSEWHERE = 0.05  # part of the posterior around other tops
HEAVY = 0.7  # k-hat from which importance weights cannot be trusted
EVEN = 0.05  # nats of divergence in a window below which its weights hardly differ, whatever their tail
BLIND = "not seen: tops of the posterior that no start led to, and whether the model itself is right"


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    r"""A verdict on a fit; print it for a summary.

    Attributes:
        log_evidence: Estimate of the log evidence $\log p(x)$, in nats.
        log_evidence_error: Half of the width of its 95 % interval.
        elbo: The fit's ELBO that it is compared with.
        gap: Estimate of $\log p(x)$ - ELBO, which is the divergence KL(q ‖ p) of the fit.
        gap_error: Half of the width of its 95 % interval, from the evidence and from the ELBO.
        gap_in_time: What every step contributes to `gap`, from filters that are guided by the fit.
        windows: First step of each window of time, and one past the last step.
        k_hat: Pareto shape of the importance weights in each window; below 0.7 they can be trusted. Zero
            where the weights differ by so little that their tail does not matter.
        k_hat_joint: The same for whole paths. It grows with the length of a series even if every window is
            fine, and then says nothing about the marginals.
        shift: By how many standard deviations the mean is off in the worst direction, beyond chance.
        ratio: The posterior's standard deviation over the fit's in the worst direction, beyond chance.
        worst: Where these are, in words.
        block_gain: What a fit with structure="block" has more of ELBO; zero where nothing is coupled.
        elsewhere: What part of the posterior lies around other tops that were found.
        verdict: One line in words.
        flagged: Whether the fit should not be trusted as it is.
        not_seen: What this diagnosis cannot see.
    """

    log_evidence: float
    log_evidence_error: float
    elbo: float
    gap: float
    gap_error: float
    gap_in_time: np.ndarray
    windows: np.ndarray
    k_hat: np.ndarray
    k_hat_joint: float
    shift: float
    ratio: float
    worst: str
    block_gain: float
    elsewhere: float
    verdict: str
    flagged: bool
    not_seen: str

    @property
    def gap_in_windows(self) -> np.ndarray:
        """The gap of each window."""
        return np.add.reduceat(self.gap_in_time, self.windows[:-1])

    def __str__(self):
        heavy, largest = int(np.argmax(self.k_hat)), int(np.argmax(self.gap_in_windows))

        def span(place):
            return f"steps {self.windows[place]} to {self.windows[place + 1] - 1}"

        return "\n".join(
            [
                self.verdict,
                f"  log evidence  {self.log_evidence:.3f} ± {self.log_evidence_error:.3f}",
                f"  ELBO          {self.elbo:.3f}",
                f"  gap           {self.gap:.3f} ± {self.gap_error:.3f} nats, most of it in {span(largest)}",
                f"  worst         {self.worst}",
                f"  k-hat         {self.k_hat[heavy]:.2f} at worst, in {span(heavy)}; "
                f"whole path {self.k_hat_joint:.2f}",
                f"  {self.not_seen}",
            ]
        )


class Judged(NamedTuple):
    """A fit to be judged.

    Attributes:
        q: The Gaussian; with learnt numbers, one with the moments of the mixture over them.
        mean: What is reported as its mean.
        sd: And as its standard deviations.
        elbo: Its ELBO.
        elbo_error: Standard error of that.
        converged: Whether it said so.
        model: The model, with learnt numbers at their means.
        observations: The series.
        layout: How learnt numbers lie in a vector; of none if they are fixed.
        points: Points of them without bounds, (P, K), and their weights.
    """

    q: AbstractFamily
    mean: np.ndarray
    sd: np.ndarray
    elbo: float
    elbo_error: float
    converged: bool
    model: Model
    observations: Observations
    layout: Layout
    points: tuple[np.ndarray, np.ndarray]


def diagnose(fit: Judged, seed: int) -> Diagnosis:
    """Compare a fitted Gaussian with the posterior that it stands for.

    Args:
        fit: The fit.
        seed: The same seed gives the same numbers.
    """
    near, block_gain = _near(fit)
    filtered = _filtered(fit, near, seed)
    if fit.mean.size <= MOST_NUMBERS:
        log_evidence, error, off, reached = _tempered(fit, near.q, seed)
        modes = other_modes(fit.model, fit.observations, near.q, float(near.elbo), seed)
        modes += other_signs(fit.model, fit.observations, near, fit.layout, fit.points)
        elsewhere, not_seen = share_of_others(modes, float(near.elbo)), BLIND
        # Around every other top there is about as much beyond its ELBO as around this one.
        others = [log_evidence + mode.elbo - float(near.elbo) for mode in modes]
        added = float(np.logaddexp.reduce([log_evidence, *others])) - log_evidence
        log_evidence, error = log_evidence + added, error + 0.5 * added
    else:
        log_evidence, error = _from_filters(filtered.log_evidence)
        off, reached, elsewhere = Worst(0.0, 1.0, "", ""), True, 0.0
        not_seen = (
            f"not seen, in a path of more than {MOST_NUMBERS:,} numbers: whether sums over many steps are as "
            "uncertain as the fit says, and other tops of the posterior; see a part of the series for that"
        )
    gap_error = math.hypot(error, 1.96 * fit.elbo_error)
    facts = _Facts(
        gap=log_evidence - fit.elbo,
        error=gap_error,
        k_hat=filtered.k_hat,
        size=fit.mean.size,
        off=off,
        block_gain=block_gain,
        elsewhere=elsewhere,
        converged=fit.converged,
        reached=reached,
        doubt=_doubt(fit),
    )
    verdict, flagged = _verdict(facts)
    return Diagnosis(
        log_evidence=log_evidence,
        log_evidence_error=error,
        elbo=fit.elbo,
        gap=facts.gap,
        gap_error=gap_error,
        gap_in_time=filtered.gap_in_time,
        windows=filtered.windows,
        k_hat=filtered.k_hat,
        k_hat_joint=filtered.k_hat_joint,
        shift=off.shift,
        ratio=off.ratio,
        worst=_in_words(off),
        block_gain=block_gain,
        elsewhere=elsewhere,
        verdict=verdict,
        flagged=flagged,
        not_seen=not_seen,
    )


def _near(fit: Judged) -> tuple[newton.State, float]:
    """The best fit of the path at the numbers' means, in blocks where elements are coupled, and its gain."""
    q, structure = fit.q, fit.q.structure
    if not isinstance(q, AbstractBanded):
        q = starting_family(fit.model, q.mean, fit.observations, structure)
    state = newton.refit(fit.model, fit.observations, q)
    if structure == "block" or not couples(fit.model, fit.observations, q.mean):
        return state, 0.0
    block = starting_family(fit.model, state.q.mean, fit.observations, "block")
    block = newton.refit(fit.model, fit.observations, block)
    gain = float(block.elbo) - float(state.elbo)
    return (block, gain) if np.isfinite(gain) and gain > 0 else (state, 0.0)


def _tempered(fit: Judged, near: AbstractBanded, seed: int) -> tuple[float, float, Worst, bool]:
    """Log evidence, its error, the worst direction, and whether tempering came to its end."""
    found = coordinates(fit.model, fit.observations, near, fit.layout, *fit.points)
    affordable = TEMPERED_NUMBERS // (GROUPS * fit.mean.size)
    many = int(np.clip(affordable, FEWEST_TEMPERED, MOST_TEMPERED))
    end = tempered(found, jr.key(seed), GROUPS, many)
    drawn = places(found, end)
    raws, weights = fit.points
    center = weights @ raws
    sd = np.sqrt(weights @ (raws - center) ** 2)
    standard = (np.asarray(drawn.raw) - center) / np.where(sd > 0, sd, 1.0)
    numbers = {place: standard[..., part] for place, part in fit.layout.parts().items()}
    white = np.asarray(end.positions.noise) if numbers else None
    off = worst(np.asarray(drawn.path), fit.q, fit.mean, fit.sd, white=white, numbers=numbers)
    return *_from_filters(np.asarray(end.log_evidence)), off, bool(end.reached)


def _from_filters(logs: np.ndarray) -> tuple[float, float]:
    """Logarithm of the mean of independent estimates of the evidence, and half of its 95 % interval.

    With few estimates that differ much, their mean is skewed; the interval allows for it by that of the
    logarithms, which is wider then.
    """
    highest = logs.max()
    ratios = np.exp(logs - highest)
    log_evidence = float(highest + np.log(ratios.mean()))
    score = float(stats.t.ppf(0.975, len(logs) - 1)) / math.sqrt(len(logs))
    error = score * max(float(ratios.std(ddof=1) / ratios.mean()), float(logs.std(ddof=1)))
    return log_evidence, error + ROUNDING * (1.0 + abs(log_evidence))


class _Filtered(NamedTuple):
    log_evidence: np.ndarray
    gap_in_time: np.ndarray
    windows: np.ndarray
    k_hat: np.ndarray
    k_hat_joint: float


def _filtered(fit: Judged, near: newton.State, seed: int) -> _Filtered:
    """What every step adds to the gap, and tails of weights; of the path given the numbers' means."""
    q = near.q if fit.layout.places else fit.q
    num_steps = len(q.mean)
    window = max(SHORTEST_WINDOW, -(-num_steps // MOST_WINDOWS))
    affordable = NUMBERS_TO_DRAW // (FILTERS * q.mean.size)
    many = int(np.clip(affordable, FEWEST_PARTICLES, MOST_PARTICLES))
    found = _filters(q, fit.model, fit.observations, jr.split(jr.key(seed), FILTERS), many, window)
    weights = np.concatenate(list(np.asarray(found.log_weights)), axis=1)
    return _Filtered(
        np.asarray(found.log_evidence),
        np.asarray(found.rises).mean(axis=0) - np.asarray(found.expected).mean(axis=0),
        np.append(np.arange(0, num_steps, window), num_steps),
        np.array([_shape_if_uneven(row) for row in weights]),
        pareto_shape(weights.sum(axis=0)),
    )


@eqx.filter_jit
def _filters(
    q: AbstractFamily, model: Model, observations: Observations, keys: Array, num_particles: int, window: int
) -> particles.Filtered:
    guide = particles.Guide(q, model, observations)

    def one(key):
        return particles.run(guide, key, num_particles=num_particles, window=window)

    return jax.vmap(one)(keys)


def _shape_if_uneven(log_weights: np.ndarray) -> float:
    highest = log_weights.max()
    divergence = highest + np.log(np.mean(np.exp(log_weights - highest))) - log_weights.mean()
    return 0.0 if divergence < EVEN else pareto_shape(log_weights)


def _in_words(off: Worst) -> str:
    parts = []
    if off.shift > 0:
        parts.append(f"mean off by {off.shift:.2f} sd or more ({off.shift_along})")
    if off.ratio != 1.0:
        parts.append(f"sd {off.ratio:.2f} times the fit's or {'more' if off.ratio > 1 else 'less'} "
                     f"({off.ratio_along})")  # fmt: skip
    return "; ".join(parts) or "nothing is off beyond chance"


class _Facts(NamedTuple):
    gap: float
    error: float
    k_hat: np.ndarray
    size: int
    off: Worst
    block_gain: float
    elsewhere: float
    converged: bool
    reached: bool
    doubt: str


def _doubt(fit: Judged) -> str:
    """What makes a posterior of learnt numbers doubtful, whatever the fit."""
    if not fit.layout.places:
        return ""
    seen = np.asarray(fit.observations.values)[np.asarray(fit.observations.observed)]
    return fit.model.likelihood.doubt(seen)


def _verdict(facts: _Facts) -> tuple[str, bool]:
    told = f"gap {facts.gap:.2f} ± {facts.error:.2f} nats over {facts.size:,} numbers, {_in_words(facts.off)}"
    apart, shift = max(facts.off.ratio, 1.0 / facts.off.ratio), facts.off.shift
    per_number, heavy = max(facts.gap, 0.0) / facts.size, facts.k_hat >= HEAVY
    lost = not facts.reached or not np.isfinite(facts.gap) or facts.error > max(UNCERTAIN, 0.2 * facts.gap)
    off = apart > RATIO or shift > SHIFT
    slightly_off = apart > GOOD_RATIO or shift > GOOD_SHIFT
    remedy = "use refine() or sample(corrected=True)"
    block = f"structure='block' gains {facts.block_gain:.2f} nats"
    elsewhere = f"{facts.elsewhere:.0%} or more of the posterior lies around them"
    wrong = {
        "doubtful: the posterior is too far from the fit to say how far; use refine()": lost,
        f"doubtful: {facts.doubt}": bool(facts.doubt),
        f"poor: there are other tops, and {elsewhere}": facts.elsewhere > ELSEWHERE,
        f"poor: elements are coupled; {block}": off and facts.block_gain > SAME_ELBO,
        "doubtful: the fit has not converged; raise max_iterations": not facts.converged,
        f"poor: the fit is off where it matters; {remedy}": off,
        f"poor: the fit misses much of the posterior; {remedy}": per_number > FAIR_PER_NUMBER
        or heavy.mean() > 0.2,
    }
    for words, found in wrong.items():
        if found:
            return f"{words}; {told}", True
    if slightly_off or per_number > GOOD_PER_NUMBER or heavy.any():
        return f"fair: means are right to about a quarter of a standard deviation; {told}", False
    return f"good: practically the posterior; {told}", False
