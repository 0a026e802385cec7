"""Fits of word models, on JAX: the likelihood, the four methods, and the runs that train them."""
