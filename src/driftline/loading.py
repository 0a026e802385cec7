"""`dl.load`: whatever kind of posterior a file holds."""

import os

from driftline.results import posterior, refined
from driftline.results.posterior import Posterior
from driftline.results.refined import Refined
from driftline.storage import checked_files as files


def load(path: str | os.PathLike) -> Posterior | Refined:
    """Read what `save` of a posterior, refined or not, wrote; a damaged or inconsistent file is refused."""
    if files.kind_of(path) == refined.KIND:
        return refined.load(path)
    return posterior.load(path)
