"""What can be counted of votes, given an order of the items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift import _core
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

_WORDS = np.array(["", "only won", "only lost", ""], dtype=object)


class Tally(NamedTuple):
    """What can be counted of votes.

    `agreement` is the share of every worker's decided votes that agree with the order of items, equal ranks agree with
    no one, NaN for none; `appearances` how often every item was compared, weights counted; `flags` "only won" or "only
    lost" where all votes of an item go one way, else "": nothing in the votes bounds the score of such an item on that
    side, only the prior does.
    """

    agreement: Vector
    appearances: Vector
    flags: NDArray[np.object_]


def tally(comparisons: Comparisons, rank: NDArray[np.int64], threads: int | None = None) -> Tally:
    """Count votes, in one pass over them; the ranks of the items give their order."""
    order, used = rank.astype(np.uint32), thread_count(threads)
    whole = [slice(0, len(comparisons))]
    agreed, decided = np.zeros(comparisons.n_workers), np.zeros(comparisons.n_workers)
    appearances, ways = np.zeros(comparisons.n_items), np.zeros(comparisons.n_items, np.uint8)
    for rows in parts(*comparisons.columns) if comparisons.on_disk else whole:
        found = _counted(comparisons, rows, order, used)
        agreed += found[0]
        decided += found[1]
        appearances += found[2]
        ways |= found[3]
    return Tally(_share(agreed, decided), appearances, _WORDS[ways])


def _counted(
    votes: Comparisons, rows: slice, rank: NDArray[np.uint32], threads: int
) -> tuple[Vector, Vector, Vector, NDArray[np.uint8]]:
    """Agreed and decided votes of workers, appearances of items, and which ways they went."""
    first, second, outcome, weight = votes.columns
    offsets = np.clip(votes.offsets, rows.start, rows.stop) - rows.start
    return _core.tally(first[rows], second[rows], outcome[rows], weight[rows], offsets, rank, threads)


def tally_of(counted: Any) -> Tally:
    """Return the tally of what an engine has counted (`crowdsift.engines.base.Tally`)."""
    ways = (counted.wins > 0).astype(int) + 2 * (counted.losses > 0)
    share = _share(counted.agreed, counted.decided)
    return Tally(share, counted.appearances, _WORDS[ways])


def _share(agreed: Vector, decided: Vector) -> Vector:
    share = np.full(len(agreed), np.nan)
    np.divide(agreed, decided, out=share, where=decided > 0)
    return share
