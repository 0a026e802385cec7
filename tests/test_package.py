import subprocess
import sys

import pytest

import driftline

LIGHT = [
    "driftline",
    "driftline.datasets",
    "driftline.storage.checked_files",
    "driftline.words",
    "driftline.cli.main",
]


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_do_not_import_jax(module):
    code = f"import sys, {module}; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_loads_and_is_documented():
    for name in driftline.__all__:
        thing = getattr(driftline, name)
        if name != "__version__":
            assert thing.__doc__, name
    assert set(driftline.__all__) <= set(dir(driftline))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = driftline.nothing


def test_the_version_is_the_project_s():
    from importlib.metadata import version

    assert driftline.__version__ == version("driftline")


def test_kernels_and_families_take_numpy_arrays():
    # In a process of its own: here, types are checked as arrays of JAX.
    code = """
import jax, numpy as np, driftline as dl
from driftline.linalg import tridiagonal
diag, upper, path = np.array([1.0, 2.0, 4.0]), np.array([0.5, -0.5]), np.array([1.0, -1.0, 2.0])
q = dl.GaussMarkov(np.zeros(3), diag, upper)
noise = (np.diag(diag) + np.diag(upper, 1)) @ path
expected = np.log(8.0) - 0.5 * noise @ noise - 1.5 * np.log(2 * np.pi)
np.testing.assert_allclose(q.log_prob(path), expected, rtol=1e-6)
precision = tuple(map(np.asarray, q.precision()))
(again, _), (change, _) = jax.jvp(tridiagonal.cholesky, precision, precision)
np.testing.assert_allclose(again, diag, rtol=1e-6)
np.testing.assert_allclose(change, diag / 2, rtol=1e-6)  # a factor goes with the root of its matrix
"""
    subprocess.run([sys.executable, "-c", code], check=True)
