"""The record of a fit: tables, ranks, verdicts, predictions, and its folder on disk."""
