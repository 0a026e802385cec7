"""From texts to counts of word pairs at every time step. NumPy only."""
