r"""How a filter's Gaussian travels over many steps at once.

One step of the papers' prediction (`drift.carry`) takes the variance $y$ to
$(y + q) / (1 + (y + q)/\sigma_0^2)$ and divides the mean by the same denominator. That is a Möbius map with
the matrix $\begin{pmatrix} 1 & q \\ \sigma_0^{-2} & 1 + q\,\sigma_0^{-2} \end{pmatrix}$, and several steps
are the product of their matrices, whatever the variance that they start from. So a step is reached from any
earlier one with four numbers, for all words and components alike.
"""

import dataclasses

import numpy as np

from driftline.words.atlas.drift import years


@dataclasses.dataclass(frozen=True, eq=False)
class Forward:
    """The prediction of a filter.

    Attributes:
        gained: Variance that is gathered between a step and the next, (T - 1,).
        scale: Width of the pull towards zero.
    """

    gained: np.ndarray
    scale: float

    def reach(self, step: int) -> "Reach":
        """How a step is reached from all steps up to it."""
        pull = self.scale**-2.0
        maps, shrinks = np.empty((step + 1, 2, 2)), np.zeros(step + 1)
        maps[step] = np.eye(2)
        for earlier in range(step - 1, -1, -1):
            gain = self.gained[earlier]
            product = maps[earlier + 1] @ np.array([[1.0, gain], [pull, 1.0 + gain * pull]])
            # Products of many maps overflow; their size is kept apart, in logarithms.
            size = product.max()
            maps[earlier] = product / size
            shrinks[earlier] = shrinks[earlier + 1] + np.log(size)
        return Reach(maps, shrinks)


@dataclasses.dataclass(frozen=True, eq=False)
class Reach:
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


def forward(dates: np.ndarray, drift: float, scale: float) -> Forward:
    """The prediction over these dates.

    Args:
        dates: When each step begins.
        drift: Variance that an embedding gathers in a year.
        scale: Width of the pull towards zero.
    """
    return Forward(drift * np.diff(years(dates)), scale)
