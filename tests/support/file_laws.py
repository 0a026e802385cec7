"""What holds of damaged and of forged files, of any kind; theirs is the name some.file."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np

from support.damage import damaged_bytes, damaged_content
from support.file_kinds import Kind


def refused_or_read(kind: Kind, path: Path) -> Any:
    """What was read, or None if it was refused with an error that names the file."""
    try:
        found = kind.load(path)
    except ValueError as error:
        assert re.search(r"some\.file", str(error)), error  # noqa: PT017, an error is one of two right answers
        return None
    kind.use(found)
    return found


def check_damaged_bytes(kind: Kind, path: Path, num: int, seed: int) -> None:
    """Law: what is read from damaged bytes is what was written."""
    good, rng = path.read_bytes(), random.Random(seed)
    for _ in range(num):
        path.write_bytes(damaged_bytes(good, rng))
        found = refused_or_read(kind, path)
        if found is not None:
            kind.save(found, path)
            assert path.read_bytes() == good
    path.write_bytes(good)


def check_forged(kind: Kind, path: Path, num: int, seed: int) -> None:
    """Law: what is read from a file whose checksum fits can be used, and is what the file says."""
    arrays, facts = kind.opened(path)
    rng, num_read = random.Random(seed), 0
    for _ in range(num):
        forged = damaged_content(arrays, facts, rng)
        kind.sealed(path, *forged)
        found = refused_or_read(kind, path)
        if found is not None:
            num_read += 1
            kind.save(found, path)
            again = kind.opened(path)
            # What files of earlier versions did not say is added when they are written again.
            said = {name: again[1].get(name) for name in forged[1]}
            assert said == forged[1], (said, forged[1])
            assert again[0].keys() == forged[0].keys()
            for name, array in forged[0].items():
                np.testing.assert_array_equal(again[0][name], array)
    assert num_read < num
