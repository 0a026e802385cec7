"""What to say of a fit of word embeddings that went astray."""

from driftline.words.settings import Settings


def diverged(what: str, settings: Settings) -> ArithmeticError:
    """The error for a fit that is not finite, with the settings that may be the cause."""
    usual = Settings()
    remedy = f"take a scale= nearer to {usual.scale} (now {settings.scale})"
    if settings.method.startswith("dsg"):
        remedy += f", or a drift= nearer to {usual.drift} (now {settings.drift})"
    if settings.optimiser == "paper":
        remedy += ", or optimiser='fast', whose rate goes with the scale"
    return ArithmeticError(
        f"{what}: the fit diverged, under a prior that is too wide or too narrow for these counts; {remedy}"
    )
