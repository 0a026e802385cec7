"""Dated texts: where they are, how they are read, cut into words and dated. NumPy only."""
