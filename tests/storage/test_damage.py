"""Files that are damaged or forged, and writing that fails: of every kind of file that the package has."""

import errno
import json
import os
import re

import numpy as np
import pytest

from driftline import words
from support.faults import Faults
from support.file_kinds import KINDS
from support.file_laws import check_damaged_bytes, check_forged

NUM_DAMAGED = 100  # of each kind; tests/slow has more


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(scope="module")
def thing(kind):
    return kind.make()


@pytest.fixture
def path(kind, thing, tmp_path):
    kind.save(thing, tmp_path / "some.file")
    return tmp_path / "some.file"


def test_damaged_bytes_are_refused_or_do_not_matter(kind, path):
    check_damaged_bytes(kind, path, NUM_DAMAGED, 0)


def test_forged_files_are_refused_or_sound(kind, path):
    check_forged(kind, path, NUM_DAMAGED, 0)


def test_facts_that_are_nested_without_end_are_refused(kind, path, monkeypatch):
    arrays, facts = kind.opened(path)
    deep, dumps = "[" * 100_000 + "]" * 100_000, json.dumps
    with monkeypatch.context() as patch:  # or nothing so deep could be written
        patch.setattr("json.dumps", lambda *some, **more: dumps(*some, **more).replace('"DEEP"', deep))
        kind.sealed(path, arrays, facts | {"settings": "DEEP"})
    with pytest.raises(ValueError, match=r"some\.file .*nested too deeply"):
        kind.load(path)


def full():
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken():
    return OSError(errno.EIO, os.strerror(errno.EIO))


ERRORS = [full, broken, KeyboardInterrupt]


def check_faults(save, path):
    """Law: whatever fails, the old file stays, nothing else does, and the error names the user's file."""
    before = {each: each.read_bytes() for each in path.parent.rglob("*") if each.is_file()}
    counted = Faults()
    with counted.injected():
        save()
    assert counted.count >= 3  # a write, a flush to disk, a renaming
    for each, content in before.items():
        each.write_bytes(content)
    for error in ERRORS:
        for at in range(1, counted.count + 1):
            with Faults(at, error).injected(), pytest.raises(type(error())) as caught:
                save()
            assert {each: each.read_bytes() for each in path.parent.rglob("*") if each.is_file()} == before
            if isinstance(caught.value, OSError):
                assert str(path) in str(caught.value)
                assert caught.value.errno == error().errno


def test_a_fault_at_any_moment_leaves_the_old_file(kind, thing, path):
    check_faults(lambda: kind.save(thing, path), path)


@pytest.mark.parametrize("form", ["csv", "npz", "word2vec"])
def test_a_fault_leaves_old_vectors(form, tmp_path):
    atlas = KINDS["atlas"].make()
    path = tmp_path / "vectors"
    atlas.export(path, form, when=atlas.dates[0])
    check_faults(lambda: atlas.export(path, form, when=atlas.dates[0]), path)


def test_a_fault_leaves_an_old_picture(tmp_path):
    path = tmp_path / "scores.png"
    scores = KINDS["scores"].make()
    scores.plot(path)
    check_faults(lambda: scores.plot(path), path)


def test_what_a_spool_has_lost_is_noticed(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)
    from driftline.words.counts.spool import Spool
    from driftline.words.texts.passages import Encoded

    some = np.arange(3, dtype=np.int32)
    with Spool() as spool:
        spool.append(Encoded(["a"], some, some, some[:0], some, some[:0], 0))
        np.testing.assert_array_equal(next(iter(spool)).ids, some)
        spool._file.truncate(60)
        with pytest.raises(OSError, match="a temporary file in .* has lost .* bytes; free some space"):
            list(spool)


def test_links_and_permissions_stay(kind, thing, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there/some.file", tmp_path / "some.file"
    link.symlink_to("there/some.file")
    kind.save(thing, link)  # of which the target is not there yet
    assert link.is_symlink()
    assert not target.is_symlink()
    for mode in (0o600, 0o640, 0o444):
        target.chmod(mode)
        before = target.stat().st_ino
        kind.save(thing, link)
        assert link.is_symlink()
        assert target.stat().st_ino != before
        assert target.stat().st_mode & 0o777 == mode
    assert kind.load(link) is not None
    assert {each.name for each in tmp_path.rglob("*")} == {"there", "some.file"}


def test_places_that_cannot_be_written_to_are_named(kind, thing, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    cases = {
        "nowhere/some.file": FileNotFoundError,
        "file/some.file": NotADirectoryError,
        "folder": IsADirectoryError,
        "pipe": OSError,
    }
    for name, error in cases.items():
        with pytest.raises(error, match=re.escape(str(tmp_path / name))) as caught:
            kind.save(thing, tmp_path / name)
        assert "some.file." not in str(caught.value)
    assert {each.name for each in tmp_path.rglob("*")} == {"file", "folder", "pipe"}


def test_a_folder_that_is_read_only_is_named(kind, thing, tmp_path, monkeypatch):
    before = os.open

    def refused(path, flags, *mode, **options):  # as root, who runs tests in containers, is never refused
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return before(path, flags, *mode, **options)

    monkeypatch.setattr("os.open", refused)
    with pytest.raises(PermissionError, match=r"some\.file\b(?!\.)") as caught:
        kind.save(thing, tmp_path / "some.file")
    assert ".some.file" not in str(caught.value)


def test_counts_are_still_loaded_by_their_own_reader(tmp_path):
    KINDS["counts"].save(KINDS["counts"].make(), tmp_path / "x")
    with pytest.raises(ValueError, match="x holds counts of words, not an atlas of words"):
        words.load(tmp_path / "x")
