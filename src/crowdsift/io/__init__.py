"""Votes in, results out: files, data frames, labels of other sources, whole-or-nothing writing."""
