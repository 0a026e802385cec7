"""What to say of a fit of word embeddings that went astray."""

from driftline.infer.failures import DivergenceError
from driftline.words.settings import DRIFT, SCALE, WordSettings


def diverged(what: str, settings: WordSettings) -> DivergenceError:
    """The error for a fit that is not finite, with the settings that may be the cause."""
    drift, scale = settings.numbers
    remedy = f"take a scale= nearer to {SCALE} (now {scale})"
    if settings.method.startswith("dsg"):
        remedy += f", or a drift= nearer to {DRIFT} (now {drift})"
    if settings.optimiser == "paper":
        remedy += ", or optimiser='fast', whose rate goes with the scale"
    return DivergenceError(
        f"{what}: the fit diverged, under a prior that is too wide or too narrow for these counts; {remedy}"
    )
