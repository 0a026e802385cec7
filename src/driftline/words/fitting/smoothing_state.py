"""Where a fit by smoothing is: its vectors, the numbers of its prior, and how its rounds go."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Array

from driftline.words.fitting.prior_numbers import Prior

BOLD = 0.3  # length of the first step of a phase


class Rounds(NamedTuple):
    """How the rounds of a phase go.

    Attributes:
        boldness: Length of the first step of the next round.
        passes: Through the counts, so far.
        objective: After the last round that was kept; minus infinity if it is not known.
        settled: Whether the last round gained so little that the phase is nearly at its end.
        taken_back: Whether the last round lowered the objective, and was taken back.
        turns: Whether levels are still turned to their principal axes before a round.
        widened: Logarithm of the factor by which the last round widened the prior.
    """

    boldness: float = BOLD
    passes: int = 0
    objective: float = -math.inf
    settled: bool = False
    taken_back: bool = False
    turns: bool = True
    widened: float = 0.0


class SmoothingState(NamedTuple):
    """The state of a fit by smoothing.

    Attributes:
        words: Means of words in the prior's natural coordinates: of levels, (V, d), or of all rows, (R, d).
        contexts: The same for contexts.
        word_variances: Variances of words, in the same shape.
        context_variances: The same for contexts.
        prior: Its numbers.
        moves: Whether paths move; before, there are levels only.
        rounds: How the rounds of the phase go.
        divergence: From the prior, but for the means; None before the first round.
        word_noise: Noise between steps, (V, d), by which counts are divided; None if they are not.
        context_noise: The same for contexts.
    """

    words: Array
    contexts: Array
    word_variances: Array
    context_variances: Array
    prior: Prior
    moves: bool = False
    rounds: Rounds = Rounds()
    divergence: float | None = None
    word_noise: Array | None = None
    context_noise: Array | None = None

    @property
    def means(self) -> tuple[Array, Array]:
        """Of words and of contexts, in natural coordinates."""
        return self.words, self.contexts

    def with_means(self, words: Array, contexts: Array) -> Self:
        """The same with other means."""
        return self._replace(words=words, contexts=contexts)

    def with_rounds(self, **changes: Any) -> Self:
        """The same with other facts about its rounds."""
        return self._replace(rounds=self.rounds._replace(**changes))

    def to_arrays(self) -> dict[str, Any]:
        """See `trainer.State`."""
        named = self._asdict()
        prior, rounds, moves = (named.pop(name) for name in ("prior", "rounds", "moves"))
        found = {name: value for name, value in named.items() if value is not None}
        return found | prior._asdict() | rounds._asdict() | {"paths": moves}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """See `trainer.State`."""
        rest = dict(arrays)
        prior = plain_prior(Prior(*(rest.pop(name) for name in Prior._fields)))
        rounds = Rounds(*(type(usual)(rest.pop(name)) for name, usual in Rounds._field_defaults.items()))
        moves, divergence = bool(rest.pop("paths")), rest.pop("divergence", None)
        return cls(
            **rest,
            prior=prior,
            moves=moves,
            rounds=rounds,
            divergence=None if divergence is None else float(divergence),
        )


def plain_prior(prior: Prior) -> Prior:
    """The same numbers as a file gives them back, so that a fit goes on as if it had not been interrupted."""
    return Prior(
        float(prior.drift),
        float(prior.scale),
        tuple(float(pace) for pace in prior.paces),
        np.asarray(prior.pace),
        np.asarray(prior.shares),
    )
