"""The atlas: a trained dynamic word embedding and the questions that it answers."""

import dataclasses
import difflib
import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from driftline.words.atlas import atlas_file, queries
from driftline.words.atlas import export as exporting
from driftline.words.atlas.answers import Changed, Neighbors, Similarity, Trajectory
from driftline.words.atlas.asked_dates import length_of_steps, step_of
from driftline.words.atlas.cosines import UncertainVectors, band, cosines
from driftline.words.atlas.stop_words import stopped
from driftline.words.paths.knots import Knots
from driftline.words.paths.paths import Paths
from driftline.words.paths.priors import Drift

WINDOW = 2  # steps on either side of a date whose occurrences are its support
MIN_COUNT = 10  # around either date, for words whose change is asked for
STEPS_FOR_NOISE = 5  # fewer do not tell the noise between steps from drift


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Atlas:
    """A word model over T time steps and V words, with R knots.

    Dates may be given as dates, years or text such as "1900" or "1900-12"; the step that holds the date, or
    the nearest one, is taken, and the answer says which. Answers print as tables and have `to_frame()`.

    Attributes:
        vocabulary: The words, most frequent first.
        dates: When each step begins, increasing.
        knots: Which words are present at which steps.
        words: Paths of the words.
        contexts: Paths of the contexts; None if they are not known, as after an import.
        drift: The prior.
        occurrences: How often each knot's word occurs at its step, (R,). A word that occurs at a step without
            a pair there, alone among words outside of the vocabulary, has no knot and counts as absent.
        tokens: How many words each step has, in the vocabulary or not, (T,).
        settings: How the model was fitted; see `WordSettings`.
        provenance: Where the counts are from and what fitted them; anything that JSON can say.
        history: What the fit reported on its way: a list of numbers or texts for each name.
        elbo: The evidence lower bound in nats, if the method has one. Of "dsg-f" the sum of those of the
            steps, each given the filter before: an estimate of the log evidence, no bound as that of "dsg-s".
        converged: Whether the fit came to its end; None if that is not known, as after an import.
        message: How it ended, in words.
        learnt: Numbers that the fit learnt, by name; see `docs/words.md`.
    """

    vocabulary: tuple[str, ...]
    dates: np.ndarray
    knots: Knots
    words: Paths
    contexts: Paths | None
    drift: Drift
    occurrences: np.ndarray
    tokens: np.ndarray
    settings: dict[str, Any]
    provenance: dict[str, Any]
    history: dict[str, list]
    elbo: float | None = None
    converged: bool | None = None
    message: str = ""
    learnt: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = (len(self.vocabulary), len(self.dates))
        if (self.knots.num_words, self.knots.num_steps) != wanted:
            raise ValueError(
                f"the knots are of {self.knots.num_words} words and {self.knots.num_steps} steps, but there "
                f"are {wanted[0]} words and {wanted[1]} dates"
            )
        if self.occurrences.shape != self.knots.word.shape or self.tokens.shape != self.dates.shape:
            raise ValueError("occurrences must have a number for each knot, and tokens one for each step")
        if self.contexts is not None and self.contexts.mean.shape != self.words.mean.shape:
            raise ValueError("words and contexts differ in shape")

    def __len__(self) -> int:
        return len(self.dates)

    def __repr__(self) -> str:
        return (
            f"Atlas({self.settings.get('method', 'unknown')}, {len(self)} steps from {self.dates[0]} to "
            f"{self.dates[-1]}, {len(self.vocabulary):,} words, {self.dim} dimensions)"
        )

    @property
    def dim(self) -> int:
        """Dimension of the embeddings."""
        return self.words.dim

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.vocabulary)}

    def index(self, word: str) -> int:
        """Place of a word in the vocabulary."""
        if word not in self._index:
            close = difflib.get_close_matches(str(word), self.vocabulary, 3)
            raise KeyError(
                f"{word!r} is not one of the {len(self.vocabulary):,} words of the vocabulary"
                + (f"; did you mean {' or '.join(map(repr, close))}?" if close else "; choose one of them")
            )
        return self._index[word]

    @property
    def caveat(self) -> str:
        """What speaks against all answers; empty if nothing does, or nothing is known to."""
        unfinished = f"This fit has not converged: {self.message}."
        blind = (
            f"With {len(self)} steps the noise between steps cannot be measured, which takes "
            f"{STEPS_FOR_NOISE}: bands are too narrow, and unchanged words may seem to have changed. To tell "
            "them apart, compare with shuffled dates: `driftline words changed --null 20 --counts FILE` "
            "(`words.null`), with counts made by `--parts 10`, which needs no model of noise."
        )
        told = (unfinished, self.converged is False), (blind, not self.knows_noise)
        return " ".join(text for text, holds in told if holds)

    @property
    def knows_noise(self) -> bool:
        """Whether there are enough steps to measure the noise between them; the joint fit alone does so."""
        return not self.words.is_joint or len(self) >= STEPS_FOR_NOISE

    def step(self, when: Any) -> int:
        """The step that holds a date, or else the nearest."""
        return step_of(self.dates, when, length_of_steps(self.provenance))

    def occurrences_of(self, word: str) -> np.ndarray:
        """How often a word occurs at each step, (T,); zero where no pair of words with it was counted.

        `Counts.occurrences` also has steps at which the word occurs without a pair, and those held out.
        """
        i = self.index(word)
        rows = slice(self.knots.start[i], self.knots.start[i + 1])
        result = np.zeros(len(self), np.int64)
        result[self.knots.step[rows]] = self.occurrences[rows]
        return result

    def frequency(self, word: str) -> np.ndarray:
        """Share of a word in the words of each step, (T,); see `occurrences_of` for what is counted."""
        return self.occurrences_of(word) / np.maximum(self.tokens, 1)

    def trajectory(self, word: str) -> Trajectory:
        """The path of a word: its vector at every step, and how well it is known."""
        mean, variance = self.words.of_word(self.index(word))
        sd = None if variance is None else np.sqrt(variance)
        counted = self.occurrences_of(word), self.frequency(word)
        return Trajectory(word, self.dates, mean, sd, *counted, caveat=self.caveat)

    def similarity(self, a: str, b: str) -> Similarity:
        """Cosine of the vectors of two words at every step, with a 90 % credible band.

        Where a word has no vector the cosine is NaN; a posterior's band is then that of any direction.
        """
        mean_a, variance_a = self.words.of_word(self.index(a))
        mean_b, variance_b = self.words.of_word(self.index(b))
        cosine = cosines(mean_a, mean_b)
        found = None
        if variance_a is not None and variance_b is not None:
            covariance = variance_a if a == b else 0.0
            found = band(
                UncertainVectors(mean_a, variance_a), UncertainVectors(mean_b, variance_b), covariance
            )
        return Similarity(
            a=a,
            b=b,
            dates=self.dates,
            cosine=cosine,
            mean=found.mean if found else cosine,
            lower=found.lower if found else None,
            upper=found.upper if found else None,
            a_occurrences=self.occurrences_of(a),
            b_occurrences=self.occurrences_of(b),
            caveat=self.caveat,
        )

    def neighbors(
        self,
        word: str,
        when: Any,
        n: int = 10,
        *,
        like: Any = None,
        min_count: int = 1,
        window: int = WINDOW,
    ) -> Neighbors:
        """The words closest to a word at a date, at which it needs a vector that is not zero.

        What was "computer" in 1900? `atlas.neighbors("computer", 1900, like=2000)`.

        Args:
            word: A word.
            when: A date, a year or text.
            n: How many.
            like: Another date, to take the word as it was then.
            min_count: Words that occur less often around the date are left out: where a word does not occur,
                its vector says what its next occurrences do, not what it was.
            window: How many steps on either side are around the date.
        """
        at = when if like is None else like
        return self.counterparts(word, at, when, n, min_count=min_count, window=window)

    def counterparts(
        self, word: str, at: Any, when: Any, n: int = 10, *, min_count: int = 1, window: int = WINDOW
    ) -> Neighbors:
        """The words that at one date are closest to what a word was at another: `neighbors` with `like=at`.

        What was "computer" in 1900? `atlas.counterparts("computer", at=2000, when=1900)`.

        Args:
            word: A word.
            at: Date of its vector, which must not be zero.
            when: Date at which the closest words are looked for.
            n: How many.
            min_count: Words that occur less often around `when` are left out.
            window: How many steps on either side are around a date.
        """
        _check_whole(n=n, min_count=min_count, window=window)
        steps = self.step(at), self.step(when)
        return queries.closest(self, self.index(word), *steps, n=n, min_count=min_count, window=window)

    def changed(
        self,
        start: Any,
        end: Any,
        *,
        n: int = 20,
        min_count: int | None = None,
        window: int = WINDOW,
        probability: float = 0.95,
        share: float = 0.5,
        stop: Iterable[str] | os.PathLike = (),
        anyway: bool = False,
        bands: bool = True,
    ) -> Changed:
        r"""Words ranked by their change between two dates, with the probability that it is more than noise.

        A linear map that all words share is taken out first, since it does not set any of them apart. What
        the data then say of a word's displacement has one density if it has not moved and another if it has;
        the ratio of the two is the Bayes factor for a change, and with the share of changed words expected
        beforehand it gives the posterior probability of one (`docs/words.md`).

        **The stated rate.** If the model is right, a word that has not changed has a Bayes factor of k or
        more with a probability of at most 1/k. With `share=0.5`, a word reaches the probability p when its
        factor is p / (1 - p), so that at most (1 - p) / p of the unchanged words do: 5.3 % at 0.95.

        Smoothed models (DSG-S) have the joint posterior of two dates that this needs. The others give
        distances only.

        Args:
            start: A date, a year or text.
            end: Another.
            n: How many words.
            min_count: Words that occur less often around either date are not compared. If it is None, 10;
                and 1 after an import, where a word counts once wherever it has a vector.
            window: How many steps on either side are around a date.
            probability: Words that changed with at least this probability come first, by distance; then the
                rest, by probability.
            share: Share of all words that is expected to have changed, before the data.
            stop: Words that are neither listed nor counted, in any case if the atlas has lower case only; or
                the path of a file with one on each line. They still help to find the common map.
            anyway: Whether to give probabilities although the fit has not converged, or has fewer than five
                steps. What is left over of an unfinished fit looks like change, and so does the noise between
                steps, which fewer than five do not tell.
            bands: Whether to give bands of distances, which take longer than all else.
        """
        if min_count is None:
            min_count = 1 if self.settings.get("method") == "imported" else MIN_COUNT
        _check_whole(n=n, min_count=min_count, window=window)
        for name, value in (("probability", probability), ("share", share)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name}={value!r}; a number between 0 and 1 is needed")
        left_out = stopped(self._index, stop)
        first, second = self.step(start), self.step(end)
        if first == second:
            raise ValueError(
                f"{start!r} and {end!r} are both at the step {self.dates[first]}; choose dates further apart"
            )
        return queries.changed(
            self,
            first,
            second,
            n=n,
            min_count=min_count,
            window=window,
            threshold=probability,
            share=share,
            with_probabilities=anyway or (self.converged is not False and self.knows_noise),
            bands=bands,
            stop=left_out,
        )

    def support(self, step: int, window: int = WINDOW) -> np.ndarray:
        """How often each word occurs at a step and at some on either side of it, (V,).

        See `occurrences_of` for what is counted.
        """
        near = np.abs(self.knots.step - step) <= window
        counts = np.bincount(self.knots.word[near], self.occurrences[near], len(self.vocabulary))
        return counts.astype(np.int64)

    def save(self, path: str | os.PathLike) -> None:
        """Write the atlas to one file: plain arrays, JSON and checksums. `words.load` reads it."""
        atlas_file.save(self, path)

    def export(
        self,
        place: str | os.PathLike,
        format: Literal["word2vec", "csv", "npz"] = "word2vec",
        *,
        when: Any | Iterable[Any] = None,
    ) -> list[Path]:
        """Write the mean vectors for other programs; returns the paths of the files.

        Args:
            place: A folder for "word2vec", which gets a file for each date; a file for "csv" and "npz".
            format: "word2vec" text, "csv" with a line for each date and word, or "npz" (NumPy).
            when: A date or several; all if none is given.
        """
        return exporting.export(self, place, format, when)


def load(path: str | os.PathLike, *, verify: bool = True) -> Atlas:
    """Read an atlas that `Atlas.save` wrote; a damaged or inconsistent file is refused.

    Its large arrays stay on disk and are read where they are needed.

    Args:
        path: Where it is.
        verify: Whether to read the whole file once to compare its checksums, at about a gigabyte a second.
    """
    return Atlas(**atlas_file.read(path, verify=verify))


def _check_whole(**numbers: Any) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 0:
            raise ValueError(f"{name}={number!r}; a whole number of at least 0 is needed")
