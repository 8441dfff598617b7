"""The models: one short file each, hyper-parameters only.

A new model is one new file and one line here.
"""

import dataclasses
import difflib
from typing import Any

from crowdsift.errors import RequestError
from crowdsift.models.barp import BARP
from crowdsift.models.base import Estimate, Model, Start
from crowdsift.models.bora_em import BoraEM
from crowdsift.models.bora_map import BoraMAP
from crowdsift.models.bradley_terry import BradleyTerry
from crowdsift.models.crowd_bt import CrowdBT
from crowdsift.models.factor_bt import FactorBT
from crowdsift.models.hbtl import HBTL
from crowdsift.models.htcv import HTCV
from crowdsift.models.rank_centrality import RankCentrality
from crowdsift.models.sift import Sift

__all__ = [
    "BARP",
    "HBTL",
    "HTCV",
    "MODELS",
    "BoraEM",
    "BoraMAP",
    "BradleyTerry",
    "CrowdBT",
    "Estimate",
    "FactorBT",
    "Model",
    "RankCentrality",
    "Sift",
    "Start",
    "as_model",
    "model",
]

_KINDS = (BradleyTerry, RankCentrality, CrowdBT, FactorBT, BARP, HTCV, HBTL, BoraEM, BoraMAP, Sift)
MODELS: dict[str, type[Model]] = {kind.name: kind for kind in _KINDS}
DEFAULT = Sift.name


def model(name: str, **values: Any) -> Model:
    """Return the model of that name, with hyper-parameters other than the defaults where given.

    Examples
    --------
    >>> import crowdsift
    >>> crowdsift.model("bora-em", alternations=2)
    BoraEM(alternations=2, item_ridge=0.01, ...)
    """
    if not isinstance(name, str) or name not in MODELS:
        near = difflib.get_close_matches(str(name), MODELS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RequestError(f"unknown method {name!r}; the methods are {', '.join(MODELS)}{hint}")
    kind = MODELS[name]
    known = [entry.name for entry in dataclasses.fields(kind)]
    for key in values:
        if key not in known:
            raise RequestError(f"{name} has no parameter {key!r}; it has {', '.join(known)}")
    return kind(**values)


def as_model(method: str | Model, dimensions: int | str | None = None) -> Model:
    """Return the model of that name, or the given model, with the given number of dimensions."""
    if not isinstance(method, str | Model):
        raise RequestError(f"method must be a name or a model, not {method!r}")
    found = model(method) if isinstance(method, str) else method
    return found if dimensions is None else with_dimensions(found, dimensions)


def with_dimensions(chosen: Model, dimensions: int | str) -> Model:
    """Return the model with a number of dimensions, or "auto"; raise an error for methods that have one only."""
    if not isinstance(chosen, Sift):
        raise RequestError(f"{chosen.name} has one dimension; --dimensions (dimensions=) is for sift")
    digits = isinstance(dimensions, str) and dimensions.isdecimal()
    return dataclasses.replace(chosen, dimensions=int(dimensions) if digits else dimensions)
