"""Vectors of other programs as an atlas. NumPy only."""
