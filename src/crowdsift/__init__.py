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

from crowdsift._version import __version__ as __version__

if TYPE_CHECKING:
    from crowdsift import models as models
    from crowdsift import plots as plots
    from crowdsift.active.export import export_votes as export_votes
    from crowdsift.active.export import soft_labels as soft_labels
    from crowdsift.active.next_pairs import next_pairs as next_pairs
    from crowdsift.active.next_pairs import second_opinions as second_opinions
    from crowdsift.active.plan import plan as plan
    from crowdsift.active.select import Selector as Selector
    from crowdsift.checks.comparing import compare as compare
    from crowdsift.errors import ConvergenceWarning as ConvergenceWarning
    from crowdsift.errors import CrowdsiftError as CrowdsiftError
    from crowdsift.errors import InputError as InputError
    from crowdsift.errors import RequestError as RequestError
    from crowdsift.errors import ResourceError as ResourceError
    from crowdsift.errors import SignWarning as SignWarning
    from crowdsift.fitting import fit as fit
    from crowdsift.fitting import load as load
    from crowdsift.fitting.holdout import tune as tune
    from crowdsift.io.ingest import read as read
    from crowdsift.lab import datasets as datasets
    from crowdsift.lab.evaluation import evaluate as evaluate
    from crowdsift.lab.simulation import simulate as simulate
    from crowdsift.lab.spam import add_spammers as add_spammers
    from crowdsift.models import BARP as BARP
    from crowdsift.models import HBTL as HBTL
    from crowdsift.models import HTCV as HTCV
    from crowdsift.models import BoraEM as BoraEM
    from crowdsift.models import BoraMAP as BoraMAP
    from crowdsift.models import BradleyTerry as BradleyTerry
    from crowdsift.models import CrowdBT as CrowdBT
    from crowdsift.models import FactorBT as FactorBT
    from crowdsift.models import RankCentrality as RankCentrality
    from crowdsift.models import Sift as Sift
    from crowdsift.models import model as model
    from crowdsift.numeric import metrics as metrics
    from crowdsift.report.progress import progress_bar as progress_bar
    from crowdsift.results.fit import Fit as Fit
    from crowdsift.votes.comparisons import Comparisons as Comparisons

# Modules of public names.
_ROOMS = {
    "active.export": "export_votes soft_labels",
    "active.next_pairs": "next_pairs second_opinions",
    "active.plan": "plan",
    "active.select": "Selector",
    "checks.comparing": "compare",
    "errors": "ConvergenceWarning CrowdsiftError InputError RequestError ResourceError SignWarning",
    "fitting": "fit load",
    "io.ingest": "read",
    "lab.evaluation": "evaluate",
    "lab.simulation": "simulate",
    "report.progress": "progress_bar",
    "lab.spam": "add_spammers",
    "models": "BARP BoraEM BoraMAP BradleyTerry CrowdBT FactorBT HBTL HTCV RankCentrality Sift model",
    "fitting.holdout": "tune",
    "results.fit": "Fit",
    "votes.comparisons": "Comparisons",
}
_HOME = {name: module for module, names in _ROOMS.items() for name in names.split()}
_MODULES = {"datasets": "lab.datasets", "metrics": "numeric.metrics", "models": "models", "plots": "plots"}

__all__ = ["__version__", *_HOME, *_MODULES]


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
