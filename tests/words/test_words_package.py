import subprocess
import sys

import pytest

from driftline import words


def test_reading_and_counting_do_not_import_jax():
    code = (
        "import sys; from driftline import words; "
        "words.count([('1850', 'a b'), ('1851', 'a b')], 2).step(0).negatives(); "
        "[getattr(words, name) for name in ('read', 'sotu', 'ngrams', 'load_counts')]; "
        "sys.exit(any(name in sys.modules for name in ('jax', 'pandas', 'pyarrow', 'zstandard')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_loads_and_is_documented():
    for name in ("Corpus", "Counts", "Limits", "Tokeniser", "count", "load_counts", "ngrams", "read", "sotu"):
        assert name in words.__all__
        assert getattr(words, name).__doc__, name
    assert set(words.__all__) <= set(dir(words))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = words.nothing
