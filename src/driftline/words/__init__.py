"""Word embeddings that drift through time: dated texts in, an atlas of moving words out.

Public names load on first use; reading, counting and asking an atlas need NumPy only, not JAX.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftline.words.atlas.agreement import agreement as agreement
    from driftline.words.atlas.atlas import Atlas as Atlas
    from driftline.words.atlas.atlas import load as load
    from driftline.words.counts.count import count as count
    from driftline.words.counts.counts import Counts as Counts
    from driftline.words.counts.counts import load_counts as load_counts
    from driftline.words.evaluation.evaluate import evaluate as evaluate
    from driftline.words.evaluation.scores import Evaluation as Evaluation
    from driftline.words.evaluation.shuffled_dates import null as null
    from driftline.words.fitting.progress import FitProgress as FitProgress
    from driftline.words.fitting.training import fit as fit
    from driftline.words.importing.vectors import import_vectors as import_vectors
    from driftline.words.importing.vectors import import_word2vec as import_word2vec
    from driftline.words.texts.corpus import Corpus as Corpus
    from driftline.words.texts.corpus import Document as Document
    from driftline.words.texts.ngrams import NgramTable as NgramTable
    from driftline.words.texts.ngrams import ngrams as ngrams
    from driftline.words.texts.planted import planted as planted
    from driftline.words.texts.read import read as read
    from driftline.words.texts.sotu import sotu as sotu
    from driftline.words.texts.streams import Limits as Limits
    from driftline.words.texts.tokens import Tokeniser as Tokeniser

_HOMES = {
    "driftline.words.atlas.agreement": ("agreement",),
    "driftline.words.importing.vectors": ("import_vectors", "import_word2vec"),
    "driftline.words.atlas.atlas": ("Atlas", "load"),
    "driftline.words.texts.corpus": ("Corpus", "Document"),
    "driftline.words.counts.count": ("count",),
    "driftline.words.counts.counts": ("Counts", "load_counts"),
    "driftline.words.evaluation.shuffled_dates": ("null",),
    "driftline.words.fitting.progress": ("FitProgress",),
    "driftline.words.fitting.training": ("fit",),
    "driftline.words.evaluation.evaluate": ("evaluate",),
    "driftline.words.texts.ngrams": ("NgramTable", "ngrams"),
    "driftline.words.texts.read": ("read",),
    "driftline.words.texts.sotu": ("sotu",),
    "driftline.words.evaluation.scores": ("Evaluation",),
    "driftline.words.texts.streams": ("Limits",),
    "driftline.words.texts.planted": ("planted",),
    "driftline.words.texts.tokens": ("Tokeniser",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name):
    if name not in _HOME_OF:
        raise AttributeError(f"module 'driftline.words' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__():
    return __all__
