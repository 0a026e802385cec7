"""The series that all contestants are given: daily returns of the S&P 500, and simulated counts."""

import sys
from typing import Any, NamedTuple

import numpy as np

VOLATILITY, COUNTS = "volatility", "counts"
# Found once by `dl.fit(dl.StochasticVolatility(), returns, parameters="maximise")`, then rounded.
SP500 = {"mean": -0.2, "decay": 0.984, "scale": 0.18}
POISSON = {"mean": 1.0, "decay": 0.98, "scale": 0.15}


class Problem(NamedTuple):
    """A model with fixed numbers, and data.

    Attributes:
        kind: `VOLATILITY` or `COUNTS`.
        mean: Level of the AR(1) path.
        decay: Correlation of its neighbouring steps.
        scale: Standard deviation of its noise.
        values: The data.
    """

    kind: str
    mean: float
    decay: float
    scale: float
    values: np.ndarray

    @property
    def model(self) -> Any:
        """The model in driftline."""
        import driftline as dl

        likelihood = dl.LogVolatility() if self.kind == VOLATILITY else dl.Poisson()
        return dl.Model(dl.AR1(self.mean, self.decay, self.scale), likelihood)

    def save(self, file: Any) -> None:
        """Write to a file that a process with other versions of everything can read."""
        np.savez(file, **self._asdict())


def load(file: Any) -> Problem:
    """Read what `Problem.save` wrote."""
    with np.load(file) as data:
        numbers = {name: float(data[name]) for name in ("mean", "decay", "scale")}
        return Problem(kind=str(data["kind"]), values=data["values"], **numbers)


def make(kind: str, num_steps: int) -> Problem:
    """Data of the given kind, from the beginning up to a length."""
    if kind == VOLATILITY:
        return Problem(VOLATILITY, **SP500, values=sp500()[:num_steps])
    return counts(num_steps)


def counts(num_steps: int) -> Problem:
    """Poisson counts, simulated from the model that is fitted to them."""
    problem = Problem(COUNTS, **POISSON, values=np.zeros(num_steps))
    return problem._replace(values=np.asarray(problem.model.simulate(num_steps, seed=1)[1], float))


def sp500() -> np.ndarray:
    """Log returns of the S&P 500, 1999 to 2018, in percent and without their mean."""
    from arch.data import sp500

    prices = sp500.load()["Adj Close"].to_numpy()
    values = 100 * np.diff(np.log(prices))
    return values - values.mean()


if __name__ == "__main__":
    make(sys.argv[1], int(sys.argv[2])).save(sys.argv[3])
