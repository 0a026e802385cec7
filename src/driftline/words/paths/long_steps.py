r"""How a filter's Gaussian travels over many steps at once.

One step of its prediction (`drift.carry`) divides the mean by a number and is a Möbius map of the variance,
with that number as its denominator. Where the variance gains $q$, the matrix of the map is
$\begin{pmatrix} 1 & q \\ \sigma_0^{-2} & 1 + q\,\sigma_0^{-2} \end{pmatrix}$ for the papers' prior and
$\begin{pmatrix} (1 + q\,\sigma_0^{-2})^{-1} & q \\ 0 & 1 + q\,\sigma_0^{-2} \end{pmatrix}$ for its normalised
form. Several steps are the product of their matrices, whatever the variance that they start from, so that a
step is reached from any earlier one with four numbers, for all words and components alike.
"""

import dataclasses

import numpy as np

from driftline.words.paths.priors import carry, years


@dataclasses.dataclass(frozen=True, eq=False)
class Forward:
    """The prediction of a filter.

    Attributes:
        prior: Its name.
        gained: Variance that is gathered between a step and the next, (T - 1,).
        scale: Width of the pull towards zero.
    """

    prior: str
    gained: np.ndarray
    scale: float

    def carry(self, step: int, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gaussians of a step, carried to the next one."""
        return carry(self.prior, mean, variance, self.gained[step], self.scale)

    def reach(self, step: int) -> "StepReach":
        """How a step is reached from all steps up to it."""
        pull = self.scale**-2.0
        maps, shrinks = np.empty((step + 1, 2, 2)), np.zeros(step + 1)
        maps[step] = np.eye(2)
        for earlier in range(step - 1, -1, -1):
            gain = self.gained[earlier]
            below = 1.0 + gain * pull
            corner, share = (1.0, pull) if self.prior == "diffusion" else (1.0 / below, 0.0)
            product = maps[earlier + 1] @ np.array([[corner, gain], [share, below]])
            # Products of many maps overflow; their size is kept apart, in logarithms.
            size = product.max()
            maps[earlier] = product / size
            shrinks[earlier] = shrinks[earlier + 1] + np.log(size)
        return StepReach(maps, shrinks)


@dataclasses.dataclass(frozen=True, eq=False)
class StepReach:
    """The way from all steps up to one.

    Attributes:
        maps: The matrices, each divided by its size, (t + 1, 2, 2).
        log_size: Logarithms of the sizes.
    """

    maps: np.ndarray
    log_size: np.ndarray

    def carry(
        self, earlier: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gaussians of earlier steps, carried forward.

        Args:
            earlier: Step that each of them is of, (n,).
            mean: Their means, (n, d).
            variance: Their variances, (n, d).
        """
        maps = self.maps[earlier][:, :, :, None]
        below = maps[:, 1, 0] * variance + maps[:, 1, 1]
        ahead = np.exp(-self.log_size[earlier])[:, None] * mean / below
        return ahead, (maps[:, 0, 0] * variance + maps[:, 0, 1]) / below


def forward(prior: str, dates: np.ndarray, drift: float, scale: float) -> Forward:
    """The prediction over these dates.

    Args:
        prior: Its name.
        dates: When each step begins.
        drift: Variance that an embedding gathers in a year.
        scale: Width of the pull towards zero.
    """
    return Forward(prior, drift * np.diff(years(dates)), scale)
