"""Structured variational inference for latent time series, and word embeddings that drift through time.

Public names load on first use: `import driftline` does not import JAX.
"""

from driftline.public_names import lazily

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
