"""One contestant of `words` or `books`, in a process of its own; its last line is its figures as JSON."""

import json
import sys
import time

import numpy as np

from benchmarks.harness.measure import peak_rss
from driftline import words
from driftline.words.counts.counts import Counts

LEVEL_ROUNDS, PATH_ROUNDS = 5, 4  # that the State of the Union takes


def addresses(vocabulary):
    """Counts of the State of the Union, and the held-out steps."""
    counts = words.count(words.sotu(), vocabulary=int(vocabulary), join_days=7, progress=False)
    return counts, list(range(4, len(counts), 10))


def counting(vocabulary, repeats=5):
    """Cutting and counting addresses that are in memory, on one core; seconds are the processor's own."""
    texts = [(document.date, document.text) for document in words.sotu()]
    seconds, tokens = [], 0
    for _ in range(int(repeats)):
        began = time.process_time()
        counts = words.count(texts, vocabulary=int(vocabulary), join_days=7, progress=False)
        seconds.append(time.process_time() - began)
        tokens = int(counts.tokens.sum())
    return {
        "tokens": tokens,
        "CPU s, min": min(seconds),
        "CPU s, median": float(np.median(seconds)),
        "million tokens a CPU second": 1e-6 * tokens / min(seconds),
    }


def optimiser(vocabulary, dim, name, *passes):
    """Fit DSG-S and note the held-out score on the way."""
    counts, held_out = addresses(vocabulary)
    seen = []

    def look(told):
        if told.score is not None:
            spent = {"s": told.seconds, "CPU s": time.process_time() - before}
            seen.append({"done": told.done, "score": told.score, "objective": told.objective} | spent)
            print(json.dumps(seen[-1]), file=sys.stderr, flush=True)

    began, before = time.perf_counter(), time.process_time()
    atlas = words.fit(
        counts,
        dim=int(dim),
        optimiser=name,
        passes=tuple(map(int, passes)),
        hold_out=held_out,
        progress=look,
    )
    seconds = time.perf_counter() - began
    steps = [counts.step(t) for t in range(len(counts)) if t not in held_out]
    total = 2.0 * sum(step.total for step in steps)
    assert atlas.elbo is not None
    return {
        "seen": seen,
        "score": seen[-1]["score"],
        "elbo": atlas.elbo / total,
        "seconds": seconds,
        "peak": peak_rss() / 1e9,
    }


def slices(vocabulary, dim):
    """SGI on every address, each predicted from the one before."""
    counts, _ = addresses(vocabulary)
    began = time.perf_counter()
    found = words.evaluate(counts, ["sgi"], int(dim))
    return {"score": float(found.methods["sgi"].scores.mean()), "seconds": time.perf_counter() - began}


def gensim(vocabulary, dim):
    """The same with gensim's word2vec."""
    from gensim.models import Word2Vec

    from driftline.words.fitting.scoring import score
    from driftline.words.texts.tokens import Tokeniser

    counts, _ = addresses(vocabulary)
    known, cut = set(counts.vocabulary), Tokeniser()
    texts: dict[int, list[list[str]]] = {}
    for document in words.sotu():
        # A joined address begins less than a week after the step does.
        step = int(np.searchsorted(counts.dates, np.datetime64(document.date), side="right")) - 1
        texts.setdefault(step, []).append([word for word in cut(document.text) if word in known])
    scores, before = [], None
    began = time.perf_counter()
    for t in range(len(counts)):
        if before is not None:
            step = counts.step(t)
            sides = [np.zeros((len(step.words), int(dim)), np.float32) for _ in range(2)]
            for place, word in enumerate(step.words):
                row = before.wv.key_to_index.get(counts.vocabulary[word])
                if row is not None:
                    sides[0][place], sides[1][place] = before.wv.vectors[row], before.syn1neg[row]
            scores.append(score(step, step.negatives(), *sides))
        before = Word2Vec(
            texts[t],
            vector_size=int(dim),
            window=4,
            sg=1,
            negative=1,
            min_count=1,
            epochs=5,
            workers=2,
            seed=1,
        )
    return {"score": float(np.mean(scores)), "seconds": time.perf_counter() - began}


def books(num_steps, vocabulary, dim):
    """A round of each phase over Zipfian counts of many steps at which every word is present."""
    import jax

    from driftline.words.fitting.problem import FittingProblem
    from driftline.words.fitting.smoothing import Smoother
    from driftline.words.settings import WordSettings

    began = time.perf_counter()
    counts = zipfian(int(num_steps), int(vocabulary))
    settings = WordSettings(dim=int(dim))
    trainer = Smoother(FittingProblem(counts, settings, np.arange(len(counts))))
    level, paths = trainer.phases
    state = trainer.begin()
    times = {"setup s": time.perf_counter() - began}

    def timed(name, function, *arguments):
        began = time.perf_counter()
        result = jax.block_until_ready(function(*arguments))
        times[name] = time.perf_counter() - began
        print(json.dumps({name: times[name], "peak GB": peak_rss() / 1e9}), file=sys.stderr, flush=True)
        return result

    for _ in range(2):  # the second is compiled
        state = timed("level round s", trainer.advance, state, level, 0)
    # Minutes each, so that the seconds of compiling do not matter.
    state = timed("first round of paths s", trainer.advance, state, paths, 2)
    timed("finish s", trainer.finish, state)
    rounds = {"level round s": LEVEL_ROUNDS, "first round of paths s": PATH_ROUNDS, "finish s": 1}
    total = sum(many * times[name] for name, many in rounds.items())
    return times | {"projected minutes": total / 60, "peak GB": peak_rss() / 1e9}


def zipfian(num_steps, vocabulary, pairs=400_000):
    """Counts whose words fall off as 1/rank, every word present at every step."""
    rng = np.random.default_rng(0)
    share = np.cumsum(1.0 / np.arange(1, vocabulary + 1))
    share /= share[-1]
    step_indptr, rows, indptr, indices, values = [0], [], [0], [], []
    occurrences = np.zeros((num_steps, vocabulary), np.int64)
    for t in range(num_steps):
        drawn = np.searchsorted(share, rng.random((2, pairs)))
        # A pair of its own for every word, so that none is absent.
        both = np.concatenate(
            [drawn, [np.arange(vocabulary), (np.arange(vocabulary) + 1) % vocabulary]], axis=1
        )
        key, many = np.unique(both.min(0) * vocabulary + both.max(0), return_counts=True)
        first, second = np.divmod(key, vocabulary)
        heads, begins = np.unique(first, return_index=True)
        rows.append(heads.astype(np.int32))
        indptr.extend((indptr[-1] + np.append(begins[1:], len(key))).tolist())
        indices.append(second.astype(np.int32))
        values.append(many.astype(np.float32))
        step_indptr.append(step_indptr[-1] + len(heads))
        occurrences[t] = np.bincount(both.ravel(), minlength=vocabulary)
    return Counts(
        vocabulary=tuple(f"w{i}" for i in range(vocabulary)),
        dates=np.datetime64("1800-01-01") + np.arange(num_steps) * np.timedelta64(365, "D"),
        window=4,
        step_indptr=np.array(step_indptr),
        rows=np.concatenate(rows),
        indptr=np.array(indptr),
        indices=np.concatenate(indices),
        values=np.concatenate(values),
        occurrences=occurrences,
        tokens=occurrences.sum(1),
        documents=np.ones(num_steps, np.int64),
        provenance={"source": "made up"},
    )


CONTESTANTS = {
    "counting": counting,
    "optimiser": optimiser,
    "slices": slices,
    "gensim": gensim,
    "books": books,
}

if __name__ == "__main__":
    print(json.dumps(CONTESTANTS[sys.argv[1]](*sys.argv[2:])))
