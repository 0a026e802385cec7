"""A trained word model: its file and its queries. Nothing in here needs JAX."""
