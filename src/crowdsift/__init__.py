"""Scores for items and a verdict on every worker, from pairwise votes alone."""

from crowdsift._version import __version__
from crowdsift.comparisons import Comparisons
from crowdsift.errors import (
    ConvergenceWarning,
    CrowdsiftError,
    InputError,
    InputWarning,
    RequestError,
)
from crowdsift.evaluation import evaluate
from crowdsift.fitting import fit
from crowdsift.ingest import read
from crowdsift.models import BoraEM, BradleyTerry, model
from crowdsift.result import Fit, load
from crowdsift.simulate import simulate

__all__ = [
    "BoraEM",
    "BradleyTerry",
    "Comparisons",
    "ConvergenceWarning",
    "CrowdsiftError",
    "Fit",
    "InputError",
    "InputWarning",
    "RequestError",
    "__version__",
    "evaluate",
    "fit",
    "load",
    "model",
    "read",
    "simulate",
]
