import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from driftline.storage import mapped_files
from driftline.storage.kinds import FileKind

THING = FileKind("thing", 1, "a thing", "`make`")
ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(3, dtype=np.int64),
    "empty": np.zeros((0, 4), np.float64),
    "c": np.array([7], np.int32),
}
FACTS = {"words": ["é", "\u0000"], "n": 3}


@pytest.fixture
def path(tmp_path):
    mapped_files.write(tmp_path / "thing.dl", THING, ARRAYS, FACTS)
    return tmp_path / "thing.dl"


def test_what_is_written_is_read_back_and_cannot_be_changed(path):
    arrays, facts = mapped_files.read(path, THING)
    assert facts == FACTS
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
        assert arrays[name].flags.aligned
    with pytest.raises(ValueError, match="read-only"):
        arrays["a"][0, 0] = 1.0


def test_safetensors_reads_it_too(path):
    for name, array in load_file(path).items():
        np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize("bit", [0x01, 0x10, 0x20])
def test_every_flipped_byte_is_noticed(path, bit):
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
        with pytest.raises(ValueError, match=r"thing\.dl is damaged"):
            mapped_files.read(path, THING)


def test_every_truncation_and_any_addition_is_noticed(path):
    good = path.read_bytes()
    for broken in [good[:length] for length in range(len(good))] + [good + b"\0"]:
        path.write_bytes(broken)
        for verify in (True, False):
            with pytest.raises(ValueError, match=r"thing\.dl"):
                mapped_files.read(path, THING, verify=verify)


def test_headers_are_verified_even_if_numbers_are_not(path):
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    mapped_files.read(path, THING, verify=False)
    place = good.index(b"thing/1") + 20
    path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    with pytest.raises(ValueError, match="header"):
        mapped_files.read(path, THING, verify=False)


def test_the_same_content_is_the_same_bytes_in_any_order(path):
    again = path.with_name("again")
    mapped_files.write(again, THING, dict(reversed(ARRAYS.items())), dict(reversed(FACTS.items())))
    assert again.read_bytes() == path.read_bytes()


def test_other_kinds_versions_and_files_are_refused(path):
    with pytest.raises(
        ValueError, match="thing.dl holds a thing, not an atlas; pass a file that `fit` wrote"
    ):
        mapped_files.read(path, FileKind("atlas", 1, "an atlas", "`fit`"))
    with pytest.raises(ValueError, match="holds a thing in format 1, .* reads format 2. Use that version"):
        mapped_files.read(path, THING._replace(version=2))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        mapped_files.read(path.with_name("other"), THING)
    with pytest.raises(TypeError, match="array 'x' has dtype object"):
        mapped_files.write(path, THING, {"x": np.array([None])}, {})


def forged(path, change):
    """A file whose header says something else, with a checksum that fits."""
    good = path.read_bytes()
    (length,) = struct.unpack("<Q", good[:8])
    header = json.loads(good[8 : 8 + length])
    metadata = json.loads(header["__metadata__"][mapped_files.ENTRY])
    change(header)
    metadata.pop("sha256")
    header["__metadata__"][mapped_files.ENTRY] = ""
    metadata["sha256"] = mapped_files._signature(metadata, header)
    header["__metadata__"][mapped_files.ENTRY] = json.dumps(metadata, sort_keys=True)
    text = mapped_files._encoded(header)
    path.write_bytes(struct.pack("<Q", len(text)) + text + good[8 + length :])


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["a"].update(data_offsets=[0, 24]),
        lambda header: header["a"].update(shape=[2, 4]),
        lambda header: header["a"].update(shape=[-2, -3]),
        lambda header: header["a"].update(shape=[10**12, 10**12]),
        lambda header: header["a"].update(shape=[2.0, 3]),
        lambda header: header["a"].update(dtype="O"),
        lambda header: header["a"].update(data_offsets=[0, 10**15]),
        lambda header: header["a"].pop("shape"),
        lambda header: header.pop("a"),
        lambda header: header.update(a=[]),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_forged_layouts_are_refused(path, change, verify):
    forged(path, change)
    with pytest.raises(ValueError, match=r"thing\.dl is damaged"):
        mapped_files.read(path, THING, verify=verify)


def test_inspection_sees_all_numbers_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_files, "PIECE", 64)
    array = np.arange(100, dtype=np.float32)
    mapped_files.write(tmp_path / "x", THING, {"x": array}, {})
    seen = []
    found, _ = mapped_files.read(
        tmp_path / "x", THING, inspect=lambda name, piece: seen.append((name, piece.copy()))
    )
    assert len(seen) == 7
    np.testing.assert_array_equal(np.concatenate([piece for _, piece in seen]), array)
    np.testing.assert_array_equal(found["x"], array)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        mapped_files.write(path, THING, ARRAYS, {})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_may_be_written_over_while_it_is_mapped(path):
    arrays, facts = mapped_files.read(path, THING)
    mapped_files.write(path, THING, {name: array + 1 for name, array in arrays.items()}, facts)
    np.testing.assert_array_equal(arrays["a"], ARRAYS["a"])
    np.testing.assert_array_equal(mapped_files.read(path, THING)[0]["a"], ARRAYS["a"] + 1)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_of_a_new_file_follow_the_umask(path, mask):
    path.unlink()
    before = os.umask(mask)
    try:
        mapped_files.write(path, THING, ARRAYS, FACTS)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


MEMORY = """
import resource, sys
import numpy as np
from driftline.storage import mapped_files
from driftline.storage.kinds import FileKind
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
arrays, _ = mapped_files.read(sys.argv[1], FileKind("thing", 1, "a thing", "`make`"))
arrays["x"][12345]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in units of Linux")
def test_reading_takes_no_memory_for_the_arrays(tmp_path):
    mapped_files.write(tmp_path / "x", THING, {"x": np.zeros((25_000_000,), np.float32)}, {})
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "x")], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 20_000  # KiB, for a file of 98 MiB


def test_a_file_of_another_kind_is_told_by_what_it_is(tmp_path):
    path = tmp_path / "some.counts"
    mapped_files.write(
        path, FileKind("word-counts", 1, "counts of words", "`count`"), {"values": np.arange(3.0)}, {}
    )
    with pytest.raises(ValueError, match="holds counts of words, not an atlas; pass a file"):
        mapped_files.read(path, FileKind("word-atlas", 1, "an atlas", "`fit`"))
