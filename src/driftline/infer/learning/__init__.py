"""Numbers of a model that a fit learns: their top, their posterior, the path averaged over it."""
