"""The table of items: labels, scores, ranks and their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.numeric.distributions import LEVEL, half_width
from crowdsift.results.ranking import rank_limits
from crowdsift.results.tables import Table, whole
from crowdsift.votes.labels import as_column, context_names, context_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.fitted import Fitted
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["item_table", "limits"]


def item_table(fitted: Fitted) -> Table:
    """The items, the best first within every component."""
    votes, estimate, counted = fitted.votes, fitted.estimate, fitted.counted
    count, sd = counted.appearances, fitted.score_sd
    lower, upper = limits(estimate.scores, sd, fitted.level)
    lower[count == 0] = upper[count == 0] = np.nan
    best = worst = np.full(votes.n_items, np.nan)
    if sd is not None:
        blocks = () if estimate.covariance is None else estimate.covariance.blocks
        found = rank_limits(
            estimate.scores, sd, blocks, fitted.component, fitted.seed, fitted.level
        )
        known = (count > 0) & np.isfinite(sd)
        best, worst = (np.where(known, limit, np.nan) for limit in found)
    columns: dict[str, NDArray[Any]] = {
        **_labels(votes),
        "score": estimate.scores,
        "lower": lower,
        "upper": upper,
        "rank": fitted.rank,
        "rank_lower": whole(best),
        "rank_upper": whole(worst),
        "comparisons": whole(count),
        "component": fitted.component.astype(np.int64) + 1,
    }
    if estimate.covariates is not None and estimate.covariates.names:
        columns["score_as_is"] = estimate.covariates.as_they_are(estimate.scores)
    if (counted.flags != "").any():
        columns["flag"] = counted.flags
    return Table({name: column[fitted.order] for name, column in columns.items()})


def limits(centre: Vector, sd: Vector | None, level: float = LEVEL) -> tuple[Vector, Vector]:
    """Limits of intervals of normal distributions; NaN without standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.item_table import limits
    >>> [limit.round(3).tolist() for limit in limits(np.zeros(1), np.ones(1))]
    [[-1.645], [1.645]]
    """
    half = np.full(len(centre), np.nan) if sd is None else half_width(level) * sd
    return centre - half, centre + half


def _labels(votes: Comparisons) -> dict[str, NDArray[Any]]:
    """The columns that name an item: the context where there is one, and the label."""
    if not votes.by:
        return {"item": votes.items}
    parts = map(as_column, context_parts(votes.items, votes.by))
    return dict(zip((*context_names(votes.by), "item"), parts, strict=True))
