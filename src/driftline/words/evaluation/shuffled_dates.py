"""Which words changed, held against fits of the same documents with shuffled dates.

The probabilities of `Atlas.changed` are right if the model is. A null needs no model to be right: where dates
are shuffled nothing can have changed, and what is called all the same is the rate of false calls.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from driftline.words.atlas.answers import Answer, Changed
from driftline.words.atlas.atlas import WINDOW, Atlas
from driftline.words.counts.counts import Counts
from driftline.words.evaluation.false_rates import expected, false_rates
from driftline.words.fitting import training


class NullProgress(NamedTuple):
    """How far a null is.

    Attributes:
        done: Shuffles that are done.
        planned: All of them.
        compared: How many words could be compared in the last one.
        called: How many of these were called changed; None if the method has no probabilities.
    """

    done: int
    planned: int
    compared: int
    called: int | None


class Shuffle(NamedTuple):
    """What a fit of shuffled counts says: scores of all words compared, and how many were called changed."""

    scores: np.ndarray
    called: int | None


@dataclasses.dataclass(frozen=True, eq=False)
class Null(Answer):
    """Words ranked by change, each with the rate of false discoveries down to it; see `null`.

    Attributes:
        start: The earlier step, or the one asked for first.
        end: The other.
        words: All words compared, in the order of `Atlas.changed`, (n,).
        scores: What they are ranked by here: evidence for a change in nats, or distances if the method has no
            probabilities.
        rates: Rate of false discoveries among the words with this score or more, (n,); never zero.
        errors: Its standard error, from the differences of shuffles.
        score: "log factor" or "distance".
        threshold: The probability asked for.
        num_called: How many words reach it, or None.
        num_compared: How many words have support at both steps.
        null_called: How many words reach it in each shuffle, (B,), or None.
        null_compared: How many words were compared in each shuffle, (B,).
        seed: Of the first shuffle; the others have the next ones.
        is_coarse: Whether whole steps were shuffled, because the counts have one part for each.
    """

    index: ClassVar[str] = "word"

    start: np.datetime64
    end: np.datetime64
    words: tuple[str, ...]
    scores: np.ndarray
    rates: np.ndarray
    errors: np.ndarray
    score: str
    threshold: float
    num_called: int | None
    num_compared: int
    null_called: np.ndarray | None
    null_compared: np.ndarray
    seed: int
    is_coarse: bool

    @property
    def times(self) -> int:
        """How many shuffles there are with a word to compare."""
        return int((self.null_compared > 0).sum())

    @property
    def false_calls(self) -> tuple[float, float] | None:
        """How many of the words called changed are expected to be false, and the standard error of that.

        The mean over shuffles, scaled to the number of words compared, with one word more in all of them. If
        none was called in any of B shuffles, it is 1 / B: an upper end of what they can tell.
        """
        if self.null_called is None:
            return None
        some = self.null_compared > 0
        called = self.null_called[some] * (self.num_compared / self.null_compared[some])
        return tuple(float(number) for number in expected(called))  # pyright: ignore[reportReturnType]

    @property
    def rate(self) -> float | None:
        """Rate of false discoveries among the words called changed; None if there are none to call."""
        if self.false_calls is None or not self.num_called:
            return None
        return min(self.false_calls[0] / self.num_called, 1.0)

    def rates_of(self, words: Iterable[str]) -> np.ndarray:
        """Rates of some words, NaN for those that were not compared."""
        known = dict(zip(self.words, self.rates.tolist(), strict=True))
        return np.array([known.get(word, np.nan) for word in words], np.float64)

    def head(self, n: int = 20) -> "Null":
        """The same with the first n words only; what is said of all words stays."""
        columns = {name: getattr(self, name)[:n] for name in ("words", "scores", "rates", "errors")}
        return dataclasses.replace(self, **columns)

    def columns(self):  # noqa: D102
        return {
            "word": np.array(self.words, object),
            self.score.replace(" ", "_"): self.scores,
            "false_percent": 100.0 * self.rates,
            "error_percent": 100.0 * self.errors,
        }

    def title(self):  # noqa: D102
        found = f"Change from {self.start} to {self.end} against {self.times} shuffles"
        if self.false_calls is None:
            return f"{found}: {self.num_compared:,} words compared, ranked by distance"
        false, error = self.false_calls
        assert self.null_called is not None
        many = (
            f"{false:.2f} ± {error:.2f} of them expected by chance"
            if self.null_called.any()
            else f"less than 1 in {self.times} of a word expected by chance"
        )
        called = f"{self.num_called:,} changed with probability {self.threshold:g} or more"
        return f"{found}: {self.num_compared:,} words compared, {called}, {many}"


def null(
    counts: Counts,
    atlas: Atlas,
    start: Any,
    end: Any,
    *,
    times: int = 20,
    seed: int = 0,
    refit: Callable[[Counts], Atlas] | None = None,
    probability: float = 0.95,
    min_count: int | None = None,
    window: int = WINDOW,
    progress: Callable[[NullProgress], object] | None = None,
) -> Null:
    """The words of `atlas.changed`, held against fits of counts whose dates are shuffled.

    For shuffle b, `counts.shuffled(seed + b)` is fitted, and all its words are compared as those of the
    atlas are. Words are ranked by the evidence for a change, or by distance if the method has no
    probabilities. The module `false_rates` has the formula of the rates.

    Args:
        counts: What the atlas was fitted to. With parts, `words.count(..., parts=10)`, the null is finer.
        atlas: The fit in question.
        start: A date, a year or text.
        end: Another.
        times: How many shuffles, at least two. Fewer false words in a list than 1 / `times` cannot be told.
        seed: Of the first shuffle.
        refit: Fits shuffled counts. By default, in the same way as the atlas was fitted, beginning with it.
        probability: Words that changed with at least this probability are called.
        min_count: As of `Atlas.changed`.
        window: The same.
        progress: Told after every shuffle. Ctrl-C stops the null, as it stops a fit.
    """
    if not isinstance(times, int | np.integer) or isinstance(times, bool) or times < 2:
        raise ValueError(f"times={times!r}; a whole number of at least 2 is needed")
    if counts.vocabulary != atlas.vocabulary:
        raise ValueError("the atlas has other words than the counts; pass the counts that it was fitted to")
    if refit is None:
        refit = functools.partial(warm, atlas=atlas)
    options = {"probability": probability, "min_count": min_count, "window": window}
    real = atlas.changed(start, end, n=len(atlas.vocabulary), bands=False, anyway=True, **options)
    shuffles = []
    for b in range(int(times)):
        shuffles.append(_compare(refit(counts.shuffled(seed + b)), real, options))
        if progress is not None:
            progress(NullProgress(b + 1, int(times), len(shuffles[-1].scores), shuffles[-1].called))
    return _result(real, shuffles, seed, counts.num_parts <= len(counts))


def warm(counts: Counts, atlas: Atlas) -> Atlas:
    """A fit of other counts with the settings of an atlas, beginning with its vectors."""
    free = atlas.learnt.get("free", [])
    names = ("method", "drift", "scale", "prior", "ratio", "exponent", "optimiser", "passes", "seed")
    options: dict[str, Any] = {name: None if name in free else atlas.settings[name] for name in names}
    begins = atlas.settings["method"] == "dsg-s" and atlas.settings["optimiser"] == "fast"
    return training.fit(
        counts,
        **options,
        dim=atlas.dim,
        start=atlas if begins else None,
        hold_out=atlas.provenance.get("left_out", ()),
        progress=False,
    )


def _compare(atlas, real: Changed, options) -> Shuffle:
    """What a fit of shuffled counts says between the same two steps."""
    missing = [str(date) for date in (real.start, real.end) if date not in atlas.dates]
    if missing:
        raise ValueError(f"the fit of shuffled counts has no step {missing[0]}; refit= must not leave it out")
    try:
        found = atlas.changed(
            real.start, real.end, n=len(atlas.vocabulary), bands=False, anyway=True, **options
        )
    except ValueError:  # shuffled steps may be too small for any word to have support at both
        return Shuffle(np.zeros(0), None if real.log_factors is None else 0)
    if (found.log_factors is None) != (real.log_factors is None):
        raise ValueError("refit= has used a method with other probabilities than the atlas; take the same")
    return Shuffle(_scores(found), found.num_changed)


def _scores(found: Changed) -> np.ndarray:
    return found.distances if found.log_factors is None else found.log_factors


def _result(real: Changed, shuffles, seed, is_coarse):
    some = [each.scores for each in shuffles if len(each.scores)]
    if len(some) < 2:
        raise ValueError(
            f"of {len(shuffles)} shuffles, {len(some)} have words with support at {real.start} and "
            f"{real.end}; lower min_count=, widen window=, or count in more parts"
        )
    scores = _scores(real)
    rates = false_rates(scores, some)
    has = real.log_factors is not None
    return Null(
        start=real.start,
        end=real.end,
        words=real.words,
        scores=scores,
        rates=rates.rates,
        errors=rates.errors,
        score="log factor" if has else "distance",
        threshold=real.threshold,
        num_called=real.num_changed,
        num_compared=real.num_compared,
        null_called=np.array([each.called for each in shuffles], np.int64) if has else None,
        null_compared=np.array([len(each.scores) for each in shuffles], np.int64),
        seed=int(seed),
        is_coarse=bool(is_coarse),
    )
