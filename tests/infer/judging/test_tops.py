"""Posteriors with two tops, whose shares are known by symmetry, and chains that see one of them."""

import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl
from driftline.infer.judging.tops import Top, unvisited
from driftline.results.refining import _tops

WALK = np.array([0.2, 0.9, 0.4, 1.8, 1.5, 2.9, 2.4, 3.6])


def predicted(z, p):
    """One function for all cases, so that they share what is compiled."""
    b = p["b"]
    return p["product"] * b * z + p["sum"] * (z + b) + p["bent"] * (z + (b - 3.0) ** 2) + p["sign"] * (
        z + jnp.abs(b)
    )  # fmt: skip


def likelihood(x, z, p):
    return -0.5 * ((x - predicted(z, p)) / 0.3) ** 2


def belief(b):
    return -0.5 * (b / 3.0) ** 2


def seen_by(what, x=2.0 + WALK):
    """A fit of a walk and a number, of which only one thing that is predicted from both is seen."""
    kinds = {kind: float(kind == what) for kind in ("product", "sum", "bent", "sign")}
    seen = dl.Likelihood(likelihood, params={"b": dl.learn(1.0, prior=belief), **kinds}, elementwise=True)
    return dl.fit(dl.Model(dl.RandomWalk(0.2), seen), x)


def mirrored():
    """A path that is seen by its square, from a start on one side."""
    prior = dl.MarkovPrior(
        initial=lambda z: -0.5 * z**2,
        transition=lambda z, before, dt: -0.5 * ((z - 0.9 * before) / 0.3) ** 2,
        start=2.0,
    )
    square = dl.Likelihood(lambda x, z: -0.5 * ((x - z**2) / 0.5) ** 2, elementwise=True)
    return dl.fit(dl.Model(prior, square), (2.0 + 0.2 * WALK) ** 2)


@pytest.mark.parametrize(
    "fit", [lambda: seen_by("product"), pytest.param(mirrored, marks=pytest.mark.slow)], ids=["b z", "z z"]
)
def test_chains_that_agree_about_one_of_two_tops_are_not_called_good(fit, tmp_path):
    found = fit().refine(draws=200, progress=False)
    assert found.r_hat < 1.05  # all of them start around one top, and stay there
    assert found.elsewhere == pytest.approx(0.5, abs=0.01)
    assert found.flagged
    assert found.verdict.startswith("doubtful: about 50% of the posterior lies around other tops that these")
    found.save(tmp_path / "draws")
    assert dl.load(tmp_path / "draws").verdict == found.verdict


def test_another_top_of_a_learnt_number_is_found_that_is_not_its_other_sign():
    first, second = _tops(seen_by("bent")._problem(), seed=0)
    # But for their prior, both sides of 3 are the same, so that this decides; its slope moves the tops a bit.
    np.testing.assert_allclose(first.raw + second.raw, 6.0, atol=0.1)
    change = float(belief(second.raw[0]) - belief(first.raw[0]))
    assert second.log_mass - first.log_mass == pytest.approx(change, abs=0.1)


def test_a_fit_whose_points_lie_on_both_sides_has_a_top_on_either():
    post = seen_by("sign")
    assert abs(post.parameters["likelihood.b"].mean) < 1.0
    first, second = _tops(post._problem(), seed=0)
    np.testing.assert_allclose(first.raw, -second.raw, rtol=1e-3)
    assert abs(first.raw[0]) > 2.0


@pytest.mark.parametrize("num_steps", [1, 2, 8])
def test_a_posterior_with_one_top_has_no_other(num_steps):
    assert len(_tops(seen_by("sum", 2.0 + WALK[:num_steps])._problem(), seed=0)) == 1


def two_tops(log_mass):
    def top(sign, log_mass):
        return Top(np.full(1, sign), np.full((1, 1), 0.01), np.full(3, sign), np.full(3, 0.1), log_mass)

    return [top(1.0, 0.0), top(-1.0, log_mass)]


@pytest.mark.parametrize(("visits", "expected"), [(0, 0.2), (1, 0.2), (20, 0.0), (100, 0.8)])
def test_only_tops_without_their_share_of_draws_are_missed(visits, expected):
    signs = np.repeat([-1.0, 1.0], [visits, 100 - visits]).reshape(4, 25)
    noise = 0.1 * np.random.default_rng(0).normal(size=(4, 25, 3))
    raws, paths = signs[:, :, None] + noise[..., :1], signs[:, :, None] + noise
    assert unvisited(two_tops(np.log(0.25)), raws, paths) == pytest.approx(expected)
