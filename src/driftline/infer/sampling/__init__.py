"""Samplers that start from a fit: NUTS, tempering, particles, and how well they have mixed."""
