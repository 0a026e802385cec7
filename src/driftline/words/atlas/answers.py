"""Answers of an atlas: arrays with names, that print as tables and become data frames."""

import abc
import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    import pandas

FEW = 0.1  # of the vocabulary: if fewer words are compared, the answer says so


class Answer(abc.ABC):
    """What all answers can do."""

    index: ClassVar[str]
    drawn: ClassVar[tuple[str, ...]] = ("mean", "expected", "lower", "upper")  # columns made from draws
    caveat: str = ""

    @abc.abstractmethod
    def columns(self) -> dict[str, np.ndarray]:
        """The columns of the table; those that the method does not give are left out."""

    @abc.abstractmethod
    def title(self) -> str:
        """What the table shows."""

    def to_frame(self) -> "pandas.DataFrame":
        """The table as a pandas data frame."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install 'driftline[frames]'") from error
        columns = {name: column for name, column in self.columns().items() if column is not None}
        index = columns.pop(self.index)
        return pandas.DataFrame(columns, index=pandas.Index(index, name=self.index))

    def __str__(self) -> str:
        columns = {
            name: _texts(column, 2 if name in self.drawn else 3)
            for name, column in self.columns().items()
            if column is not None
        }
        widths = {name: max(len(name), *map(len, texts), 0) for name, texts in columns.items()}
        lines = [
            *([self.caveat] if self.caveat else []),
            self.title(),
            "  ".join(name.rjust(width) for name, width in widths.items()),
        ]
        for row in zip(*columns.values(), strict=True):
            lines.append(
                "  ".join(text.rjust(width) for text, width in zip(row, widths.values(), strict=True))
            )
        return "\n".join(line.rstrip() for line in lines)


def _texts(column: np.ndarray, digits: int) -> list[str]:
    if column.dtype.kind == "f":
        return [f"{number:.{digits}f}" for number in column]
    if column.dtype.kind in "iu":
        return [f"{number:,}" for number in column]
    return [str(item) for item in column]


@dataclasses.dataclass(frozen=True, eq=False)
class Neighbors(Answer):
    """The words closest to a word.

    The cosine of the means ranks them. What is not well known of a vector has any direction, so the posterior
    of the cosine lies nearer to zero than that; its mean and its 90 % band are given beside it.

    Attributes:
        word: The word asked for.
        vector_date: The step that its vector is taken from.
        date: The step of the words found.
        words: The words found, closest first, (n,).
        similarities: Cosines of the mean vectors.
        expected: Posterior means of the cosines, or None for point estimates. Where the word is compared with
            itself at another date and the method has no joint posterior of two dates, this is NaN, as are
            the quantiles.
        lower: 5 % quantiles.
        upper: 95 % quantiles.
        support: How often each word found occurs around the date.
        word_support: How often the word asked for occurs around the date of its vector.
        caveat: What speaks against the answer, if anything: of a fit that has not converged, or that has too
            few steps to measure the noise between them.
    """

    index: ClassVar[str] = "word"

    word: str
    vector_date: np.datetime64
    date: np.datetime64
    words: tuple[str, ...]
    similarities: np.ndarray
    expected: np.ndarray | None
    lower: np.ndarray | None
    upper: np.ndarray | None
    support: np.ndarray
    word_support: int
    caveat: str = ""

    def columns(self):  # noqa: D102
        return {
            "word": np.array(self.words, object),
            "similarity": self.similarities,
            "expected": self.expected,
            "lower": self.lower,
            "upper": self.upper,
            "count": self.support,
        }

    def title(self) -> str:  # noqa: D102
        asked = f"{self.word} ({self.word_support:,} occurrences) at {self.vector_date}"
        return f"Closest to {asked}" + (f", at {self.date}" if self.date != self.vector_date else "")


@dataclasses.dataclass(frozen=True, eq=False)
class Similarity(Answer):
    """The similarity of two words over time.

    Attributes:
        a: A word.
        b: Another.
        dates: The steps, (T,).
        cosine: Cosine of the mean vectors; NaN where one of the two words has none, since the method knows
            nothing of it there.
        mean: Posterior mean of the cosine; the cosine itself for point estimates.
        lower: 5 % quantiles, or None for point estimates.
        upper: 95 % quantiles.
        a_occurrences: How often the first occurs at each step.
        b_occurrences: How often the second does.
        caveat: What speaks against the answer, if anything: of a fit that has not converged, or that has too
            few steps to measure the noise between them.
    """

    index: ClassVar[str] = "date"

    a: str
    b: str
    dates: np.ndarray
    cosine: np.ndarray
    mean: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    a_occurrences: np.ndarray
    b_occurrences: np.ndarray
    caveat: str = ""

    def columns(self):  # noqa: D102
        return {
            "date": self.dates,
            "cosine": self.cosine,
            "mean": None if self.lower is None else self.mean,
            "lower": self.lower,
            "upper": self.upper,
            f"count {self.a}": self.a_occurrences,
            **({} if self.a == self.b else {f"count {self.b}": self.b_occurrences}),
        }

    def title(self) -> str:  # noqa: D102
        return f"Similarity of {self.a} and {self.b}"


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory(Answer):
    """The path of a word.

    Attributes:
        word: The word.
        dates: The steps, (T,).
        mean: Mean vectors, (T, d).
        sd: Standard deviations, (T, d), or None for point estimates.
        occurrences: How often the word occurs at each step.
        frequency: Its share of all words of the step.
        caveat: What speaks against the answer, if anything: of a fit that has not converged, or that has too
            few steps to measure the noise between them.
    """

    index: ClassVar[str] = "date"

    word: str
    dates: np.ndarray
    mean: np.ndarray
    sd: np.ndarray | None
    occurrences: np.ndarray
    frequency: np.ndarray
    caveat: str = ""

    def columns(self):  # noqa: D102
        spread = None if self.sd is None else np.sqrt((self.sd**2).sum(1))
        return {
            "date": self.dates,
            "length": np.sqrt((self.mean**2).sum(1)),
            "spread": spread,
            "count": self.occurrences,
            "per_million": 1e6 * self.frequency,
        }

    def title(self) -> str:  # noqa: D102
        return f"Path of {self.word}"


@dataclasses.dataclass(frozen=True, eq=False)
class Changed(Answer):
    """Words ranked by how much they changed between two steps.

    Attributes:
        start: The earlier step, or the one asked for first.
        end: The other.
        words: The words, (n,): those that changed with at least the probability asked for come first, by
            distance; then the rest by probability.
        distances: One less the cosine of the vectors at the two steps, after what all words share is taken
            out. Where there are probabilities it is the posterior's median: zero for words that have rather
            not moved. Otherwise, that of the mean vectors.
        lower: 5 % quantiles, or None if the method does not give them.
        upper: 95 % quantiles.
        probabilities: Posterior probabilities that the change is more than noise, or None.
        log_factors: Evidence for a change in nats (logarithms of Bayes factors), or None.
        start_support: How often each word occurs around the first step.
        end_support: How often around the other.
        threshold: The probability asked for.
        num_changed: How many of all the words compared reach it, or None.
        num_compared: How many words have support at both.
        inflation: By how much further out the bulk of words lies than the model expects; at least one. It is
            taken for noise.
        num_words: How many words the vocabulary has, or None if that is not told.
        caveat: What speaks against the answer, if anything: of a fit that has not converged, or that has too
            few steps to measure the noise between them.
    """

    index: ClassVar[str] = "word"

    start: np.datetime64
    end: np.datetime64
    words: tuple[str, ...]
    distances: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    probabilities: np.ndarray | None
    log_factors: np.ndarray | None
    start_support: np.ndarray
    end_support: np.ndarray
    threshold: float
    num_changed: int | None
    num_compared: int
    inflation: float | None = None
    num_words: int | None = None
    caveat: str = ""

    def columns(self):  # noqa: D102
        return {
            "word": np.array(self.words, object),
            "distance": self.distances,
            "lower": self.lower,
            "upper": self.upper,
            "probability": self.probabilities,
            "count_start": self.start_support,
            "count_end": self.end_support,
        }

    def title(self) -> str:  # noqa: D102
        found = (
            "no probabilities"
            if self.num_changed is None
            else f"{self.num_changed:,} changed with probability {self.threshold:g} or more"
        )
        few = self.num_words is not None and self.num_compared < FEW * self.num_words
        many = f"{self.num_compared:,} of {self.num_words:,}" if few else f"{self.num_compared:,}"
        return f"Change from {self.start} to {self.end}: {many} words compared, {found}"
