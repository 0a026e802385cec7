"""The Makefile, with a Python that only notes what it is asked to do."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = ("Makefile", "pyproject.toml", "constraints.txt", "constraints-lowest.txt")
TOOLS = ("ruff", "basedpyright", "lint-imports", "deptry", "codespell", "driftline")
PYTHON = """\
#!/bin/sh
case "$1 $2" in
"-m venv")
    mkdir -p "$3/bin" && touch "$3/pyvenv.cfg" && cp "$0" "$3/bin/python"
    for tool in TOOLS; do printf '#!/bin/sh\\n' > "$3/bin/$tool"; chmod +x "$3/bin/$tool"; done
    echo "venv $3" >> log ;;
"-m pip")
    echo "pip begins" >> log; sleep 0.2; echo "pip ends" >> log; echo "$@" >> installed ;;
"-m pytest")
    shift 2; echo "$0 $*" >> tested ;;
esac
""".replace("TOOLS", " ".join(TOOLS))

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def folder(tmp_path):
    for name in NEEDED:
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "fake-python").write_text(PYTHON)
    (tmp_path / "fake-python").chmod(0o755)
    return tmp_path


def make(folder, *arguments):
    # Nothing of a make that runs these tests.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", *arguments, f"PYTHON={folder / 'fake-python'}"]
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def log(folder):
    lines = (folder / "log").read_text().splitlines()
    (folder / "log").unlink()
    return lines


def test_two_verbs_at_once_install_one_after_the_other(folder):
    make(folder, "-j4", "check", "test", "bench")
    lines = log(folder)
    assert lines[0] == "venv .venv"
    assert lines[1:] == ["pip begins", "pip ends"] * 5  # of demo, test, check, docs and bench


def test_a_venv_that_works_is_left_alone(folder):
    make(folder, "test")
    assert log(folder)
    assert "broken" not in make(folder, "test")
    assert not (folder / "log").exists()


@pytest.mark.parametrize("harm", ["python is gone", "python does not run", "half made", "dangling"])
def test_a_broken_venv_is_made_anew(folder, harm):
    make(folder, "test")
    log(folder)
    python = folder / ".venv/bin/python"
    python.unlink()
    if harm == "python does not run":
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
    elif harm == "half made":
        shutil.rmtree(folder / ".venv/bin")
    elif harm == "dangling":
        python.symlink_to(folder / "nowhere")
    assert ".venv is broken and is made again" in make(folder, "test")
    assert log(folder)[0] == "venv .venv"


def test_what_is_no_venv_is_not_removed(folder):
    (folder / "mine").mkdir()
    (folder / "mine/letter").write_text("dear")
    make(folder, "test", "VENV=mine")
    assert (folder / "mine/letter").read_text() == "dear"


def test_the_lowest_versions_have_a_venv_of_their_own(folder):
    make(folder, "test-lowest")
    assert log(folder)[0] == "venv .venv-lowest"
    assert all(
        "-c constraints-lowest.txt" in line for line in (folder / "installed").read_text().splitlines()
    )
    assert "tests/families" in (folder / "tested").read_text()


def test_the_lowest_versions_are_those_that_the_package_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [
        *project["dependencies"],
        *(each for name in extras if name not in ("check", "bench", "docs") for each in extras[name]),
    ]
    lowest = dict(each.partition(",")[0].split(">=") for each in asked)
    lines = (
        line.partition("#")[0].strip() for line in (ROOT / "constraints-lowest.txt").read_text().splitlines()
    )
    pinned = dict(line.split("==") for line in lines if line)
    assert lowest.keys() <= pinned.keys()
    for name, version in lowest.items():
        assert f"{pinned[name]}.0".startswith(f"{version}."), name
        assert not pinned[name].removeprefix(version).strip(".0"), name
