"""Expectation propagation between items and workers of unknown type."""
