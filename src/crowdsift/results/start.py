"""Where a fit starts: what an earlier one knew, in the codes of the votes at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift._version import __version__
from crowdsift.errors import RequestError
from crowdsift.io.item_values import match_labels
from crowdsift.models import Model, Start
from crowdsift.numeric.distributions import half_width
from crowdsift.results.checkpoint import is_checkpoint, start_of
from crowdsift.results.data import FitData
from crowdsift.results.store import load
from crowdsift.solvers.ep.kept_sites import recoded
from crowdsift.votes.labels import context_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.models import Estimate
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.kept_sites import SavedSites
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["estimate_from", "starting_point"]

_SAME = 0.5  # of the earlier items must be among those of the votes, else they are other data


def estimate_from(
    start: Any, model: Model, engine: Engine, votes: Comparisons, progress: Progress | None
) -> Estimate:
    """The estimate, from an earlier fit where one is given."""
    if start is not None and votes.features is not None and model.takes_covariates:
        raise RequestError(
            "a fit with covariates cannot start from an earlier one; leave --start (start=) away"
        )
    if start is None or votes.item_features is not None:  # features start afresh
        return model.estimate_votes(engine, votes, progress)
    if is_checkpoint(start):
        return model.resume(engine, start_of(start, votes, model), progress)
    return model.resume(engine, starting_point(start, votes, model), progress)


def starting_point(source: Any, votes: Comparisons, model: Model) -> Start:
    """Scores, variances and the learned worker population, for the items of these votes.

    Parameters
    ----------
    source
        A `Fit`, or the folder of a saved one.
    votes
        All votes, those of the earlier fit and the new ones.
    model
        The model that goes on; it must be that of the earlier fit.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.results.start import starting_point
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
    >>> starting_point(crowdsift.fit(votes), votes, crowdsift.Sift()).scores.shape
    (9,)
    """
    name = "the fit to start from" if isinstance(source, FitData) else str(source)
    if not isinstance(source, FitData | str | Path):
        raise RequestError(f"start must be a fit or the folder of one, not {source!r}")
    earlier = source if isinstance(source, FitData) else load(source)
    version = earlier.summary.get("version")
    if version != __version__:
        raise RequestError(
            f"{name}: made by version {version}, this is {__version__}; fit without --start"
        )
    if earlier.method != model.name or earlier.population is None:
        raise RequestError(
            f"{name}: a fit of {earlier.method}; to go on with {model.name} it must be one of "
            f"{model.name}, and of a method that learns of the worker population (sift)"
        )
    if earlier.context_columns != context_names(votes.by):
        raise RequestError(f"{name}: fitted by {earlier.summary.get('by')!r}, not {votes.by!r}")
    before = float(earlier.summary["votes"])
    if votes.total_weight < _SAME * before:
        raise RequestError(
            f"{name}: made of {before:,g} votes, of which most are missing: here are "
            f"{votes.total_weight:,g}. The votes must be all votes, the old ones and the new; to "
            "go on with new votes alone use crowdsift update, or Fit.update"
        )
    table = earlier.item_table
    labels = earlier.labels
    place = match_labels(votes.items.tolist(), labels)
    if (place >= 0).sum() < _SAME * len(labels):
        raise RequestError(
            f"{name}: only {(place >= 0).sum()} of its {len(labels)} items are among those of the "
            "votes; these are other data. Fit without --start"
        )
    sizes = np.bincount(table["component"])[table["component"]]
    sd = 0.5 * (table["upper"] - table["lower"]) / half_width(earlier.level)
    variance = np.nan_to_num(sd**2 + 1.0 / sizes, nan=1.0)
    known = place >= 0
    return Start(
        scores=np.where(known, np.asarray(table["score"], np.float64)[place], 0.0),
        variances=np.where(known, variance[place], 1.0),
        population=earlier.population,
        sites=_sites(earlier, place, votes),
    )


def _sites(earlier: FitData, place: NDArray[np.int64], votes: Comparisons) -> SavedSites | None:
    """The sites of earlier votes in the codes of these; gold is the worker after the last."""
    if earlier.sites is None:
        return None
    known = earlier.worker_table["worker"].tolist()
    who = np.append(match_labels(votes.workers.tolist(), known), len(known))
    item = _inverse(place, len(earlier.item_table["item"]))
    return recoded(earlier.sites, item, _inverse(who, len(known) + 1), votes.n_workers + 1)


def _inverse(place: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Who is found at each of the places; -1 where nobody is."""
    found = np.full(count, -1)
    found[place[place >= 0]] = np.flatnonzero(place >= 0)
    return found
