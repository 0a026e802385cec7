"""NUTS by rotations, on densities whose moments are known, and what its warm-up leaves behind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftline.infer.sampling import mixing, nuts

pytest.importorskip("blackjax")
WIDTHS = np.array([0.3, 1.0, 2.5])


def log_density(x):
    """Logs of gamma variables of shape 3, of some widths: skewed, with an exponential tail."""
    x = x / jnp.asarray(WIDTHS)
    return jnp.sum(3.0 * x - jnp.exp(x))


def sampled(**options):
    start = jax.random.normal(jax.random.key(0), (4, 3))
    return nuts.sample(log_density, lambda x: x, start, seed=1, report=lambda *_: None, **options)


def test_draws_have_the_moments_of_the_density():
    from scipy import special

    draws = sampled(warmup=300, draws=1000).draws
    mean = WIDTHS * special.digamma(3.0)
    squares = (draws - mean) ** 2
    variance = WIDTHS**2 * special.polygamma(1, 3.0)
    assert np.abs((draws.mean(axis=(0, 1)) - mean) / mixing.error_of_mean(draws)).max() < 4
    assert np.abs((squares.mean(axis=(0, 1)) - variance) / mixing.error_of_mean(squares)).max() < 4


def test_draws_are_made_with_the_widths_that_the_step_was_tuned_with(monkeypatch):
    advance, seen = nuts._advance, []

    def watched(log_density, positions, scale, tuning, key, tunes):
        seen.append((bool(tunes), np.asarray(scale.width)))
        return advance(log_density, positions, scale, tuning, key, tunes)

    monkeypatch.setattr(nuts, "_advance", watched)
    sampled(warmup=150, draws=50)
    tuned = [width for tunes, width in seen if tunes]
    drawn = [width for tunes, width in seen if not tunes]
    assert len(tuned) == 6
    assert len(drawn) == 2
    for width in drawn:
        np.testing.assert_array_equal(width, tuned[-1])
    # They were found out: far from one, and in the right order.
    assert np.all(np.diff(tuned[-1]) > 0)
    assert tuned[-1][0] < 0.6


@pytest.mark.parametrize("angle", [0.001, 0.05, 0.2, 0.46, 0.55, 0.7])
def test_half_a_turn_is_one_less_than_a_power_of_two_of_steps(angle):
    fitting = nuts._fitting(angle)
    assert fitting <= min(nuts.BOLD * angle, nuts.LONGEST)
    steps = 1.03 * np.pi / fitting
    np.testing.assert_allclose(np.log2(steps + 1) % 1.0, 0.0, atol=1e-9)
