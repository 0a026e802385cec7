"""Whole fits of series, beside peers."""
