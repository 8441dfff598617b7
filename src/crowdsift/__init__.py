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
    from crowdsift.export import export_votes, soft_labels
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
    from crowdsift.select import Selector, next_pairs
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
    "export": ("export_votes", "soft_labels"),
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
    "select": ("Selector", "next_pairs"),
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
    "Selector",
    "Sift",
    "SignWarning",
    "__version__",
    "add_spammers",
    "datasets",
    "evaluate",
    "export_votes",
    "fit",
    "load",
    "metrics",
    "model",
    "models",
    "next_pairs",
    "plots",
    "read",
    "simulate",
    "soft_labels",
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
