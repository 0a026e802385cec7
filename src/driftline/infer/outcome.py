"""What a method of inference hands back to `fit`."""

import dataclasses

import numpy as np

from driftline.families import AbstractFamily


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A fitted family and how the fit went.

    Attributes:
        q: The fitted Gaussian over paths.
        elbo: Evidence lower bound in nats.
        elbo_error: Standard error of `elbo`; zero where it was not estimated from draws.
        converged: Whether the method's own stopping rule was met.
        iterations: Number of gradient or Newton steps taken.
        message: One sentence on how the fit ended.
        history: Arrays over the iterations, such as `elbo`, `gradient_norm` and `rate`.
        quantiles: Quantiles of every step at `mixture_quantiles.SCORES`, in standard deviations from the
            mean, where `q` has only the moments of a mixture; None where `q` is all there is.
    """

    q: AbstractFamily
    elbo: float
    elbo_error: float
    converged: bool
    iterations: int
    message: str
    history: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    quantiles: np.ndarray | None = None
