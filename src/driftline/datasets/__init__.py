"""Two classic series that ship with the package.

Sources: annual flow of the Nile at Aswan, 1871 to 1970, in 10⁸ m³ (Cobb 1978, Biometrika 65); yearly
numbers of British coal-mining disasters with ten or more deaths, 1851 to 1962 (Jarrett 1979, Biometrika 66).
"""

from importlib import resources
from typing import NamedTuple

import numpy as np


class Series(NamedTuple):
    """A dated series."""

    years: np.ndarray
    values: np.ndarray


def nile() -> Series:
    """Annual flow of the Nile, 100 years; the level falls around 1899."""
    return _read("nile.csv")


def coal() -> Series:
    """Yearly numbers of coal-mining disasters, 112 years; the rate falls around 1890."""
    return _read("coal.csv")


def _read(name: str) -> Series:
    with (resources.files(__name__) / name).open(encoding="utf-8") as file:
        years, values = np.loadtxt(file, delimiter=",", skiprows=1, unpack=True)
    return Series(years.astype(int), values)
