"""Word embeddings that drift through time: dated texts in, an atlas of moving words out.

Public names load on first use; reading, counting and asking an atlas need NumPy only, not JAX.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftline.words.addresses import sotu as sotu
    from driftline.words.atlas.agreement import agreement as agreement
    from driftline.words.atlas.importing import import_vectors as import_vectors
    from driftline.words.atlas.importing import import_word2vec as import_word2vec
    from driftline.words.atlas.model import Atlas as Atlas
    from driftline.words.atlas.model import load as load
    from driftline.words.corpus import Corpus as Corpus
    from driftline.words.corpus import Document as Document
    from driftline.words.counting import count as count
    from driftline.words.counts import Counts as Counts
    from driftline.words.counts import load_counts as load_counts
    from driftline.words.embedding.null import null as null
    from driftline.words.embedding.progress import FitProgress as FitProgress
    from driftline.words.embedding.training import fit as fit
    from driftline.words.evaluation import evaluate as evaluate
    from driftline.words.ngram_tables import NgramTable as NgramTable
    from driftline.words.ngram_tables import ngrams as ngrams
    from driftline.words.reading import read as read
    from driftline.words.scores import Evaluation as Evaluation
    from driftline.words.streams import Limits as Limits
    from driftline.words.synthetic import planted as planted
    from driftline.words.tokens import Tokeniser as Tokeniser

_HOMES = {
    "driftline.words.atlas.agreement": ("agreement",),
    "driftline.words.atlas.importing": ("import_vectors", "import_word2vec"),
    "driftline.words.atlas.model": ("Atlas", "load"),
    "driftline.words.corpus": ("Corpus", "Document"),
    "driftline.words.counting": ("count",),
    "driftline.words.counts": ("Counts", "load_counts"),
    "driftline.words.embedding.null": ("null",),
    "driftline.words.embedding.progress": ("FitProgress",),
    "driftline.words.embedding.training": ("fit",),
    "driftline.words.evaluation": ("evaluate",),
    "driftline.words.ngram_tables": ("NgramTable", "ngrams"),
    "driftline.words.reading": ("read",),
    "driftline.words.addresses": ("sotu",),
    "driftline.words.scores": ("Evaluation",),
    "driftline.words.streams": ("Limits",),
    "driftline.words.synthetic": ("planted",),
    "driftline.words.tokens": ("Tokeniser",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name):
    if name not in _HOME_OF:
        raise AttributeError(f"module 'driftline.words' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__():
    return __all__
