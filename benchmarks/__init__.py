"""Benchmarks: how a step's cost grows, what structure costs, how far from the limit, how fast to start."""
