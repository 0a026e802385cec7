"""States come back from their arrays, which have the names and types that files of this format have."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from driftline import words
from driftline.words.fitting.problem import FittingProblem
from driftline.words.fitting.trainers import make_trainer
from driftline.words.settings import WordSettings
from support.words import small_counts

EARLIER = Path(__file__).parents[2] / "storage" / "earlier" / "0.1"
FLOATS, WIDE, SMALL, WHOLE = np.float32, np.float64, np.int32, np.int64
SIDES = ("word", "context")
MOMENTS = {f"{name}": FLOATS for name in ("words", "contexts", "word_variances", "context_variances")}
FAST = MOMENTS | {
    "drift": WIDE, "scale": WIDE, "paces": WIDE, "pace": SMALL, "shares": WIDE, "boldness": WIDE,
    "passes": WHOLE,
    "objective": WIDE, "settled": bool, "taken_back": bool, "turns": bool, "widened": WIDE, "paths": bool,
}  # fmt: skip
POINTS = {name: FLOATS for name in ("words", "contexts", "now_words", "now_contexts")}
STEPWISE = POINTS | {"now_objective": WIDE, "now_open": WHOLE}
FILTER = STEPWISE | MOMENTS | {f"now_{side}_variances": FLOATS for side in SIDES}
PUBLISHED = {f"{side}_count": SMALL for side in SIDES} | {
    f"{kind}{side}_{part}": FLOATS
    for side in SIDES
    for part in ("natural", "diag", "upper")
    for kind in ("", "first_", "second_")
}
LATER = {"divergence": WIDE, "word_noise": FLOATS, "context_noise": FLOATS}
CASES = {
    "dsg-s": ({}, FAST, 0),
    "dsg-s, moving": ({"passes": (1, 1)}, FAST | LATER, 2),
    "dsg-s, published": ({"optimiser": "paper", "passes": (1, 1)}, PUBLISHED, 2),
    "dsg-f": ({"method": "dsg-f", "passes": (3,)}, FILTER, 2),
    "sgi": ({"method": "sgi", "passes": (3,)}, STEPWISE, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_states_have_the_names_of_their_files_and_come_back(name):
    options, wanted, rounds = CASES[name]
    counts = small_counts()
    trainer = make_trainer(FittingProblem(counts, WordSettings(dim=2, **options), np.arange(len(counts))))
    state, history = trainer.begin(), []
    for done in range(rounds):
        phase = trainer.phase(done, history)
        state = trainer.advance(state, phase, done)
        history.append({"phase": phase.name} | trainer.seen(state))
    arrays = {name: np.asarray(array) for name, array in state.to_arrays().items()}
    assert {name: array.dtype for name, array in arrays.items()} == {
        name: np.dtype(dtype) for name, dtype in wanted.items()
    }
    again = trainer.state_type.from_arrays(arrays)
    assert jax.tree.structure(again) == jax.tree.structure(state)
    for leaf, old in zip(jax.tree.leaves(again), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(leaf, old)
    assert type(again) is type(state)


def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(tmp_path):
    """It was written in the last round of this fit, before states had types."""
    counts = words.load_counts(EARLIER / "counts.driftline")
    options = {"dim": 3, "seed": 0, "passes": (3, 2), "progress": False}
    shutil.copy(EARLIER / "checkpoint.driftline", tmp_path / "part")
    resumed = words.fit(counts, checkpoint=tmp_path / "part", resume=True, **options)
    begun = words.fit(counts, **options)
    assert resumed.history["done"] == begun.history["done"]
    # The sum of tens of thousands of terms in single precision, which other machines round in other ways.
    assert resumed.elbo == pytest.approx(begun.elbo, rel=1e-4)
    found, wanted = (atlas.similarity("w0", "w1").cosine for atlas in (resumed, begun))
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_the_fingerprint_of_a_fit_stays_what_it_was():
    """Or no checkpoint of an earlier version would be taken for one of the same fit."""
    settings = WordSettings(dim=3, passes=(3, 2))
    assert settings.signature == (
        "Settings(method='dsg-s', dim=3, drift=None, scale=None, prior='stationary', ratio=1.0, "
        "exponent=0.75, optimiser='fast', passes=(3, 2), seed=0)"
    )
