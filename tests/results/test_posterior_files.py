"""Files of posteriors whose checksum fits and whose content does not hold together."""

import numpy as np
import pytest

import driftline as dl
from driftline.results.posterior import KIND
from driftline.storage import checked_files as files

DATES = np.array(["2024-01-01", "2024-01-02", "2024-01-05", "2024-01-06"], dtype="datetime64[D]")
SCALE = "prior.scale"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Arrays and facts of a posterior with dates, learnt numbers, quantiles and a gap in its series."""
    model = dl.Model(dl.RandomWalk(dl.learn(0.5, positive=True)), dl.Gaussian(0.3))
    path = tmp_path_factory.mktemp("posterior") / "post"
    dl.fit(model, [1.0, np.nan, 2.0, 1.5], times=DATES, progress=False).save(path)
    return files.read(path, KIND)


BROKEN = {
    "there are 4 steps and 3 values": lambda a, f: a.update(values=a["values"][:-1]),
    "times has shape (3,), but the series has 4": lambda a, f: a.update(times=a["times"][:-1]),
    "times must increase": lambda a, f: a["times"].__setitem__(1, a["times"][0]),
    "times has dtype float64": lambda a, f: a.update(times=a["times"].astype(np.float64)),
    "the type of times is 'object'": lambda a, f: f.update(times="object"),
    "the type of time_unit is 'float64'": lambda a, f: f.update(time_unit=[1, "float64"]),
    "time_unit is 0 of timedelta64[ns]": lambda a, f: f.update(time_unit=[0, "timedelta64[ns]"]),
    "time_unit is 'D'": lambda a, f: f.update(time_unit="D"),
    "q.mean has a number that is not finite": lambda a, f: a["q.mean"].__setitem__(0, np.nan),
    "q.mean has dtype float32": lambda a, f: a.update({"q.mean": a["q.mean"].astype(np.float32)}),
    "q.upper has shape (2,), and (3,) goes": lambda a, f: a.update({"q.upper": a["q.upper"][:-1]}),
    "q.diag has a diagonal that is not positive": lambda a, f: a["q.diag"].__setitem__(0, -1.0),
    "the family is 'Cauchy', not one of": lambda a, f: f.update(family="Cauchy"),
    "q.upper, which is not of a MeanField": lambda a, f: f.update(family="MeanField"),
    "it has no q.factor": lambda a, f: f.update(family="FullRank"),
    "it has no q.diag": lambda a, f: a.pop("q.diag"),
    "it has no values": lambda a, f: a.pop("values"),
    "it has no 'message'": lambda a, f: f.pop("message"),
    "it has more, which is not of a": lambda a, f: a.update(more=np.zeros(2)),
    "all values are missing": lambda a, f: a["values"].fill(np.nan),
    "a value is infinite": lambda a, f: a["values"].__setitem__(0, np.inf),
    "values has dtype int64": lambda a, f: a.update(values=np.arange(4)),
    "elbo is not a number": lambda a, f: f.update(elbo="high"),
    "elbo_error is negative": lambda a, f: f.update(elbo_error=-1.0),
    "converged is neither true nor false": lambda a, f: f.update(converged=1),
    "iterations is not a whole number": lambda a, f: f.update(iterations=2.5),
    "the method is not text": lambda a, f: f.update(method=None),
    "weights of prior.scale sum to 2 instead of 1": lambda a, f: a.update(
        {f"weights of {SCALE}": 2 * a[f"weights of {SCALE}"]}
    ),
    "weights of prior.scale has a negative": lambda a, f: a[f"weights of {SCALE}"].__setitem__(0, -0.5),
    "values and weights of prior.scale do not": lambda a, f: a.update(
        {f"values of {SCALE}": a[f"values of {SCALE}"][:-1]}
    ),
    "values of prior.scale has a number that is not": lambda a, f: a[f"values of {SCALE}"].__setitem__(
        0, np.nan
    ),
    "it has no values of prior.rate": lambda a, f: f.update(parameters=["prior.rate"]),
    "parameters repeat": lambda a, f: f.update(parameters=[SCALE, SCALE]),
    "quantiles has shape (18, 4)": lambda a, f: a.update(quantiles=a["quantiles"][:-1]),
    "quantiles do not increase": lambda a, f: a.update(quantiles=a["quantiles"][::-1].copy()),
    "has the part 'Pickle', which is none of": lambda a, f: f["model"]["prior"].update(part="Pickle"),
    "must be greater than zero": lambda a, f: f["model"]["prior"]["arguments"].update(scale=-1.0),
    "has other numbers, or fewer": lambda a, f: f["model"]["prior"]["arguments"].pop("initial_mean"),
    "shape () at a step, and the prior (2,)": lambda a, f: f["model"]["prior"]["arguments"].update(shape=[2]),
    "Poisson takes whole numbers": lambda a, f: f["model"].update(
        likelihood={"part": "Poisson", "arguments": {"exposure": 1.0}}
    ),
    "the model is not an object": lambda a, f: f.update(model=[]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_does_not_hold_together_is_refused(written, what, tmp_path):
    arrays, facts = {name: array.copy() for name, array in written[0].items()}, _copied(written[1])
    BROKEN[what](arrays, facts)
    files.write(tmp_path / "some.post", KIND, arrays, facts)
    with pytest.raises(
        ValueError, match=r"some\.post does not hold a sound posterior .* fit and save it"
    ) as caught:
        dl.load(tmp_path / "some.post")
    assert what in str(caught.value)


def _copied(value):
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def test_learnt_numbers_and_quantiles_come_back_the_same(written, tmp_path):
    files.write(tmp_path / "post", KIND, *written)
    post = dl.load(tmp_path / "post")
    post.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "post").read_bytes()
    assert post.parameters[SCALE].mean > 0
    np.testing.assert_array_equal(post.quantiles, written[0]["quantiles"])
