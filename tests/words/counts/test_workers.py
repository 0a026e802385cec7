import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOKENISER = """\
import os, pathlib, time

def cut(text):
    pathlib.Path(f"worker-{os.getpid()}").touch()
    time.sleep(600)
    return text.split()
"""


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.fixture
def interruptible():
    """Whoever runs tests in the background may have SIGINT ignored, which children would inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(tmp_path, number):
    (tmp_path / "slow_cutter.py").write_text(TOKENISER)
    rows = "".join(f'{{"date": {1850 + i}, "text": "{"a " * 3_000_000}"}}\n' for i in range(3))
    (tmp_path / "texts.jsonl").write_text(rows)
    command = [sys.executable, "-m", "driftline.cli", "words", "count", "texts.jsonl", "-o", "x.driftline"]
    options = ["--processes", "2", "--tokenise", "slow_cutter:cut"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*command, *options], cwd=tmp_path, **pipes)
    workers = []
    try:
        assert wait_for(lambda: len(list(tmp_path.glob("worker-*"))) == 2)
        workers = [int(path.name.removeprefix("worker-")) for path in tmp_path.glob("worker-*")]
        assert all(map(is_running, workers))
        process.send_signal(number)
        process.communicate(timeout=200)  # which nobody holds open: texts are cut for ten minutes
        assert wait_for(lambda: not any(map(is_running, workers)))
    finally:
        process.kill()
        for pid in [pid for pid in workers if is_running(pid)]:
            os.kill(pid, signal.SIGKILL)
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert not (tmp_path / ".x.driftline.lock").exists()
