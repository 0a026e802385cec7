"""Sums of log densities and their derivatives to thirty digits, by mpmath.

`python tests/support/golden_likelihoods.py > tests/models/golden_likelihoods.json` writes them. mpmath is
not among the dependencies of the tests, so its numbers are kept. All inputs are binary fractions, the same
for NumPy and for mpmath.
"""

import json
import sys

NUM_STEPS = 250
SIZES = ["1e-3", "0.05", "0.7", "1", "4", "9.5", "10.5", "30", "1e3", "1e6", "1e9", "1e12", "1e16"]
SCALE = 0.75
COUNTS = [  # with logarithms of rates near them and far away
    (0, -3.0), (0, 4.0), (1, 0.25), (7, 2.0), (9, 30.0), (100_000, 11.515625), (10**8, 18.420684814453125),
    (10**12, 27.631021500), (10**12, 26.0), (2**52, 36.0436533891), (2**52, 36.04365338), (3, -700.0),
]  # fmt: skip
SUCCESSES = [  # with trials, and log odds near and far away
    (0, 5, 0.5), (5, 5, 0.5), (3, 5, 800.0), (2, 7, -3.0), (40, 10**6, -10.125), (10**6 - 40, 10**6, 10.125),
    (0, 10**15, -33.0), (1, 10**15, -33.0), (10**15 // 2, 10**15, 3e-8), (10**11, 10**12, -2.19722),
    (10**11, 10**12, 5.0), (10**15 // 3, 10**15, -0.6931471805), (12, 10**15, -20.0),
]  # fmt: skip


def path_at(step: int) -> float:
    """The path of the test, between -2 and 4."""
    return (step * 37 % 97) / 16 - 2.0


def weight_at(step: int) -> float:
    """The direction in which the path is moved."""
    return (step * 11 % 17) / 8 - 1.0


def distance_at(step: int) -> float:
    """Distance of a real observation from the path; one in fifty is an outlier."""
    return (step * 29 % 61) / 16 - 1.9375 + (40.0 if step % 50 == 7 else 0.0)


def count_at(step: int) -> int:
    """A count; one in fifty is large."""
    return step * 53 % 23 * (1000 if step % 50 == 7 else 1)


def _golden():
    import mpmath as mp

    mp.mp.prec = 300

    def student(z, df, scale, step):
        ratio = (mp.mpf(path_at(step)) + mp.mpf(distance_at(step)) - z) / scale
        half = (df + 1) / 2
        log_constant = mp.loggamma(half) - mp.loggamma(df / 2) - mp.log(mp.pi * df) / 2 - mp.log(scale)
        return log_constant - half * mp.log1p(ratio**2 / df)

    def negative_binomial(z, size, scale, step):
        mean, count = mp.exp(z) * scale, count_at(step)
        height = mp.loggamma(count + size) - mp.loggamma(size) - mp.loggamma(count + 1)
        return height + count * mp.log(mean / (mean + size)) - size * mp.log1p(mean / size)

    def total(term, moved, size, scale):
        steps = range(NUM_STEPS)
        return mp.fsum(term(mp.mpf(path_at(t)) + moved * mp.mpf(weight_at(t)), size, scale, t) for t in steps)

    def derivatives(term, size):
        size, scale = mp.mpf(float(size)), mp.mpf(SCALE)
        of_path = lambda moved: total(term, moved, size, scale)  # noqa: E731
        # Per relative change, so that a step of the difference has the right size at any number.
        of_size = lambda change: total(term, 0, size * (1 + change), scale)  # noqa: E731
        of_scale = lambda scale: total(term, 0, size, scale)  # noqa: E731
        return {
            "total": total(term, 0, size, scale),
            "path": [mp.diff(of_path, 0, n) for n in (1, 2)],
            "size": [mp.diff(of_size, 0, n) / size**n for n in (1, 2)],
            "scale": [mp.diff(of_scale, scale, n) for n in (1, 2)],
        }

    def poisson(count, log_rate):
        return count * mp.mpf(log_rate) - mp.exp(mp.mpf(log_rate)) - mp.loggamma(count + 1)

    def binomial(successes, trials, log_odds):
        log_odds = mp.mpf(log_odds)
        ways = mp.loggamma(trials + 1) - mp.loggamma(successes + 1) - mp.loggamma(trials - successes + 1)
        return ways + successes * log_odds - trials * mp.log1p(mp.exp(log_odds))

    terms = {"student": student, "negative binomial": negative_binomial}
    found = {name: {size: derivatives(term, size) for size in SIZES} for name, term in terms.items()}
    found["poisson"] = [poisson(*case) for case in COUNTS]
    found["binomial"] = [binomial(*case) for case in SUCCESSES]
    json.dump(found, sys.stdout, default=lambda number: mp.nstr(number, 30), indent=1)


if __name__ == "__main__":
    _golden()
