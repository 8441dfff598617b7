"""Measurements: every claim of speed or quality is a command here."""
