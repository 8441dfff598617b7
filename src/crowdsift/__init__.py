"""Scores for items and a verdict on every worker, from pairwise votes alone.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdsift._version import __version__

if TYPE_CHECKING:
    from crowdsift import datasets, metrics, models, plots
    from crowdsift.comparisons import Comparisons
    from crowdsift.errors import (
        ConvergenceWarning,
        CrowdsiftError,
        InputError,
        RequestError,
        ResourceError,
        SignWarning,
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
        BoraMAP,
        BradleyTerry,
        CrowdBT,
        FactorBT,
        RankCentrality,
        Sift,
        model,
    )
    from crowdsift.result import Fit
    from crowdsift.simulation import simulate
    from crowdsift.spam import add_spammers
    from crowdsift.storage import load

_MODULES = {
    "comparisons": ("Comparisons",),
    "errors": (
        "ConvergenceWarning",
        "CrowdsiftError",
        "InputError",
        "RequestError",
        "ResourceError",
        "SignWarning",
    ),
    "evaluation": ("evaluate",),
    "fitting": ("fit",),
    "holdout": ("tune",),
    "ingest": ("read",),
    "models": (
        "BARP",
        "HBTL",
        "HTCV",
        "BoraEM",
        "BoraMAP",
        "BradleyTerry",
        "CrowdBT",
        "FactorBT",
        "RankCentrality",
        "Sift",
        "model",
    ),
    "result": ("Fit",),
    "simulation": ("simulate",),
    "spam": ("add_spammers",),
    "storage": ("load",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "BARP",
    "HBTL",
    "HTCV",
    "BoraEM",
    "BoraMAP",
    "BradleyTerry",
    "Comparisons",
    "ConvergenceWarning",
    "CrowdBT",
    "CrowdsiftError",
    "FactorBT",
    "Fit",
    "InputError",
    "RankCentrality",
    "RequestError",
    "ResourceError",
    "Sift",
    "SignWarning",
    "__version__",
    "add_spammers",
    "datasets",
    "evaluate",
    "fit",
    "load",
    "metrics",
    "model",
    "models",
    "plots",
    "read",
    "simulate",
    "tune",
]


def __getattr__(name: str) -> Any:
    """A public name, loaded on first use (PEP 562)."""
    if name in _HOME:
        value = getattr(import_module(f"crowdsift.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in ("datasets", "metrics", "models", "plots"):
        return import_module(f"crowdsift.{name}")
    raise AttributeError(f"module 'crowdsift' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
