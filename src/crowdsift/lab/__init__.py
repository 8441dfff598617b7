"""Simulated votes, spammers, data sets, and the experiments of the paper."""
