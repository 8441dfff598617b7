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
from crowdsift.holdout import tune
from crowdsift.ingest import read
from crowdsift.models import (
    BARP,
    HBTL,
    HTCV,
    BoraEM,
    BradleyTerry,
    CrowdBT,
    FactorBT,
    RankCentrality,
    Sift,
    model,
)
from crowdsift.result import Fit
from crowdsift.simulate import simulate
from crowdsift.spam import add_spammers
from crowdsift.storage import load

__all__ = [
    "BARP",
    "HBTL",
    "HTCV",
    "BoraEM",
    "BradleyTerry",
    "Comparisons",
    "ConvergenceWarning",
    "CrowdBT",
    "CrowdsiftError",
    "FactorBT",
    "Fit",
    "InputError",
    "InputWarning",
    "RankCentrality",
    "RequestError",
    "Sift",
    "__version__",
    "add_spammers",
    "evaluate",
    "fit",
    "load",
    "model",
    "read",
    "simulate",
    "tune",
]
