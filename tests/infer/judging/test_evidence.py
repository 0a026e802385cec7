"""The log evidence of a diagnosis, against a filter on a dense grid."""

import numpy as np
import pytest
from scipy import stats

import driftline as dl

NUM_STEPS = 12
LIKELIHOODS = {
    "poisson": (dl.Poisson(), lambda x, z: stats.poisson.logpmf(x, np.exp(z))),
    "bernoulli": (dl.Bernoulli(), lambda x, z: stats.bernoulli.logpmf(x, 1 / (1 + np.exp(-z)))),
    "student": (dl.StudentT(3.0, 0.5), lambda x, z: stats.t.logpdf((x - z) / 0.5, 3.0) - np.log(0.5)),
    "volatility": (dl.LogVolatility(), lambda x, z: stats.norm.logpdf(x, 0, np.exp(z / 2))),
    "gaussian": (dl.Gaussian(0.7), lambda x, z: stats.norm.logpdf(x, z, 0.7)),
}


def evidence_on_a_grid(x, scale, log_likelihood):
    """Of a random walk from N(0, 1), by the sum over a grid of all paths, step after step."""
    reach = 1.0 + scale * np.sqrt(NUM_STEPS)
    grid = np.linspace(-9 * reach, 9 * reach, 3001)
    spacing = grid[1] - grid[0]
    step = stats.norm.pdf(grid[:, None], grid, scale) * spacing
    mass, total = stats.norm.pdf(grid) * spacing, 0.0
    for t, value in enumerate(x):
        mass = mass if t == 0 else step @ mass
        with np.errstate(under="ignore", over="ignore", divide="ignore"):
            log_terms = log_likelihood(value, np.clip(grid, -600, 600))
            mass = mass * np.exp(log_terms - log_terms.max())
        total += log_terms.max() + np.log(mass.sum())
        mass = mass / mass.sum()
    return total


def share_within_error(names, seeds):
    inside = []
    for name in names:
        likelihood, log_likelihood = LIKELIHOODS[name]
        for seed in seeds:
            scale = float(np.exp(np.random.default_rng(seed).uniform(np.log(0.3), np.log(1.5))))
            model = dl.Model(dl.RandomWalk(scale), likelihood)
            _, x = model.simulate(NUM_STEPS, seed=seed)
            found = dl.fit(model, x).diagnose(seed=seed)
            truth = evidence_on_a_grid(x, scale, log_likelihood)
            inside.append(abs(found.log_evidence - truth) <= found.log_evidence_error + 1e-6)
    return np.mean(inside)


def test_the_evidence_is_within_its_error():
    # Ten at a rate of 95 %: fewer than seven with a probability of 1e-3.
    assert share_within_error(["volatility"], range(10)) >= 0.7


@pytest.mark.slow
def test_the_evidence_is_within_its_error_in_nine_of_ten_cases():
    share = share_within_error(LIKELIHOODS, range(20))
    print(f"\n{share:.0%} of 100 within the stated error")
    assert share >= 0.9
