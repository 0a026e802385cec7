"""Posteriors that users copy, or send to other processes: in double precision, whatever JAX is set to."""

import copy
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import driftline as dl

# In a process of its own, since tests set JAX to double precision; the spawned one gets its posterior from
# the serialiser of the standard library.
SCRIPT = """\
import concurrent.futures, multiprocessing
import jax, numpy as np
import driftline as dl

def looked_at(post):
    verdict = post.diagnose(seed=1)
    return str(post.q.mean.dtype), post.mean, post.sample(2), str(verdict), jax.config.jax_enable_x64

def told(panel):
    post = panel["b"]
    return str(post.q.mean.dtype), post.mean, post.sd, jax.config.jax_enable_x64

if __name__ == "__main__":
    model = dl.Model(dl.RandomWalk(0.5), dl.Poisson())
    post = dl.fit(model, [1.0, np.nan, 2.0, 1.0, 3.0], progress=False)
    panel = dl.fit(model, {"a": [1.0, 2.0], "b": [3.0, 1.0, 0.0]}, progress=False)
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawned) as pool:
        for look, fitted in ((looked_at, post), (told, panel)):
            there, here = pool.submit(look, fitted).result(), look(fitted)
            assert there[0] == "float64" and there[-1] is False, there
            for one, other in zip(here, there, strict=True):
                np.testing.assert_array_equal(one, other)
    print("the same")
"""


def test_a_posterior_is_the_same_in_a_spawned_process(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("family", ["GaussMarkov", "MeanField", "BlockGaussMarkov", "FullRank"])
def test_copies_of_families_keep_their_leaves(copied, family):
    leaves = {
        "GaussMarkov": (np.arange(3.0), np.ones(3), np.zeros(2)),
        "MeanField": (np.arange(3.0), np.ones(3)),
        "BlockGaussMarkov": (np.zeros((2, 1)), np.ones((2, 1, 1)), np.zeros((1, 1, 1))),
        "FullRank": (np.arange(2.0), np.eye(2)),
    }[family]
    member = getattr(dl, family)(*map(jnp.asarray, leaves))
    again = copied(member)
    assert type(again) is type(member)
    for name, leaf in vars(member).items():
        assert type(vars(again)[name]) is type(leaf)
        np.testing.assert_array_equal(vars(again)[name], leaf)
        assert vars(again)[name].dtype == leaf.dtype
