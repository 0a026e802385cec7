import pytest

from driftline import words
from support.corpora import small_counts


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with small counts, and an atlas fitted to them."""
    folder = tmp_path_factory.mktemp("words")
    counts = small_counts(folder / "counts.counts")
    words.fit(counts, dim=2, progress=False).save(folder / "small.atlas")
    return folder
