"""The pairs of items on which the crowd is divided most."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Dispute", "disputed_pairs"]

_LEAST = 4.0  # votes on a pair
_Z = 1.6448536269514722


class Dispute(NamedTuple):
    """Two items by code, the votes for each of them; a tie is half a vote for both."""

    first: int
    second: int
    votes_first: float
    votes_second: float


def disputed_pairs(votes: Comparisons, flagged: NDArray[np.bool_], most: int = 12) -> list[Dispute]:
    """Pairs with votes on both sides, the most divided first; flagged workers do not count.

    Pairs are ordered by the lower end of the 90 % interval (Wilson's) of the share of the
    smaller side, so that 12 : 11 stands before 2 : 2 and before 20 : 4.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift import Comparisons
    >>> from crowdsift.report.disputes import disputed_pairs
    >>> votes = Comparisons.from_arrays(
    ...     ["a"] * 12 + ["b"] * 11 + ["c"] * 6, ["b"] * 12 + ["a"] * 11 + ["a"] * 6,
    ...     worker=list(range(29)))
    >>> disputed_pairs(votes, np.zeros(29, bool))
    [Dispute(first=0, second=1, votes_first=12.0, votes_second=11.0)]
    """
    keep = np.ones(len(votes), bool)
    if len(flagged):
        keep = np.repeat(~flagged, np.diff(votes.offsets))
    if not keep.any():
        return []
    pairs = votes.select(keep).pooled()
    total, share = pairs.weight.astype(np.float64), pairs.outcome.astype(np.float64)
    smaller = np.minimum(share, 1.0 - share)
    low = _wilson_lower(smaller, total)
    order = np.lexsort((pairs.second, pairs.first, -total, -low))
    order = order[(total[order] >= _LEAST) & (low[order] > 0.0)][:most]
    return [
        Dispute(
            int(pairs.first[i]),
            int(pairs.second[i]),
            round(float(total[i] * share[i]), 2),
            round(float(total[i] * (1.0 - share[i])), 2),
        )
        for i in order
    ]


def _wilson_lower(share: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    n = np.maximum(total, 1e-12)
    centre = share + _Z**2 / (2 * n)
    half = _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return np.where(share > 0, (centre - half) / (1 + _Z**2 / n), 0.0)
