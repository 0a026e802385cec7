"""Paths of words through time: their prior, where they are stored, how they are filled in. NumPy only."""
