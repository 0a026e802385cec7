r"""The prior's width and how fast words drift, learnt from the ELBO.

Given the slope g and the curvature h of the expected log-likelihood at the means m, the best Gaussian is the
posterior of a linear model with data $y = m + g / h$ of precision h. Its evidence, as a function of the
prior, is the ELBO but for constants, with the means already where that prior would have them. So the numbers
of the prior go to their best values in a few rounds, however far that is; plain EM would take hundreds near a
drift of zero.

Most words stay where they are and a few move far. A single drift would hold these back and let the others
waver, so each word has one of several paces, from next to nothing to free, and the share of words at each
pace is learnt too.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy import optimize

from driftline.words.fitting import chains
from driftline.words.fitting.problem import FittingProblem
from driftline.words.paths.priors import years

# Paces in units of a drift with which a path gathers `LEAST` times the width's square over all steps: it then
# moves by a seventh of the width, if its data do not ask for more.
LEAST = 0.02
PACES = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0)
WIDTHS = (1e-2, 10.0)
FIRST_WIDTH = 0.3
ENOUGH = 2_000_000  # numbers from which a width is learnt; beyond that, from some of the words
FINE = 0.02  # of the logarithm of a width
SHARES = 100  # rounds for the shares of the paces, which converge at once


class Prior(NamedTuple):
    """Numbers of a prior.

    Attributes:
        drift: Variance gathered in a year at a pace of one.
        scale: Its width.
        paces: What the drift is multiplied by.
        pace: Which of these each word has, (V,).
        shares: Share of words at each pace.
    """

    drift: float
    scale: float
    paces: tuple[float, ...]
    pace: np.ndarray
    shares: np.ndarray

    @property
    def log_density(self) -> float:
        """Of the paces, given their shares."""
        many = np.bincount(self.pace, minlength=len(self.paces))
        return float(many @ np.log(np.maximum(self.shares, 1e-300)))

    @property
    def mean_drift(self) -> float:
        """Variance that a word gathers in a year, on average."""
        return float(self.drift * np.mean(np.asarray(self.paces)[self.pace]))


class Data(NamedTuple):
    """What the likelihood says of some rows, as if it were Gaussian: precisions, and these times values."""

    precision: Array
    weighted: Array


class Learner:
    """Learns the numbers of a prior that were not given.

    Args:
        problem: What is fitted.
    """

    def __init__(self, problem: FittingProblem):
        self.problem = problem
        self._years = float(years(problem.dates)[-1])

    def begin(self) -> Prior:
        """Numbers to begin with."""
        scale = self.problem.settings.scale or FIRST_WIDTH
        pace = np.zeros(len(self.problem.counts.vocabulary), np.int32)
        return self.with_width(Prior(1.0, scale, (1.0,), pace, np.ones(1)), scale)

    def with_width(self, prior: Prior, scale: float) -> Prior:
        """The same with another width; paces go with it, unless the drift was given."""
        given = self.problem.settings.drift
        if given is not None:
            return prior._replace(scale=scale, drift=given)
        shares = prior.shares if len(prior.paces) == len(PACES) else np.full(len(PACES), 1.0 / len(PACES))
        drift = LEAST * scale**2 / self._years
        return prior._replace(scale=scale, drift=drift, paces=PACES, shares=shares)

    def level(self, prior: Prior, data: Sequence[Data]) -> Prior:
        """The best width for paths that do not move."""

        def evidence(scale):
            precision = self.problem.given(*self.with_width(prior, scale)[:4]).drift.constant()
            return sum(float(_constant_evidence(precision, *part)) for part in data)

        return self._best_width(prior, evidence)

    def paths(self, prior: Prior, data: Sequence[Data], *, width: bool = True, paces: bool = True) -> Prior:
        """The best width, and the best pace of each word.

        Args:
            prior: Numbers so far.
            data: Of the words, and of the contexts, at all knots.
            width: Whether to learn the width.
            paces: Whether to learn the paces.
        """
        if paces and self.problem.settings.drift is None:
            prior = self._paced(prior, data)
        if not width or self.problem.settings.scale is not None:
            return prior
        knots = self.problem.knots
        every = max(1, math.ceil(len(knots) * data[0].precision.shape[1] / ENOUGH))
        rows = np.flatnonzero(knots.word % every == 0)
        words, steps = knots.word[rows], knots.step[rows]
        taken = [Data(*(array[jnp.asarray(rows)] for array in part)) for part in data]

        def evidence(scale):
            made = self.problem.given(*self.with_width(prior, scale)[:4]).drift
            factor = made.factor(words, steps, words[1:] == words[:-1])
            chain = chains.PriorChains(*(jnp.asarray(x[:, None], self.problem.dtype) for x in factor))
            return sum(float(jnp.sum(chains.log_evidence(chain, *part))) for part in taken)

        return self._best_width(prior, evidence)

    def _best_width(self, prior: Prior, evidence: Callable[[float], float]) -> Prior:
        if self.problem.settings.scale is not None:
            return prior
        low, high = (math.log(bound) for bound in WIDTHS)
        log = optimize.fminbound(lambda log: -evidence(math.exp(log)), low, high, xtol=FINE)
        return self.with_width(prior, math.exp(float(np.asarray(log))))

    def _paced(self, prior: Prior, data: Sequence[Data]) -> Prior:
        """Each word at its most probable pace, and the shares of the paces, by EM."""
        knots, num_words = self.problem.knots, len(self.problem.counts.vocabulary)
        evidence = np.zeros((num_words, len(PACES)))
        for m in range(len(PACES)):
            everyone = np.full(num_words, m, np.int32)
            made = self.problem.given(prior.drift, prior.scale, PACES, everyone).drift
            chain = chains.prior_chains(knots, made, self.problem.dtype)
            for part in data:
                rows = np.asarray(chains.log_evidence(chain, *part), np.float64)
                evidence[:, m] += np.bincount(knots.word, rows, num_words)
        present = np.bincount(knots.word, minlength=num_words) > 0
        shares = prior.shares
        for _ in range(SHARES):
            logs = evidence + np.log(shares)
            weights = np.exp(logs - logs.max(1, keepdims=True))
            weights /= weights.sum(1, keepdims=True)
            # One word more at each pace: a pace that no word has today may be needed tomorrow.
            shares = (weights[present].sum(0) + 1.0) / (present.sum() + len(PACES))
        pace = np.where(present, (evidence + np.log(shares)).argmax(1), 0).astype(np.int32)
        return prior._replace(paces=PACES, pace=pace, shares=shares)


def _constant_evidence(precision: float, curvature: Array, weighted: Array) -> Array:
    total = curvature + precision
    return 0.5 * jnp.sum(weighted**2 / total) - 0.5 * jnp.sum(jnp.log1p(curvature / precision))
