"""Inference: from a model and observations to a Gaussian over paths."""
