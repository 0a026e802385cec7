"""Word models, beside the published optimiser, and at the size of books."""
