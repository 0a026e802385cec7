import jax
import pytest


@pytest.fixture(autouse=True)
def _forget_programs():
    """Each test begins with no compiled program: thousands of them in one process exhaust its memory maps."""
    yield
    jax.clear_caches()
