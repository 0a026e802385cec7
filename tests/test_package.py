import subprocess
import sys

import pytest

import driftline

LIGHT = ["driftline", "driftline.datasets", "driftline.files", "driftline.words", "driftline.cli.main"]


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
