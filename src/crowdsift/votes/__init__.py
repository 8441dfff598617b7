"""Votes: validated, encoded and counted."""
