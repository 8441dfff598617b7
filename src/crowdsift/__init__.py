"""Scores for items and a verdict on every worker, from pairwise votes alone."""

from crowdsift.comparisons import Comparisons
from crowdsift.errors import (
    ConvergenceWarning,
    CrowdsiftError,
    InputError,
    InputWarning,
    RequestError,
)

__all__ = [
    "Comparisons",
    "ConvergenceWarning",
    "CrowdsiftError",
    "InputError",
    "InputWarning",
    "RequestError",
]
