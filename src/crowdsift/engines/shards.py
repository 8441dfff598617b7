"""Votes split into shards by worker, and the pairs of items that several shards compare."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Codes, Indices, Mask
from crowdsift.votes.comparisons import Comparisons


class SharedPairs(NamedTuple):
    """The pairs of a shard that other shards compare, too, and whether it is their owner.

    The owner of a pair adds up the weights of all shards, so that every pair is one edge of the graph of comparisons;
    `low` and `high` are codes of items, the lower first.
    """

    low: Codes
    high: Codes
    owner: Mask


def worker_ranges(offsets: Indices, shards: int) -> tuple[int, ...]:
    """Return bounds of ranges of workers with about equal numbers of votes, none of them empty."""
    m = len(offsets) - 1
    shards = max(min(shards, m), 1)
    goals = offsets[-1] * np.arange(1, shards) / shards
    inner = np.searchsorted(offsets, goals)
    bounds = [0]
    for at, bound in enumerate(inner.tolist()):
        bounds.append(min(max(bound, bounds[-1] + 1), m - (shards - 1 - at)))
    held = [0]
    for bound in bounds[1:]:  # workers without votes join their neighbours
        if offsets[held[-1]] < offsets[bound] < offsets[-1]:
            held.append(bound)
    return (*held, m)


def of_workers(votes: Comparisons, begin: int, end: int) -> Comparisons:
    """Return the votes of a range of workers on all items; gold is the last worker of all."""
    rows = slice(int(votes.offsets[begin]), int(votes.offsets[end]))
    beyond = max(votes.n_workers - end, 0)
    return replace(
        votes,
        first=votes.first[rows],
        second=votes.second[rows],
        outcome=votes.outcome[rows],
        weight=votes.weight[rows],
        offsets=votes.offsets[begin : end + 1] - votes.offsets[begin],
        workers=votes.workers[begin:end],
        features=None if votes.features is None else votes.features[rows],
        n_gold=max(min(votes.n_gold - beyond, end - begin), 0),
    )


def shared_pairs(parts: Sequence[Comparisons]) -> tuple[list[SharedPairs], list[Indices], int]:
    """Return each shard's shared pairs with their places in the list of all, and the length of that list."""
    # The first shard that compares a pair is its owner.
    k = parts[0].n_items
    return shared_keys([[distinct_pairs(part, 0, k) for part in parts]], k)


def distinct_pairs(votes: Comparisons, begin: int, end: int) -> Indices:
    """Return the distinct pairs whose lower item is in a range, as low·K + high, in order."""
    low = np.minimum(votes.first, votes.second)
    high = np.maximum(votes.first, votes.second)
    inside = (low >= begin) & (low < end)
    if not inside.all():
        low, high = low[inside], high[inside]
    return np.unique(low.astype(np.int64) * votes.n_items + high)


def shared_keys(ranges: Iterable[Sequence[Indices]], k: int) -> tuple[list[SharedPairs], list[Indices], int]:
    """Return `shared_pairs` from the keys of all shards, for one range of items after the other."""
    lists: list[list[SharedPairs]] = []
    places: list[list[Indices]] = []
    total = 0
    for keys in ranges:
        distinct, count = np.unique(np.concatenate(keys), return_counts=True)
        common = distinct[count > 1]
        seen = np.zeros(len(common), bool)
        lists, places = lists or [[] for _ in keys], places or [[] for _ in keys]
        for at, key in enumerate(keys):
            place = np.flatnonzero(np.isin(common, key, assume_unique=True))
            low, high = np.divmod(common[place], k)
            found = SharedPairs(low.astype(np.uint32), high.astype(np.uint32), ~seen[place])
            lists[at].append(found)
            places[at].append(place + total)
            seen[place] = True
        total += len(common)
    joined = [SharedPairs(*map(np.concatenate, zip(*each, strict=True))) for each in lists]
    return joined, [np.concatenate(each) for each in places], total


def merged_components(components: Sequence[Codes]) -> Codes:
    """Return the connected components of all votes, given the components of each shard."""
    label = np.arange(len(components[0]))
    before = np.full(len(label), -1)
    while (label != before).any():
        before = label
        for component in components:
            lowest = np.full(int(component.max(initial=0)) + 1, len(label))
            np.minimum.at(lowest, component, label)
            label = np.minimum(label, lowest[component])
    return np.unique(label, return_inverse=True)[1].astype(np.uint32)
