"""Groups of workers who are alike as a whole, where no two of them need be beyond chance."""

from __future__ import annotations

from math import comb
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.tables import Table

    Codes = NDArray[np.int64]
    Again = Callable[[Codes], "Alike"]

__all__ = ["Alike", "alike_as_a_whole", "bound_of", "linked"]

_CHANCE = 0.005  # that some pair is named by chance; that some group is; that some worker is
_NEAR, _LOOKS = 2.0, 6  # below its bound a group is looked at again, so many of them
_LINKS, _SEEDS, _LARGEST = 200, 40, 8  # pairs, starts of groups and workers of a group looked at


class Alike(NamedTuple):
    """How much alike a group is by what others think: Σz/√pairs, and every member to the rest."""

    whole: float
    own: Vector


def bound_of(cases: int) -> float:
    """The z that none of so many exceeds by chance, as surely as asked for."""
    return -NormalDist().inv_cdf(_CHANCE / cases)


def alike_as_a_whole(
    one: NDArray[np.int64], two: NDArray[np.int64], alike: Vector, n_workers: int, by_others: Again
) -> list[list[int]]:
    """Groups of at least three workers whose pairs are together too much alike to be chance.

    Under independence the sums of different pairs are uncorrelated, also where they have a worker
    in common: Σz/√pairs is about normal, and the chance is shared by all groups of a size.
    Groups that come near it are looked at again by what those outside imply (`by_others`).
    """
    if not len(alike):
        return []
    order = np.argsort(-alike, kind="stable")[:_LINKS]
    names = np.unique(np.concatenate([one[order], two[order]]))
    place = np.full(n_workers, -1)
    place[names] = np.arange(len(names))
    i, j = place[one], place[two]
    kept = (i >= 0) & (j >= 0)
    z, known = np.zeros((2, len(names), len(names)))
    for matrix, values in ((z, alike), (known, np.ones(len(alike)))):
        matrix[i[kept], j[kept]] = matrix[j[kept], i[kept]] = values[kept]
    voters = len(np.unique(np.concatenate([one, two])))
    sizes = range(3, min(_LARGEST, voters) + 1)
    bounds = {g: bound_of(len(sizes) * comb(voters, g)) for g in sizes}
    groups: list[list[int]] = []
    seeds = [(int(place[one[at]]), int(place[two[at]])) for at in order]
    while seeds:
        grown = [_grown(z, known, list(seed), bounds) for seed in seeds[:_SEEDS]]
        near = {tuple(sorted(each)): margin for margin, each in grown if margin > -_NEAR}
        looked = [
            (by_others(names[list(each)]).whole - bounds[len(each)], list(each))
            for each in sorted(near, key=lambda each: -near[each])[:_LOOKS]
        ]
        margin, best = max(looked, default=(0.0, []))
        if margin <= 0.0:
            break
        groups.append(_without_strangers(names[best], by_others, bound_of(voters)))
        z[np.ix_(best, best)] = 0.0
        seeds = [(a, b) for a, b in seeds if not (a in best and b in best)]
    return groups


def _grown(
    z: Vector, known: Vector, members: list[int], bounds: dict[int, float]
) -> tuple[float, list[int]]:
    """The group grown from two workers that is farthest beyond its bound, and by how much."""
    best: tuple[float, list[int]] = (-np.inf, [])
    while len(members) + 1 in bounds and len(members) < len(z):
        gain = z[members].sum(axis=0)
        gain[members] = -np.inf
        members = [*members, int(gain.argmax())]
        block = np.ix_(members, members)
        alike = 0.5 * z[block].sum() / np.sqrt(max(0.5 * known[block].sum(), 1.0))
        best = max(best, (float(alike - bounds[len(members)]), members), key=lambda each: each[0])
    return best


def _without_strangers(members: Codes, by_others: Again, bound: float) -> list[int]:
    """The group without those who are not clearly alike to the rest; fewer than three are none.

    Who has left is a witness of what others think.
    """
    while len(members) > 2:
        own = by_others(members).own
        if own.min() > bound:
            return [int(member) for member in members]
        members = np.delete(members, int(own.argmin()))
    return []


def linked(
    pairs: Table, wholes: list[list[int]], workers: NDArray[np.object_]
) -> tuple[tuple[Any, ...], ...]:
    """Workers who are linked by a pair or a group, the largest group first."""
    leader: dict[Any, Any] = {}

    def found(label: Any) -> Any:
        while leader.setdefault(label, label) != label:
            label = leader[label]
        return label

    for one, two in zip(pairs["worker"].tolist(), pairs["other"].tolist(), strict=True):
        leader[found(one)] = found(two)
    for whole in wholes:
        for member in whole[1:]:
            leader[found(workers[member])] = found(workers[whole[0]])
    members: dict[Any, list[Any]] = {}
    for label in leader:
        members.setdefault(found(label), []).append(label)
    ordered = sorted(members.values(), key=lambda group: (-len(group), str(group[0])))
    return tuple(tuple(sorted(group, key=str)) for group in ordered)
