"""`dl.load`: whatever kind of posterior a file holds."""

import os

from driftline import files, posterior, refined
from driftline.posterior import Posterior
from driftline.refined import Refined


def load(path: str | os.PathLike) -> Posterior | Refined:
    """Read what `save` of a posterior, refined or not, wrote; a damaged or inconsistent file is refused."""
    if files.kind_of(path) == refined.KIND:
        return refined.load(path)
    return posterior.load(path)
