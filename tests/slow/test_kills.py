"""A fit that is killed at any moment goes on to the same atlas, bit by bit."""

import random
import time

import pytest

from support.corpora import small_counts
from support.processes import fit

KILLS = 50


@pytest.mark.slow
def test_fifty_kills_and_fifty_resumes_end_in_the_same_file(tmp_path):
    small_counts(tmp_path / "counts.counts")
    atlas, part = tmp_path / "out.atlas", tmp_path / "out.atlas.part"
    started = time.monotonic()
    _, err = fit(tmp_path).communicate()
    seconds = time.monotonic() - started
    assert not err, err
    expected = atlas.read_bytes()
    rng = random.Random(0)
    kills = resumes = finished = 0
    while kills < KILLS or resumes < KILLS or not atlas.exists():
        atlas.unlink(missing_ok=True)
        is_enough = kills >= KILLS and resumes >= KILLS
        resume = ["--resume"] if part.exists() else []
        resumes += len(resume)
        process = fit(tmp_path, *resume)
        if not is_enough:
            time.sleep(rng.uniform(0.0, 0.8 * seconds))
            kills += process.poll() is None
            process.kill()
        _, err = process.communicate()
        assert not err, err
        if atlas.exists():
            finished += 1
            assert atlas.read_bytes() == expected
    print(
        f"\n{kills} kills, {resumes} resumes, {finished} atlases, all the same; {seconds:.1f} s without kills"
    )
    assert {path.name for path in tmp_path.iterdir()} <= {"counts.counts", "out.atlas", "out.atlas.part"}
