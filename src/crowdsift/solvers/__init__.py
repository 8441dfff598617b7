"""Solvers hold the iterate and call passes; they know neither engines nor models."""
