"""Where the posterior of a few numbers is: how far it reaches, and points that cover it with its tails.

Numbers are seen along the axes of a covariance, in standard deviations. A search along each axis, to both
sides, finds where the posterior has fallen to nothing; slow tails, such as that of the logarithm of a scale
that may as well be zero, are followed as far as they go.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from driftline.infer.quadrature import quasi_normal

FALLEN = 12.0  # nats below the top at which a tail has ended
CURVED = 1.0  # nats below the top at which its width is read off
FARTHEST = 60.0  # on the scale without bounds: beyond, a posterior has no end
FALLING = 0.1  # nats by which the mass of a tail falls when it is followed twice as far
FIRST = 1.0  # standard deviations of the first look; every look is twice as far
WIDE_SHARE, WIDE = 0.3, 3.0  # part of quasi-random points from a wider density, against heavy tails
FINE, COARSE = 0.2, 0.3  # spacing of a grid, on a scale that is stretched outwards
EDGE = 1e-4  # share of the weight that the outermost points of a grid may have

Heights = Callable[[np.ndarray], np.ndarray]


class Frame(NamedTuple):
    """Axes around a centre; columns of `axes` are as long as the standard deviation along them.

    Attributes:
        center: The centre.
        axes: The axes, orthogonal once the numbers are divided by their scales.
        scales: Of the numbers; the smaller, the more an axis goes along one with all that depends on it.
        units: Of the numbers, for how far is far.
    """

    center: np.ndarray
    axes: np.ndarray
    scales: np.ndarray
    units: np.ndarray

    @classmethod
    def of(cls, center: np.ndarray, covariance: np.ndarray, scales: np.ndarray, units: np.ndarray) -> "Frame":
        """The axes of a covariance."""
        sizes, axes = np.linalg.eigh(covariance / (scales[:, None] * scales))
        return cls(center, scales[:, None] * axes * np.sqrt(np.maximum(sizes, 1e-20)), scales, units)

    @property
    def lengths(self) -> np.ndarray:
        """Of the axes, in units of the numbers."""
        return np.linalg.norm(self.axes / self.units[:, None], axis=0)

    def place(self, apart: np.ndarray) -> np.ndarray:
        """Points, from distances along the axes, (P, K)."""
        return self.center + apart @ self.axes.T

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume that the axes span."""
        return float(np.linalg.slogdet(self.axes)[1])


class Reach(NamedTuple):
    """How far a posterior reaches along its axes, to the lower side and to the upper, (2, K).

    Attributes:
        width: Standard deviation of the normal density that falls as much near the top.
        end: Distance at which nothing is left; infinite if there is no such.
        seen: The points that were looked at, (P, K), as distances along the axes.
        heights: Log posterior there.
    """

    width: np.ndarray
    end: np.ndarray
    seen: np.ndarray
    heights: np.ndarray


def reach(frame: Frame, top: float, heights: Heights) -> Reach:
    """Look along all axes, twice as far each time, until the posterior has fallen.

    Args:
        frame: The axes.
        top: Log posterior at the centre.
        heights: Log posterior at points, (P, K); minus infinity where there is none.
    """
    dim = len(frame.center)
    lengths = frame.lengths
    signs = np.array([-1.0, 1.0])[:, None]
    width, end = np.full((2, dim), np.nan), np.full((2, dim), np.inf)
    before = np.full((2, dim), top)  # heights of the look before
    seen, found, distance = [], [], FIRST
    while True:
        going = np.isinf(end) & (distance * lengths < FARTHEST)
        if not going.any():
            break
        sides, axes = np.nonzero(going)
        apart = np.zeros((len(axes), dim))
        apart[np.arange(len(axes)), axes] = distance * signs[sides, 0]
        values = heights(frame.place(apart))
        falls = np.where(np.isneginf(values), np.inf, top - np.where(np.isneginf(values), 0.0, values))
        for row, (side, axis, fall) in enumerate(zip(sides, axes, falls, strict=True)):
            if np.isnan(width[side, axis]) and fall >= CURVED:
                width[side, axis] = (
                    distance / np.sqrt(2.0 * max(fall, CURVED)) if np.isfinite(fall) else distance
                )
            # Twice as far out lies twice as much room: a tail has an end if its mass falls all the same.
            falls_off = values[row] + np.log(2.0) + FALLING < before[side, axis]
            is_last = 2.0 * distance * lengths[axis] >= FARTHEST
            if fall >= FALLEN or (is_last and falls_off):
                end[side, axis] = distance
            before[side, axis] = values[row]
        seen.append(apart)
        found.append(values)
        top = max(top, float(values.max()))
        distance *= 2.0
    width = np.where(np.isnan(width), 1.0, np.clip(width, 0.25, None))
    return Reach(width, end, np.concatenate(seen), np.concatenate(found))


class Points(NamedTuple):
    """Points with what turns heights into weights.

    Attributes:
        apart: Distances along the axes, (P, K).
        log_density: Log of the density that they were drawn from, or of one over the volume of a grid's cell
            and the number of points.
        outermost: Which of them are at each end of each axis, (2, K, P); of points that were drawn, none.
    """

    apart: np.ndarray
    log_density: np.ndarray
    outermost: np.ndarray


def grid(ends: np.ndarray, unit: np.ndarray, spacing: float = FINE) -> Points:
    """A grid that is dense in the middle and reaches to the ends.

    Args:
        ends: Distances of the lower and the upper end of each axis, (2, K).
        unit: Scale of the middle along each axis, (K,).
        spacing: Of the points there, in that unit.
    """
    dim = ends.shape[1]
    scales = []
    for axis in range(dim):
        low, high = np.arcsinh(ends[:, axis] / unit[axis])
        scales.append(np.linspace(-low, high, max(5, int(np.ceil((low + high) / spacing)) + 1)))
    mesh = np.stack(np.meshgrid(*scales, indexing="ij"), axis=-1).reshape(-1, dim)
    steps = np.array([scale[1] - scale[0] for scale in scales])
    log_cells = np.sum(np.log(unit * np.cosh(mesh) * steps), axis=1)
    outermost = np.stack([mesh == [scale[i] for scale in scales] for i in (0, -1)]).transpose(0, 2, 1)
    return Points(unit * np.sinh(mesh), -log_cells - np.log(len(mesh)), outermost)


def drawn(count: int, width: np.ndarray) -> Points:
    """Quasi-random points of a density with another width to either side of each axis, and of a wider one.

    Args:
        count: Number of points.
        width: Of the lower and of the upper side, (2, K).
    """
    white = quasi_normal(count, width.shape[1])
    wide = np.arange(count) % round(1 / WIDE_SHARE) == 0
    white = white * np.where(wide, WIDE, 1.0)[:, None]
    apart = white * np.where(white < 0, width[0], width[1])
    nowhere = np.zeros((2, width.shape[1], count), bool)
    return Points(apart, log_density(apart, width), nowhere)


def log_density(apart: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Log density of points as `drawn` draws them.

    To either side lies half of the mass, whatever the widths: a density that jumps at the centre, but whose
    points are easily drawn.
    """
    share = 1.0 / round(1 / WIDE_SHARE)
    own = np.where(apart < 0, width[0], width[1])
    square = np.sum((apart / own) ** 2, axis=1)
    constant = -np.sum(np.log(own), axis=1) - 0.5 * apart.shape[1] * np.log(2 * np.pi)
    wider = np.log(share) - 0.5 * square / WIDE**2 - apart.shape[1] * np.log(WIDE)
    return np.logaddexp(np.log1p(-share) - 0.5 * square, wider) + constant
