import gzip
import hashlib
import random
import tracemalloc
import zlib

import pytest

from driftline.words.texts import streams
from driftline.words.texts.streams import Limits, Tally, digest_of, lines, whole

TEXT = b"one\ntwo two\r\n\nthree"
LINES = [b"one", b"two two", b"", b"three"]


def write(path, content):
    path.write_bytes(content)
    return path


def packed(kind, content):
    if kind == "zst":
        return pytest.importorskip("zstandard").ZstdCompressor().compress(content)
    return gzip.compress(content) if kind == "gz" else content


@pytest.mark.parametrize("kind", ["plain", "gz", "zst"])
def test_lines_are_read_whatever_the_packing(tmp_path, kind):
    path = write(tmp_path / "x", packed(kind, TEXT))
    tally = Tally()
    assert list(lines(path, "x", tally, Limits())) == LINES
    (record,) = tally.files
    assert record == ("x", path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
    assert tally.bytes_read == path.stat().st_size
    assert digest_of(tally.files) == record.sha256
    assert whole(path, "x", Tally(), Limits()) == TEXT


def test_members_of_a_gzip_file_follow_one_another(tmp_path):
    path = write(tmp_path / "x", gzip.compress(b"a\n") + gzip.compress(b"b\n") + b"\0" * 20)
    assert whole(path, "x", Tally(), Limits()) == b"a\nb\n"


def test_several_files_have_the_hash_of_their_listing(tmp_path):
    tally = Tally()
    for name in ("b", "a"):
        whole(write(tmp_path / name, name.encode()), name, tally, Limits())
    listing = "".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in "ab")
    assert digest_of(tally.files) == hashlib.sha256(listing.encode()).hexdigest()


@pytest.mark.parametrize("size", [1, 3, 1 << 18])
def test_lines_do_not_depend_on_the_pieces_read(tmp_path, monkeypatch, size):
    monkeypatch.setattr(streams, "READ_SIZE", size)
    assert list(lines(write(tmp_path / "x", TEXT), "x", Tally(), Limits())) == LINES
    assert list(lines(write(tmp_path / "x", gzip.compress(TEXT)), "x", Tally(), Limits())) == LINES


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_a_truncated_or_damaged_packing_is_refused(tmp_path, kind):
    good = packed(kind, random.Random(0).randbytes(5000))
    for content in (good[:-1], good[:100], good[:60] + b"\xff\x00\xff" + good[63:]):
        path = write(tmp_path / "x", content)
        if kind == "zst" and content[:60] == good[:60] and len(content) == len(good):
            continue  # zstd without a checksum cannot tell one literal from another
        with pytest.raises(ValueError, match="x: the packed file is damaged"):
            whole(path, "x", Tally(), Limits())


@pytest.mark.parametrize("ends", [True, False])
def test_a_gzip_bomb_is_refused_in_little_memory(tmp_path, ends):
    packer = zlib.compressobj(9, wbits=31)
    piece = (b"a" * 99 + b"\n" if ends else b"a" * 100) * 10_000
    with (tmp_path / "bomb.gz").open("wb") as file:
        for _ in range(100):
            file.write(packer.compress(piece))
        file.write(packer.flush())
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"bomb\.gz.*(bomb; if you trust|a document of more than)"):
        for _ in lines(tmp_path / "bomb.gz", "bomb.gz", Tally(), Limits()):
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 << 20
    assert sum(1 for _ in lines(tmp_path / "bomb.gz", "", Tally(), Limits(1 << 30, 2000))) == (
        1_000_000 if ends else 1
    )


def test_a_zstd_bomb_is_refused(tmp_path):
    path = write(tmp_path / "bomb.zst", packed("zst", b"a" * (100 << 20)))
    with pytest.raises(ValueError, match=r"bomb\.zst.*Limits\(expansion=1600\)"):
        whole(path, "bomb.zst", Tally(), Limits(document=1 << 30))


def test_a_line_that_is_too_long_is_refused_by_number(tmp_path):
    path = write(tmp_path / "x", b"short\n" + b"a" * 1000)
    with pytest.raises(
        ValueError, match=r"x, line 2: a document of more than 100 bytes.*Limits\(document=800\)"
    ):
        list(lines(path, "x", Tally(), Limits(document=100)))
    with pytest.raises(ValueError, match="x: a document of more than 100 bytes"):
        whole(path, "x", Tally(), Limits(document=100))


def test_zstd_without_its_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    path = write(tmp_path / "x.zst", streams.ZSTD + b"rest")
    with pytest.raises(ImportError, match=r"x\.zst is packed with zstd.*driftline\[zstd\]"):
        whole(path, "x.zst", Tally(), Limits())
