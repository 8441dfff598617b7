"""Votes, validated and encoded, and what is counted of them."""
