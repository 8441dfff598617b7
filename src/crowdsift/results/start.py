"""Where a fit starts: what an earlier one knew, in the codes of the votes at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift._version import __version__
from crowdsift.errors import RequestError
from crowdsift.models import Model, Start
from crowdsift.numeric.distributions import half_width
from crowdsift.results.checkpoint import is_checkpoint, start_of
from crowdsift.results.data import FitData
from crowdsift.results.store import load
from crowdsift.solvers.ep.warm import recoded
from crowdsift.votes.labels import context_names, match_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.io.items import Gold, GoldLabels
    from crowdsift.models import Estimate
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.state import SavedSites
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["estimate_from", "kept_gold", "opened_start", "starting_point"]

_SAME = 0.5  # of the earlier items must be among those of the votes, else they are other data


def opened_start(start: Any, gold: Any) -> tuple[Any, GoldLabels | None]:
    """Return the earlier fit, loaded if `start` is its folder, or the checkpoint; and its gold."""
    if start is not None and not isinstance(start, FitData) and not is_checkpoint(start):
        if not isinstance(start, str | Path):
            raise RequestError(f"start must be a fit or the folder of one, not {start!r}")
        start = load(start)
    return start, kept_gold(start, gold) if isinstance(start, FitData) else None


def kept_gold(earlier: FitData, gold: Any) -> GoldLabels | None:
    """Return the gold of an earlier fit.

    A fit that had gold and does not keep it is refused unless `gold` is given anew.
    """
    if earlier.gold is None and earlier.summary.get("gold_agree") is not None and gold is None:
        raise RequestError(
            f"{earlier.folder or 'the earlier fit'}: it was fitted with gold, which is not kept "
            "with it; give the gold again with --gold (gold=)"
        )
    return earlier.gold


def estimate_from(
    start: Any, model: Model, engine: Engine, votes: Comparisons, gold: Gold | None,
    progress: Progress | None,
) -> Estimate:  # fmt: skip
    """Estimate the model, from an earlier fit or a checkpoint if one is given."""
    if start is not None and votes.features is not None and model.takes_covariates:
        raise RequestError(
            "a fit with covariates cannot start from an earlier one; leave --start (start=) away"
        )
    if start is None or votes.item_features is not None:  # features start afresh
        return model.estimate_votes(engine, votes, progress)
    if is_checkpoint(start):
        return model.resume(engine, start_of(start, votes, model, gold), progress)
    return model.resume(engine, starting_point(start, votes, model), progress)


def starting_point(earlier: FitData, votes: Comparisons, model: Model) -> Start:
    """Return scores, variances and the learned worker population for the items of these votes.

    Parameters
    ----------
    earlier
        The fit to start from.
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
    name = earlier.folder or "the fit to start from"
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
    if earlier.summary.get("sides_known") and not votes.sides_known:
        raise RequestError(
            f"{name}: it knows on which side every item was shown, and these votes do not; say so "
            "with --sides (sides=True) if the first item was on the left, or fit without --start"
        )
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
