"""Models that are linear and Gaussian: the smoother, and how they are recognised."""
