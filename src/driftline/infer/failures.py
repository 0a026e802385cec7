"""What a fit raises when it cannot go on."""


class DivergenceError(ArithmeticError):
    """A fit that ran into numbers that are not finite, or ended worse than it began."""
