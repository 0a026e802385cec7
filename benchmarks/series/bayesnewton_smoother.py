"""BayesNewton's side of the comparison; run as a file, by the Python of an environment of its own.

    python -P series_bayesnewton.py PROBLEM.npz RESULT.npz SEEDS

It imports nothing of this project, whose versions it cannot live with.
"""

import json
import math
import resource
import sys
import time

import bayesnewton
import jax
import jax.numpy as jnp
import numpy as np
import objax

IMPORTED = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
MOST_ITERATIONS = 25


class LogVolatility(bayesnewton.likelihoods.Likelihood):
    """Returns whose log variance is the latent function plus a constant."""

    def __init__(self, mean):
        super().__init__()
        self.mean = mean

    def evaluate_log_likelihood(self, y, f):
        """Log density of returns at one or several values of the latent function."""
        log_variance = f + self.mean
        density = math.log(2 * math.pi) + log_variance + y * y * jnp.exp(-log_variance)
        return -0.5 * jnp.squeeze(density)


class ClosedLogVolatility(LogVolatility):
    """The same, with expectations in closed form."""

    def variational_expectation_(self, y, m, v, cubature=None):
        """Expected log density, and its first two derivatives by the mean."""
        level = m + self.mean
        square = y * y * jnp.exp(0.5 * v - level)
        return -0.5 * (math.log(2 * math.pi) + level + square), -0.5 * (1 - square), -0.5 * square


class ClosedPoisson(bayesnewton.likelihoods.Poisson):
    """Counts, with expectations in closed form."""

    def variational_expectation_(self, y, m, v, cubature=None):
        """Expected log density, and its first two derivatives by the mean."""
        rate = self.binsize * jnp.exp(m + 0.5 * v)
        value = y * (m + jnp.log(self.binsize)) - rate - jax.scipy.special.gammaln(y + 1)
        return value, y - rate, -rate


class Fit:
    """A model with its compiled iteration and ELBO, which can be put back to where it began.

    The same model as everyone's: a Matérn-1/2 process of mean zero, with the prior's mean put into the
    likelihood.
    """

    def __init__(self, data, *, closed):
        mean, decay, scale = (float(data[name]) for name in ("mean", "decay", "scale"))
        if str(data["kind"]) == "volatility":
            likelihood = (ClosedLogVolatility if closed else LogVolatility)(mean)
        else:
            likelihood = (ClosedPoisson if closed else bayesnewton.likelihoods.Poisson)(math.exp(mean))
        values = data["values"]
        self.model = bayesnewton.models.MarkovVariationalGP(
            kernel=bayesnewton.kernels.Matern12(variance=scale**2 / (1 - decay**2), lengthscale=1.0),
            likelihood=likelihood,
            # Its softplus overflows for long length-scales: time is measured in length-scales instead.
            X=-math.log(decay) * np.arange(len(values), dtype=float),
            Y=values,
        )
        self._variables = self.model.vars()
        self._begun = [variable.value for variable in self._variables]
        self._step = objax.Jit(self._iterate, self._variables)
        self._elbo = objax.Jit(lambda: -self.model.energy(), self._variables)

    def _iterate(self):
        self.model.inference(lr=1.0)
        return self.model.posterior_mean.value

    def run(self, iterations):
        """Seconds of every iteration from the beginning, and the ELBO after it, which is off the clock."""
        for variable, value in zip(self._variables, self._begun):  # noqa: B905 - the same variables twice
            variable.assign(value)
        seconds, elbos = [], []
        for _ in range(iterations):
            began = time.perf_counter()
            jax.block_until_ready(self._step())
            seconds.append(time.perf_counter() - began)
            elbos.append(float(self._elbo()))
        return seconds, elbos


def main(problem, out, seeds):
    """Time runs as shipped, then single iterations with expectations in closed form."""
    with np.load(problem) as file:
        data = dict(file)
    fit = Fit(data, closed=False)
    (first, *_), _ = fit.run(1)  # compiles
    runs = [fit.run(MOST_ITERATIONS) for _ in range(seeds)]
    mean = np.asarray(fit.model.posterior_mean.value).ravel() + float(data["mean"])
    np.savez(out, mean=mean, sd=np.sqrt(np.asarray(fit.model.posterior_variance.value).ravel()))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - IMPORTED
    fastest = min(min(seconds) for seconds, _ in runs)
    closed, closed_elbos = Fit(data, closed=True).run(2 * MOST_ITERATIONS)
    result = {
        "compile": first - fastest,
        "iteration": fastest,
        "iteration_closed": min(closed),
        "traces": [list(zip(np.cumsum(seconds).tolist(), elbos)) for seconds, elbos in runs],  # noqa: B905
        "elbos": [runs[-1][1][-1]],
        "elbo_closed": closed_elbos[-1],
        "rss": grown * (1 if sys.platform == "darwin" else 1024),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
