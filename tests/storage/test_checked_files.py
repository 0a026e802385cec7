import os

import numpy as np
import pytest

import driftline as dl
from driftline.storage import checked_files as files
from driftline.storage.kinds import FileKind

THING = FileKind("thing", 1, "a thing", "`make`")
ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "empty": np.zeros((0, 4)), "flag": np.array([True, False])}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "thing.dl"
    files.write(path, THING, ARRAYS, {"words": ["é", "\u0000"], "n": 3})
    return path


def test_what_is_written_is_read_back(path):
    arrays, facts = files.read(path, THING)
    assert facts == {"words": ["é", "\u0000"], "n": 3}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


@pytest.mark.parametrize("dtype", [">f8", ">i4", "<f4", "u1"])
def test_arrays_of_either_byte_order_are_read_back(dtype, tmp_path):
    array = np.arange(6).reshape(2, 3).astype(dtype).T
    files.write(tmp_path / "file", THING, {"a": array}, {})
    arrays, _ = files.read(tmp_path / "file", THING)
    np.testing.assert_array_equal(arrays["a"], array)


def test_every_flipped_byte_is_noticed(path):
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(ValueError, match=r"thing\.dl"):
            files.read(path, THING)


def test_every_truncation_is_noticed(path):
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(ValueError, match=r"thing\.dl"):
            files.read(path, THING)


def test_other_kinds_and_versions_are_refused(path):
    with pytest.raises(ValueError, match="holds a thing, not an atlas; pass a file that `fit` wrote"):
        files.read(path, FileKind("atlas", 1, "an atlas", "`fit`"))
    with pytest.raises(ValueError, match="a thing in format 1, written by driftline .* reads format 2"):
        files.read(path, THING._replace(version=2))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        files.read(path.with_name("other"), THING)


def test_objects_are_not_written(tmp_path):
    with pytest.raises(TypeError, match="array 'x' has dtype object"):
        files.write(tmp_path / "x", THING, {"x": np.array([None])}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(path, THING, {"a": np.ones(3)}, {})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_same_content_is_the_same_bytes(tmp_path):
    arrays = {name: np.arange(3.0) for name in "abcdef"}
    contents = set()
    for _ in range(5):
        files.write(tmp_path / "file", THING, arrays, {"b": 1, "a": [2]})
        contents.add((tmp_path / "file").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_permissions_of_a_new_file_follow_the_umask(path, mask):
    path.unlink()
    before = os.umask(mask)
    try:
        files.write(path, THING, ARRAYS, {})
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_kind_that_this_version_does_not_know_is_refused_by_name(path):
    with pytest.raises(ValueError, match=r"thing\.dl holds a 'thing', which this version of driftline"):
        dl.load(path)
