import numpy as np
import pytest

import driftline as dl

pytest.importorskip("arviz_base")


def test_draws_and_data_arrive_with_their_times():
    dates = np.array(["2024-01-01", "2024-01-02", "2024-01-05", "2024-01-06"], dtype="datetime64[D]")
    post = dl.fit(
        dl.Model(dl.RandomWalk(dl.learn(0.3, positive=True)), dl.Poisson()), [3, None, 4, 6], times=dates
    )
    tree = post.to_arviz(200)
    path = tree["posterior"]["path"]
    assert path.dims == ("chain", "draw", "time")
    assert path.shape == (1, 200, 4)
    np.testing.assert_array_equal(path["time"].values.astype("datetime64[D]"), dates)
    np.testing.assert_array_equal(path.values[0], post.sample(200))
    scale = tree["posterior"]["prior.scale"]
    assert abs(float(scale.mean()) - float(post.parameters["prior.scale"].mean)) < 0.3 * float(scale.std())
    np.testing.assert_array_equal(tree["observed_data"]["observations"], [3, np.nan, 4, 6])


def test_paths_with_several_elements_and_corrected_draws():
    model = dl.Model(dl.RandomWalk(0.3, shape=(2,)), dl.Poisson())
    tree = dl.fit(model, [[3, 1], [2, 4], [0, 1]]).to_arviz(50, corrected=True, seed=1)
    assert tree["posterior"]["path"].shape == (1, 50, 3, 2)
