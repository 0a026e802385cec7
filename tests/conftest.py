"""Strict numerics for every test: double precision, no silent promotion of dtypes or ranks."""

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def key(request):
    """A random key of the test's own."""
    return jax.random.fold_in(jax.random.key(0), hash_of(request.node.nodeid))


def hash_of(text: str) -> int:
    """A hash that is the same in every process."""
    import zlib

    return zlib.crc32(text.encode())
