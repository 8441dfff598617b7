"""Scores for items and a verdict on every worker, from pairwise votes alone.

    fit = crowdsift.fit("votes.csv")  # or a pandas, polars or Arrow frame, or a dict of columns
    print(fit)  # the best items, the verdicts, what deserves a look
    fit.items, fit.workers  # tables, as frames of the library that the votes came in
    fit.better("a", "b"), fit.predict("a", "b"), fit.first_place()
    fit.report("report.html")

`help(crowdsift.fit)` and `help(crowdsift.Fit)` say more. Names are loaded when they are first used, so that importing
the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdsift._version import __version__

if TYPE_CHECKING:
    from crowdsift import models, plots
    from crowdsift.active.export import export_votes, soft_labels
    from crowdsift.active.next_pairs import next_pairs, second_opinions
    from crowdsift.active.plan import plan
    from crowdsift.active.select import Selector
    from crowdsift.checks.comparing import compare
    from crowdsift.errors import (
        ConvergenceWarning,
        CrowdsiftError,
        InputError,
        RequestError,
        ResourceError,
        SignWarning,
    )
    from crowdsift.fitting import fit, load
    from crowdsift.fitting.holdout import tune
    from crowdsift.io.ingest import read
    from crowdsift.lab import datasets
    from crowdsift.lab.evaluation import evaluate
    from crowdsift.lab.simulation import simulate
    from crowdsift.lab.spam import add_spammers
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
    from crowdsift.numeric import metrics
    from crowdsift.report.progress import progress_bar
    from crowdsift.results.fit import Fit
    from crowdsift.votes.comparisons import Comparisons

# Modules of public names.
_ROOMS = {
    "active.export": ("export_votes", "soft_labels"),
    "active.next_pairs": ("next_pairs", "second_opinions"),
    "active.plan": ("plan",),
    "active.select": ("Selector",),
    "checks.comparing": ("compare",),
    "errors": ("ConvergenceWarning", "CrowdsiftError", "InputError", "RequestError", "ResourceError", "SignWarning"),
    "fitting": ("fit", "load"),
    "io.ingest": ("read",),
    "lab.evaluation": ("evaluate",),
    "lab.simulation": ("simulate",),
    "report.progress": ("progress_bar",),
    "lab.spam": ("add_spammers",),
    "models": (
        "BARP",
        "BoraEM",
        "BoraMAP",
        "BradleyTerry",
        "CrowdBT",
        "FactorBT",
        "HBTL",
        "HTCV",
        "RankCentrality",
        "Sift",
        "model",
    ),
    "fitting.holdout": ("tune",),
    "results.fit": ("Fit",),
    "votes.comparisons": ("Comparisons",),
}
_HOME = {name: module for module, names in _ROOMS.items() for name in names}
_MODULES = {"datasets": "lab.datasets", "metrics": "numeric.metrics", "models": "models", "plots": "plots"}

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
    "compare",
    "datasets",
    "evaluate",
    "export_votes",
    "fit",
    "load",
    "metrics",
    "model",
    "models",
    "next_pairs",
    "plan",
    "plots",
    "progress_bar",
    "read",
    "second_opinions",
    "simulate",
    "soft_labels",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name in _HOME:
        value = getattr(import_module(f"crowdsift.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"crowdsift.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'crowdsift' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
