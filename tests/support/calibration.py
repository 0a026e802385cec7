"""Simulation-based calibration: truths drawn from the prior must lie in intervals as often as these say.

For numbers drawn from their prior, a path drawn given them and data drawn given the path, an interval of
probability p from the exact posterior holds the truth with probability p. So the share of replicates in
which it does is a test of the whole method, from quadrature to weights, with a known standard error.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import driftline as dl

PROBABILITIES = (0.5, 0.9)


class Case(NamedTuple):
    """A model with learnt numbers: how to draw them, and how to build it from them or for learning."""

    draw: Callable[[np.random.Generator], dict[str, float]]
    model: Callable[..., dl.Model]
    learnt: dict[str, Any]
    times: np.ndarray
    missing: float


def log_normal(center, width):
    """A log density of a positive number, for `dl.learn`."""
    return lambda value: -jnp.log(value) - 0.5 * ((jnp.log(value) - jnp.log(center)) / width) ** 2


def _positive(start, center, width):
    return dl.learn(start, positive=True, prior=log_normal(center, width))


def _drawn(rng, center, width):
    return float(center * np.exp(width * rng.normal()))


def _persistent(decay):
    share = 0.5 * (1.0 + decay)
    return 19.0 * jnp.log(share) + 0.5 * jnp.log1p(-share)


CASES = {
    "counts": Case(
        draw=lambda rng: {"prior.scale": _drawn(rng, 0.25, 0.5)},
        model=lambda scale: dl.Model(dl.RandomWalk(scale, initial_mean=1.0), dl.Poisson()),
        learnt={"prior.scale": _positive(0.2, 0.25, 0.5)},
        times=np.arange(60.0),
        missing=0.1,
    ),
    "volatility": Case(
        draw=lambda rng: {
            "prior.mean": float(rng.normal()),
            "prior.decay": float(2 * rng.beta(20.0, 1.5) - 1),
            "prior.scale": _drawn(rng, 0.3, 0.5),
        },
        model=lambda mean, decay, scale: dl.Model(dl.AR1(mean, decay, scale), dl.LogVolatility()),
        learnt={
            "prior.mean": dl.learn(0.0, prior=lambda value: -0.5 * value**2),
            "prior.decay": dl.learn(0.9, between=(-1, 1), prior=_persistent),
            "prior.scale": _positive(0.3, 0.3, 0.5),
        },
        times=np.arange(200.0),
        missing=0.0,
    ),
    "volatility, all defaults": Case(
        draw=lambda rng: {
            "prior.mean": float(5.0 * rng.standard_cauchy()),
            "prior.decay": float(2 * rng.beta(20.0, 1.5) - 1),
            "prior.scale": float(2.0 * np.abs(rng.standard_cauchy())),
        },
        model=dl.StochasticVolatility,
        learnt={"prior.mean": None, "prior.decay": None, "prior.scale": None},
        times=np.arange(150.0),
        missing=0.0,
    ),
    "level": Case(
        draw=lambda rng: {
            "prior.rate": _drawn(rng, 0.3, 0.5),
            "prior.scale": _drawn(rng, 1.0, 0.5),
            "likelihood.scale": _drawn(rng, 0.5, 0.5),
        },
        model=lambda rate, scale, noise: dl.Model(
            dl.OrnsteinUhlenbeck(rate=rate, scale=scale), dl.StudentT(5.0, noise)
        ),
        learnt={
            "prior.rate": _positive(0.3, 0.3, 0.5),
            "prior.scale": _positive(1.0, 1.0, 0.5),
            "likelihood.scale": _positive(0.5, 0.5, 0.5),
        },
        times=np.cumsum(np.random.default_rng(9).exponential(size=80)),
        missing=0.1,
    ),
}


class Coverage(NamedTuple):
    """How often intervals held the truth, beside how often they should."""

    case: str
    what: str
    probability: float
    covered: float
    standard_error: float
    flagged: float

    @property
    def off(self) -> float:
        """Distance from the probability in standard errors."""
        return (self.covered - self.probability) / self.standard_error


def fit_replicate(name: str, seed: int) -> tuple[dict[str, float], np.ndarray, dl.Posterior]:
    """One replicate: the numbers and the path that were drawn, and the fit to data drawn from them."""
    case, rng = CASES[name], np.random.default_rng([17, seed])
    while True:
        truth = case.draw(rng)
        path, x = case.model(*truth.values()).simulate(times=case.times, seed=seed)
        if np.isfinite(x).all():  # a choice by the data alone, after which intervals still hold what they say
            break
    x = np.where(rng.uniform(size=x.shape) < case.missing, np.nan, x)
    return truth, path, dl.fit(case.model(*case.learnt.values()), x, times=case.times)


def calibrate(name: str, num_replicates: int, *, diagnosed: int = 30) -> list[Coverage]:
    """Fit data drawn from the model again and again; how often do intervals hold the truth?

    Args:
        name: One of `CASES`.
        num_replicates: How often.
        diagnosed: Number of replicates whose fit is also diagnosed.
    """
    hits, flags = [], []
    for seed in range(num_replicates):
        truth, path, post = fit_replicate(name, seed)
        hits.append(_hits(post, truth, path))
        if seed < diagnosed:
            flags.append(post.diagnose().flagged)
    flagged = float(np.mean(flags)) if flags else np.nan
    return [
        Coverage(
            name, what, probability,
            float(np.mean([hit[what, probability] for hit in hits])),
            _error([hit[what, probability] for hit in hits], probability, what),
            flagged,
        )
        for what, probability in hits[0]
    ]  # fmt: skip


def _hits(post, truth, path):
    found = {}
    for probability in PROBABILITIES:
        for place, value in truth.items():
            lower, upper = post.parameters[place].interval(probability)
            found[place, probability] = float(lower <= value <= upper)
        lower, upper = post.interval(probability)
        found["path", probability] = float(np.mean((lower <= path) & (path <= upper)))
    return found


def _error(hits, probability, what):
    """Of a share of replicates: binomial. Of a path's share of steps, which go together: as they scatter."""
    spread = np.std(hits, ddof=1) if what == "path" else np.sqrt(probability * (1 - probability))
    return float(spread / np.sqrt(len(hits)))


def table(rows: list[Coverage]) -> str:
    """The rows as a Markdown table."""
    head = "| model | of | interval | covered | standard errors off | fits flagged |\n" + 6 * "|---" + "|\n"
    return head + "\n".join(
        f"| {r.case} | {r.what} | {r.probability:.0%} | {r.covered:.1%} ± {r.standard_error:.1%} "
        f"| {r.off:+.1f} | {r.flagged:.0%} |"
        for r in rows
    )
