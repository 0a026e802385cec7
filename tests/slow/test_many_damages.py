"""Thousands of damaged and forged files of every kind; tests/test_damage.py has some of them."""

import pytest

from support.file_kinds import KINDS
from support.file_laws import check_damaged_bytes, check_forged

NUM_DAMAGED = 2000


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def path(kind, tmp_path):
    kind.save(kind.make(), tmp_path / "some.file")
    return tmp_path / "some.file"


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_damaged_bytes, check_forged])
def test_thousands_of_damaged_files_are_refused_or_sound(kind, path, check):
    check(kind, path, NUM_DAMAGED, 1)
