"""A small corpus with two topics, one word that moves from one to the other, and its counts."""

import random
from pathlib import Path

from driftline import words

SEA = ["ship", "sail", "port", "wind", "wave", "captain", "deck", "anchor", "harbour", "crew"]
FIELD = ["corn", "plough", "horse", "barn", "harvest", "farmer", "seed", "wheat", "cattle", "rain"]
COMMON = ["the", "of", "and", "to", "in", "a", "is", "that", "it", "for"]
MOVES = "plane"


def sentences(rng: random.Random, share: float, many: int) -> str:
    """Sentences of either topic; the moving word is at sea with some probability, and else in the fields."""
    told = []
    for _ in range(many):
        topic = rng.choice((SEA, FIELD))
        word = rng.choices(topic, k=6) + rng.choices(COMMON, k=4)
        if (topic is SEA) == (rng.random() < share):
            word.append(MOVES)
        rng.shuffle(word)
        told.append(" ".join(word))
    return "\n".join(told)


def small_texts(num_steps: int, many: int = 60) -> list[tuple[str, str]]:
    """Dates, a decade apart from 1900 on, and texts."""
    rng = random.Random(0)
    return [(f"{1900 + 10 * t}-01-01", sentences(rng, t / (num_steps - 1), many)) for t in range(num_steps)]


def small_counts(path: Path) -> words.Counts:
    """Counts of 31 words over eight decades, saved to a file."""
    counts = words.count(small_texts(8), 31, progress=False)
    counts.save(path)
    return counts
