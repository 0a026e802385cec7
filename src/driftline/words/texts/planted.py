"""Made-up texts in which some words change their meaning, so that it is known what should be found."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Planted:
    """A made-up corpus.

    Attributes:
        texts: Dates and texts, for `words.count`.
        moved: Words that go from one topic to another in the course of time.
    """

    texts: list[tuple[str, str]]
    moved: tuple[str, ...]


def planted(
    num_steps: int = 20,
    num_words: int = 200,
    num_moved: int = 3,
    *,
    num_topics: int = 8,
    tokens: int = 4000,
    sentence: int = 10,
    documents: int | None = None,
    first_year: int = 1900,
    gap: int = 5,
    seed: int = 0,
) -> Planted:
    """Texts with planted drift.

    Every sentence has a topic. Three quarters of its words are drawn from the words of that topic, the others
    from all words; inside both, shares fall with rank as 1/rank. A planted word belongs to one topic at first
    and to another at last; in between it goes over at a steady rate. Planted words are of middling frequency,
    and nothing else changes.

    Args:
        num_steps: Number of time steps, one text each unless `documents` is given.
        num_words: Number of different words, w0, w1, …, the most frequent first.
        num_moved: How many of them are planted.
        num_topics: Number of topics.
        tokens: Words at each step.
        sentence: Words in a sentence; windows cross the borders of sentences, as they do in real texts.
        documents: Number of documents at each time step, each on one topic, in place of a text of sentences
            on all topics. How many there are on a topic is then a matter of chance, as it is in real texts.
        first_year: Year of the first text.
        gap: Years between texts.
        seed: The same seed gives the same texts.
    """
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(2, num_words + 2)
    topic = rng.permutation(np.arange(num_words) % num_topics)
    middling = np.arange(num_words // 10, max(num_words // 3, num_words // 10 + num_moved))
    moved = np.sort(rng.choice(middling, num_moved, replace=False))
    target = (topic[moved] + rng.integers(1, num_topics, num_moved)) % num_topics
    texts = []
    for t in range(num_steps):
        belongs = np.zeros((num_topics, num_words))
        belongs[topic, np.arange(num_words)] = 1.0
        gone = t / max(num_steps - 1, 1)
        belongs[topic[moved], moved] = 1.0 - gone
        belongs[target, moved] = gone
        mixed = 0.75 * _normalised(belongs * share) + 0.25 * _normalised(share[None])
        date = f"{first_year + gap * t:04d}-01-01"
        if documents is None:
            topics = rng.integers(num_topics, size=-(-tokens // sentence))
            drawn = [rng.choice(num_words, size=sentence, p=mixed[k]) for k in topics]
            texts.append((date, _spelled(np.concatenate(drawn)[:tokens])))
        else:
            for k in rng.integers(num_topics, size=documents):
                texts.append((date, _spelled(rng.choice(num_words, size=tokens // documents, p=mixed[k]))))
    return Planted(texts, tuple(f"w{word}" for word in moved))


def _spelled(numbers):
    return " ".join(f"w{number}" for number in numbers)


def _normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)
