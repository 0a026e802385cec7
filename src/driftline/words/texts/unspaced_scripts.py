"""Scripts that put nothing between their words, which no rule on letters can cut."""

import re
import warnings
from collections.abc import Iterable

MOST = 0.5  # share of all letters from which on a text is in such a script
UNSPACED = {
    "Japanese": "\u3040-\u30ff\u31f0-\u31ff",
    "Chinese": "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff",
    "Thai": "\u0e00-\u0e7f",
    "Lao": "\u0e80-\u0eff",
    "Burmese": "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f",
    "Khmer": "\u1780-\u17ff",
}
_SCRIPTS = {name: re.compile(f"[{letters}]") for name, letters in UNSPACED.items()}
_ANY = re.compile(f"[{''.join(UNSPACED.values())}]")


def unspaced_share(words: Iterable[str], totals: Iterable[int]) -> tuple[float, str | None]:
    """Share of all letters that is in such a script, and the first word with some.

    Args:
        words: The words of a corpus.
        totals: How often each occurs.
    """
    letters = unspaced = 0
    example = None
    for word, total in zip(words, totals, strict=True):
        letters += len(word) * total
        if not word.isascii() and (found := len(_ANY.findall(word))):
            unspaced += found * total
            example = example or word
    return unspaced / max(letters, 1), example


def warn_of_unspaced(words: Iterable[str], totals: Iterable[int]) -> None:
    """Warn if most of a corpus is in such a script, and so was not cut into words."""
    share, example = unspaced_share(words, totals)
    if share <= MOST or example is None:
        return
    script = next(name for name, letters in _SCRIPTS.items() if letters.search(example))
    warnings.warn(
        f"{share:.0%} of the text is in a script without spaces between words, such as {script} "
        f"({example!r:.40}), and was cut at punctuation only; pass a function that knows the language, as in "
        "tokenise='jieba:lcut'",
        stacklevel=4,
    )
