"""Strict numerics for every test: double precision, no silent promotion of dtypes or ranks."""

from pathlib import Path

import jax
import pytest

MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000  # of 65,530 that Linux allows a process

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


def pytest_configure(config):
    """Keep compiled programs for the other worker and the next run: compiling takes most of the time."""
    if not hasattr(config, "cache"):  # -p no:cacheprovider
        return
    jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("programs")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(scope="module", autouse=True)
def _room_for_programs():
    """Forget compiled programs before there are too many: each takes a few mappings of memory.

    Where the system allows no more of them, the compiler ends with a segmentation fault.
    """
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture
def key(request):
    """A random key of the test's own."""
    return jax.random.fold_in(jax.random.key(0), hash_of(request.node.nodeid))


def hash_of(text: str) -> int:
    """A hash that is the same in every process."""
    import zlib

    return zlib.crc32(text.encode())
