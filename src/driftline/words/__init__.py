"""Word embeddings that drift through time: dated texts in, an atlas of moving words out.

Public names load on first use; reading, counting and asking an atlas need NumPy only, not JAX.
"""

from driftline.public_names import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
