"""Commands that run on their own, so that they can be killed."""

import signal
import subprocess
import sys
import time
from pathlib import Path

PLAN = ("--dim", "2", "--drift", "0.02", "--passes", "80", "60")


def fit(folder: Path, *options: str) -> subprocess.Popen:
    """Start `driftline words fit` on the counts of a folder, with a checkpoint after every pass."""
    command = [sys.executable, "-m", "driftline.cli", "words", "fit", "counts.counts", "-o", "out.atlas"]
    return subprocess.Popen(
        [*command, *PLAN, "--every", "0", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stop_at_checkpoint(process: subprocess.Popen, checkpoint: Path, number: signal.Signals) -> None:
    """Send a signal once a checkpoint is written that was not there before."""
    before = checkpoint.stat().st_ino if checkpoint.exists() else None
    end = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < end:
        if checkpoint.exists() and checkpoint.stat().st_ino != before:
            process.send_signal(number)
            return
        time.sleep(0.005)
    raise AssertionError(f"no checkpoint was seen: {process.communicate()}")
