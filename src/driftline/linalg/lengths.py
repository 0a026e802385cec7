"""Lengths that paths are filled up to, so that similar lengths share one compiled program."""


def padded_length(num_steps: int) -> int:
    """The power of two that a single path is filled up to."""
    return max(16, 1 << (num_steps - 1).bit_length())


def panel_length(longest: int) -> int:
    """A little more than the longest path of a panel.

    Finer than the power of two of a single path, because every step costs as often as there are paths.
    """
    grain = max(16, 1 << (longest - 1).bit_length()) // 16
    return max(16, -(-longest // grain) * grain)
