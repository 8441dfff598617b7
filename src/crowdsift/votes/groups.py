"""Votes in which an item counts as a different item in each group, such as a prompt."""

from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Indices, Vector
from crowdsift.votes.comparisons import Comparisons, encoded_again


class GroupedVotes(NamedTuple):
    """The votes, and the item and group of each of their items."""

    votes: Comparisons
    item: Indices
    group: Indices

    @property
    def numbers(self) -> float:
        """Return how many numbers the covariances of items within groups have."""
        return float((np.bincount(self.group).astype(np.float64) ** 2).sum())


def in_groups(
    votes: Comparisons,
    first: Indices,
    second: Indices,
    worker: Indices,
    outcome: Vector,
    weight: Vector,
    group: Indices,
    threads: int | None = None,
) -> GroupedVotes:
    """Return the rows behind the votes, with items distinguished by group."""
    codes = np.unique(group, return_inverse=True)[1].reshape(-1).astype(np.int64)
    ends = np.concatenate([codes * votes.n_items + first, codes * votes.n_items + second])
    in_group, inverse = np.unique(ends, return_inverse=True)
    place = inverse.reshape(-1).astype(np.uint32)
    split = encoded_again(
        votes.with_features(None),
        first=place[: len(first)],
        second=place[len(first) :],
        items=np.arange(len(in_group)).astype(object),
        worker=worker.astype(np.uint32) if votes.has_workers else None,
        outcome=outcome,
        weight=weight,
        by="",
        threads=threads,
    )
    return GroupedVotes(split, in_group % votes.n_items, in_group // votes.n_items)
