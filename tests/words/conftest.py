"""A small corpus in which not every word is there at every step."""

import pytest

from support.words import small_counts


@pytest.fixture
def counts():
    """Five steps of sixty words."""
    return small_counts()
