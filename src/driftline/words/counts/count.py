"""`words.count`: from a corpus to counts.

Texts are read and cut once. Their words, numbered as they come, go to a temporary file; when all are known,
the vocabulary and the time steps are chosen, and the file is gone through for pairs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from driftline.words.counts.counts import Counts
from driftline.words.counts.dealing import MOST, Deal
from driftline.words.counts.first_pass import Gathered
from driftline.words.counts.progress import CountProgress, CountReporter
from driftline.words.counts.second_pass import Pairing, mean_shares
from driftline.words.counts.spool import Spool
from driftline.words.counts.step_parts import Parts, put_together
from driftline.words.counts.time_steps import Step, check_step, make_steps
from driftline.words.counts.vocabulary import RANKS, check_vocabulary, choose
from driftline.words.counts.workers import Workers
from driftline.words.texts.corpus import Corpus
from driftline.words.texts.named_tokeniser import ImportedTokeniser
from driftline.words.texts.ngrams import NgramTable
from driftline.words.texts.sources import DatedTexts
from driftline.words.texts.tokens import Tokeniser


def count(
    corpus: Corpus | NgramTable | Iterable[tuple[Any, str]],
    vocabulary: int | Sequence[str] = 10_000,
    window: int = 4,
    *,
    step: Step = "document",
    join_days: int = 0,
    tokenise: Callable[[str], Iterable[str]] | str | None = None,
    rank: Literal["total", "per-step"] = "total",
    min_count: int = 1,
    stop: Iterable[str] = (),
    parts: int = 1,
    processes: int = 1,
    progress: bool | None | Callable[[CountProgress], object] = None,
    buffer: int = 1 << 21,
) -> Counts:
    r"""Count which words stand near which, at every time step.

    Every ordered pair of words of a document with k words between them adds $\max(0, 1 - k/\text{window})$
    to the positive counts $n^+_{ij}$ of its step: with a window of 4, the distances 1, 2, 3, 4 weigh 1, 0.75,
    0.5, 0.25. Windows do not cross the borders of documents. Words outside the vocabulary keep their places
    and count nothing. Negative counts follow from the positive ones: `counts.step(t).negatives()`.

    Memory grows with the number of different words and of different pairs at a step, not with the length of
    the corpus. A temporary file takes four bytes a word. Neither `buffer` nor `processes` changes the result.

    Args:
        corpus: From `words.read`, `words.sotu` or `words.ngrams`, or any iterable of dates and texts.
        vocabulary: How many words, or which ones, as they are. If the corpus has fewer than the number asked
            for, all are taken, with a warning.
        window: Pairs count up to this distance.
        step: What makes a time step: "document" (all documents of one date), "day", "month", "year",
            "decade", or a number of days. There are no steps without a document.
        join_days: With `step="document"`: documents less than so many days after the last join its step.
        tokenise: A function from a text to its words; by default `Tokeniser()`, which lowers their case. For
            scripts without spaces, such as Chinese, one is needed: "jieba:lcut" names a module and a
            function in it, and works with several processes whatever the function is made of.
        rank: Words are chosen by how often they occur ("total"), or by their mean share of a step
            ("per-step"), so that steps with many texts do not choose alone.
        min_count: Words that occur less often are not chosen.
        stop: Words that are not chosen.
        parts: Documents of each step are dealt into at most so many parts, by a hash of their texts, and the
            counts of each part are kept for `counts.shuffled`. The counts of the steps stay the same. Memory
            and file then grow with the different pairs of a part, and the occurrences of its words.
        processes: How many processes cut and count. With more than one, a script must keep its own work under
            `if __name__ == "__main__":`.
        progress: True, False, a function of a `CountProgress`, or None for a line if there is a terminal.
        buffer: Characters of text that are taken at a time.
    """
    vocabulary = check_vocabulary(vocabulary)
    check_step(step, join_days)
    _check_numbers(window=window, min_count=min_count, parts=parts, processes=processes, buffer=buffer)
    if rank not in RANKS:
        raise ValueError(f"rank={rank!r}; choose one of {RANKS}")
    if isinstance(stop, str):
        raise TypeError(f"stop={stop!r} is one string; pass a list of words")
    stop = sorted(set(stop))
    if not isinstance(vocabulary, int) and (stop or min_count > 1 or rank != "total"):
        raise ValueError("stop=, min_count= and rank= choose a vocabulary, but it is given; leave them out")
    source = corpus if isinstance(corpus, Corpus | NgramTable) else Corpus(DatedTexts(corpus))
    if parts > MOST:
        raise ValueError(f"parts={parts}; take at most {MOST}")
    if parts > 1 and not isinstance(source, Corpus):
        raise ValueError(f"parts={parts}, but tables of n-grams have no documents to deal; leave parts= out")
    if isinstance(source, Corpus) and tokenise is None:
        tokenise = Tokeniser()
    if isinstance(tokenise, str):
        tokenise = ImportedTokeniser(tokenise)
    units, one = source.pair_units(window)
    with Workers(processes) as workers, Spool() as spool, CountReporter(progress) as report:
        texts = Gathered(spool, int(parts))
        texts.read(source, tokenise, buffer, workers, report)
        steps = make_steps(texts.days, step, join_days)
        tokens, documents = texts.per_step(steps)
        deal = Deal(steps, documents)
        _check_dates(steps.dates, documents, texts.where)
        if isinstance(vocabulary, int):
            totals, num_words = texts.totals, len(texts.totals)
            scores = totals if rank == "total" else mean_shares(spool, steps, tokens.sum(1), num_words)
            words = choose(texts.words, totals, scores, vocabulary, min_count=min_count, stop=stop)
        else:
            words = vocabulary
        pairing = Pairing(texts.numbering, words, deal, units)
        pairing.run(spool, workers, report)
    options = {
        "vocabulary": vocabulary if isinstance(vocabulary, int) else "given",
        "window": int(window),
        "step": step if isinstance(step, str) else int(step),
        "join_days": int(join_days),
        "tokenise": _name(tokenise),
        "rank": rank,
        "min_count": int(min_count),
        "stop": stop,
    } | ({"parts": int(parts)} if parts > 1 else {})
    arrays = pairing.arrays(one) | {
        "occurrences": pairing.occurrences,
        "tokens": deal.each(tokens),
        "documents": deal.each(documents),
    }
    dealt = Parts(deal.step, **arrays) if parts > 1 else None
    return Counts(
        vocabulary=words,
        dates=steps.dates,
        window=int(window),
        **(arrays if dealt is None else put_together(dealt, len(steps.dates), int(window))),
        provenance=texts.provenance(source) | {"options": options},
        parts=dealt,
    )


def _check_numbers(**numbers: Any) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise ValueError(f"{name}={number!r}; a whole number of at least 1 is needed")


def _check_dates(dates: np.ndarray, documents: np.ndarray, where: str) -> None:
    if len(dates) < 2:
        raise ValueError(
            f"{where}all {documents.sum()} documents fall into one time step, {dates[0]}; drift needs at "
            "least two: take a finer step=, a smaller join_days=, or texts of more dates"
        )


def _name(function: Any) -> str | None:
    if isinstance(function, ImportedTokeniser):
        return function.name
    if function is None or isinstance(function, Tokeniser):
        return function and repr(function)
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
