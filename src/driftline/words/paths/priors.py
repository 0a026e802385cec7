r"""Priors over the path of one component of an embedding: Gaussian Markov chains over the time steps.

Both are told by the variance $P_t$ of each step and the regression $\varphi_t$ of a step on the one before,
which is all that is needed to leave steps out or to fill them in: the covariance of two steps s < t is
$P_s \varphi_{s+1} \cdots \varphi_t$. Words may differ in how fast they drift: each has one of a few paces.
"""

import dataclasses

import numpy as np

DAYS_PER_YEAR = 365.25
STILL = 1e-12  # of a variance: what remains of it, given the next step, has to be more


@dataclasses.dataclass(frozen=True, eq=False)
class Drift:
    r"""A mean of zero, the variances, and the regressions in logarithms, summed up, at each of M paces.

    Attributes:
        variance: $P_t$, (M, T).
        log_regression: Running sum of $\log \varphi_t$, (M, T), zero at the first step.
        pace: Which of the paces each word has, (V,).
    """

    variance: np.ndarray
    log_regression: np.ndarray
    pace: np.ndarray

    def variance_of(self, word: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Prior variance of a component of a word at a step."""
        return self.variance[self.pace[word], step]

    def covariance(self, word: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Prior covariance of the same component of a word at two steps."""
        return self._covariance(self.pace[word], earlier, later)

    def displacement_variance(self, first: int, second: int) -> np.ndarray:
        """Prior variance of what lies between two steps, at each of the paces, (M,)."""
        paces = np.arange(len(self.variance))
        earlier, later = sorted((first, second))
        spread = self.variance[:, earlier] + self.variance[:, later]
        return spread - 2.0 * self._covariance(paces, earlier, later)

    def _covariance(self, pace, earlier, later):
        decay = np.exp(self.log_regression[pace, later] - self.log_regression[pace, earlier])
        return self.variance[pace, earlier] * decay

    def factor(
        self, words: np.ndarray, steps: np.ndarray, linked: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Upper bidiagonal factor B of the precision $B^\top B$ of chains that see some steps only.

        Its rows are the conditionals of a step given the next of its chain: one over the standard deviation,
        and that times the regression, with a minus. A sum of such a row's entries is what pulls towards zero.

        Args:
            words: Word of each place of all chains, one chain after the other, (R,).
            steps: Its step, increasing in each chain.
            linked: Whether a place and the next one belong to the same chain, (R-1,).

        Returns:
            Diagonal, (R,), and superdiagonal, (R-1,).
        """
        variance = self.variance_of(words, steps)
        ahead = np.where(linked, steps[1:], steps[:-1])
        covariance = np.where(linked, self.covariance(words[:-1], steps[:-1], ahead), 0.0)
        regression = covariance / variance[1:]
        remains = variance.copy()
        remains[:-1] -= regression * covariance
        still = np.flatnonzero(remains <= STILL * variance)
        if len(still):
            raise ValueError(
                f"between steps {steps[still[0]]} and {steps[still[0] + 1]} the prior moves by less than "
                "double precision can tell from nothing; take a larger drift= or longer steps"
            )
        diag = remains**-0.5
        return diag, -regression * diag[:-1]

    def constant(self) -> float:
        """Precision of the value of a path that does not move, at the first of the paces."""
        size = self.variance.shape[1]
        first = np.zeros(size, np.int64)
        alone = dataclasses.replace(self, pace=first[:1])
        diag, upper = alone.factor(first, np.arange(size), np.ones(size - 1, bool))
        return float(((diag + np.append(upper, 0.0)) ** 2).sum())


def years(dates: np.ndarray) -> np.ndarray:
    """Years since the first date."""
    return (dates - dates[0]).astype(np.float64) / DAYS_PER_YEAR


Chain = tuple[np.ndarray, np.ndarray]


def diffusion(times: np.ndarray, drift: float, scale: float) -> Chain:
    r"""The papers' prior in its joint form: precision $\sigma_0^{-2}$ at every step, and links between them.

    See `driftline.Diffusion`.
    """
    links = 1.0 / (drift * np.diff(times))
    pull = 1.0 / scale**2
    # What all earlier steps add to the precision of a step, and what all later ones add.
    ahead, behind = np.zeros(len(times)), np.zeros(len(times))
    for t, link in enumerate(links):
        ahead[t + 1] = link * (pull + ahead[t]) / (link + pull + ahead[t])
    for t, link in reversed(list(enumerate(links))):
        behind[t] = link * (pull + behind[t + 1]) / (link + pull + behind[t + 1])
    variance = 1.0 / (pull + ahead + behind)
    regression = links / (links + pull + behind[1:])
    return variance, np.append(0.0, np.cumsum(np.log(regression)))


def stationary(times: np.ndarray, drift: float, scale: float) -> Chain:
    r"""The same in its normalised form: $u_{t+1} \mid u_t \propto N(u_t, \sigma_t^2) N(0, \sigma_0^2)$."""
    gained = drift * np.diff(times)
    regression = scale**2 / (scale**2 + gained)
    variance = np.empty(len(times))
    variance[0] = scale**2
    for t, (slope, gain) in enumerate(zip(regression, gained, strict=True)):
        variance[t + 1] = slope**2 * variance[t] + slope * gain
    return variance, np.append(0.0, np.cumsum(np.log(regression)))


def make(
    prior: str,
    dates: np.ndarray,
    drift: float,
    scale: float,
    *,
    paces: tuple[float, ...] = (1.0,),
    pace: np.ndarray,
) -> Drift:
    """The prior of that name over those dates.

    Args:
        prior: Its name.
        dates: When each step begins.
        drift: Variance that an embedding gathers in a year, at a pace of one.
        scale: Width of the pull towards zero.
        paces: What the drift is multiplied by.
        pace: Which of these each word has, (V,).
    """
    kind = {"diffusion": diffusion, "stationary": stationary}[prior]
    chains = [kind(years(dates), drift * each, scale) for each in paces]
    variance, log_regression = (np.stack(parts) for parts in zip(*chains, strict=True))
    return Drift(variance, log_regression, pace)


def carry(
    prior: str, mean: np.ndarray, variance: np.ndarray, gained: float | np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""A filter's prediction: the Gaussian of the step before, carried over a gap.

    "diffusion", as the papers have it: $\tilde\Sigma = [(\Sigma + \sigma^2)^{-1} + \sigma_0^{-2}]^{-1}$ and
    $\tilde\mu = \tilde\Sigma (\Sigma + \sigma^2)^{-1} \mu$. "stationary": what the normalised transition
    makes of it, $\tilde\mu = \varphi \mu$ and $\tilde\Sigma = \varphi^2 \Sigma + \varphi \sigma^2$ with
    $\varphi = (1 + \sigma^2/\sigma_0^2)^{-1}$.
    """
    gained, width = np.asarray(gained, variance.dtype), np.asarray(scale**2, variance.dtype)
    if prior == "diffusion":
        widened = variance + gained
        pull = 1 + widened / width
        return mean / pull, widened / pull
    pull = 1 + gained / width
    return mean / pull, (variance / pull + gained) / pull
