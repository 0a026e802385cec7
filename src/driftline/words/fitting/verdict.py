"""How a fit has ended."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """Whether a fit is at its end, and what ended it."""

    converged: bool
    message: str
