"""Solvers: they hold the iterate and call passes, without knowledge of engines or models."""
