"""Sites that outlive their run: of the other sign, in other codes, and for other votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.engines.grid import VoteSites

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import GridSites, WorkerTypes
    from crowdsift.numeric import Vector

__all__ = ["KEPT_SITES", "SavedSites", "carried_over", "kept_sites", "recoded"]

# A fit of more votes than this keeps no sites: a later one then starts from the scores alone.
KEPT_SITES = 2_000_000  # far below the 2³¹ codes that `recoded` can tell apart


class SavedSites(NamedTuple):
    """The sites of votes, one entry a vote, in any order, and adaptive grids by worker.

    As `crowdsift.engines.grid.VoteSites`, with the worker of every vote.
    """

    worker: NDArray[np.uint32]
    winner: NDArray[np.uint32]
    loser: NDArray[np.uint32]
    kind: NDArray[np.int8]
    tau: NDArray[np.float32]
    nu: NDArray[np.float32]
    side_tau: NDArray[np.float32]
    side_nu: NDArray[np.float32]
    low: Vector
    high: Vector


def worker_codes(votes: VoteSites) -> NDArray[np.uint32]:
    """The worker of every vote."""
    return np.repeat(np.arange(len(votes.held), dtype=np.uint32), votes.held)


def kept_sites(sites: GridSites) -> SavedSites | None:
    """The sites of a run, unless there are too many."""
    if sites.n_votes > KEPT_SITES:
        return None
    votes = sites.vote_sites()
    return SavedSites(worker_codes(votes), *votes[1:])


def recoded(sites: SavedSites, item: NDArray[np.int64], worker: NDArray[np.int64], n_workers: int
            ) -> SavedSites:  # fmt: skip
    """The sites under new codes of items and workers; those of a code -1 are left out."""
    to_item, to_worker = item.astype(np.int32), worker.astype(np.int32)
    codes = to_worker[sites.worker], to_item[sites.winner], to_item[sites.loser]
    kept = np.logical_and.reduce([code >= 0 for code in codes])
    low, high = np.full((2, n_workers), np.nan)
    known = np.flatnonzero(worker[: len(sites.low)] >= 0)
    low[worker[known]], high[worker[known]] = sites.low[known], sites.high[known]
    parts: list[NDArray[Any]] = [*(code.view(np.uint32) for code in codes), *sites[3:8]]
    if not kept.all():
        parts = [part[kept] for part in parts]
    return SavedSites._make([*parts, low, high])


def carried_over(earlier: SavedSites, votes: VoteSites, types: WorkerTypes) -> VoteSites:
    """The sites of these votes: those of equal earlier votes, 0 where there was none.

    Votes are equal where worker, winner, loser and a tie are the same; on which side the winner
    stood matters where sides do. Equal votes have equal sites, so any of them will do.
    """
    n = len(earlier.worker)
    kind = np.concatenate([earlier.kind, votes.kind])
    if not types.sides:
        kind = np.abs(kind)
    now = worker_codes(votes), votes.winner, votes.loser
    worker, winner, loser = (
        np.concatenate([old, new]) for old, new in zip(earlier[:3], now, strict=True)
    )
    pair = (winner.astype(np.int64) << 32) | loser
    order = np.lexsort((kind, pair, worker))  # stable: earlier votes come before equal new ones
    same = np.ones(len(order), bool)
    for key in (worker, pair, kind):
        same[1:] &= key[order[1:]] == key[order[:-1]]
    same[:1] = False
    leader = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    source = np.empty(len(order), np.int64)
    source[order] = order[leader]
    source = source[n:]
    found = source < n
    values = [np.where(found, old[np.minimum(source, n - 1)], np.float32(0.0)) if n else new
              for old, new in zip(earlier[4:8], votes[4:8], strict=True)]  # fmt: skip
    here = len(votes.held)  # without gold, which earlier codes have room for
    return VoteSites._make([*votes[:4], *values, earlier.low[:here], earlier.high[:here]])
