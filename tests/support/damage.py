"""Random damage to files: of bytes, and of what is in a file whose checksum fits all the same."""

import copy
import random
from typing import Any

import numpy as np

JUNK = (
    None, True, False, 0, -1, 3, 10**30, 1e308, -0.5, "", "x", "datetime64[ns]", [], [None], {}, {"a": 1},
    [[]] * 3,
)  # fmt: skip
NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 1e-320, 7.5)
DTYPES = (np.float32, np.float64, np.int32, np.int64)


def damaged_bytes(good: bytes, rng: random.Random) -> bytes:
    """Some bytes flipped, cut off, put in or taken out."""
    place = rng.randrange(len(good))
    many = rng.choice((1, 1, 2, 8, 64))
    choice = rng.randrange(5)
    if choice == 0:
        return good[:place]
    if choice == 1:
        return good[:place] + rng.randbytes(many) + good[place:]
    if choice == 2:
        return good[:place] + good[place + many :]
    broken = bytearray(good)
    for _ in range(1 if choice == 3 else many):
        broken[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
    return bytes(broken)


def damaged_content(arrays: dict[str, np.ndarray], facts: Any, rng: random.Random) -> tuple[dict, Any]:
    """Copies of arrays and facts of which one is changed, or missing, or one too many."""
    arrays, facts = {name: array.copy() for name, array in arrays.items()}, copy.deepcopy(facts)
    if arrays and rng.random() < 0.5:
        name = rng.choice(sorted(arrays))
        changed = _damaged_array(arrays.pop(name), rng)
        if changed is not None:
            arrays[name if rng.random() < 0.95 else f"{name}x"] = changed
        return arrays, facts
    return arrays, _damaged_fact(facts, rng)


def _damaged_array(array, rng):
    choice = rng.randrange(6)
    if choice == 0:
        return None
    if choice == 1:
        return array.astype(rng.choice(DTYPES)) if np.all(np.abs(array) < 1e9) else array.astype(np.float64)
    if choice == 2:
        return array[:-1].copy() if array.ndim and len(array) else np.zeros((2, 2), array.dtype)
    if choice == 3:
        return array.reshape(-1, 1) if array.ndim == 1 else array.reshape(-1)
    if array.size == 0:
        return np.ones(1, array.dtype)
    place = rng.randrange(array.size)
    flat = array.reshape(-1)
    if choice == 4 and array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # in single precision, what is too large is infinite
            flat[place] = rng.choice(NUMBERS)
    else:
        view = flat[place : place + 1].view(np.uint8)
        view[rng.randrange(len(view))] ^= 1 << rng.randrange(8)
    return array


def _damaged_fact(facts, rng):
    places = list(_places(facts))
    place = rng.choice(places)
    if not place:
        return rng.choice(JUNK)
    owner = facts
    for key in place[:-1]:
        owner = owner[key]
    if rng.random() < 0.15:
        del owner[place[-1]]
    else:
        owner[place[-1]] = copy.deepcopy(rng.choice(JUNK))
    return facts


def _places(value, place=()):
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*place, key))
