"""Workers who answer alike beyond what the items explain, and those who only repeat themselves.

Votes of two workers on the same pair of items are independent given the scores, so they agree with
probability pq + (1-p)(1-q). More agreement than this, and more than the crowd as a whole shows on
its pairs, means that answers were copied, or come from one source. Votes of one worker on the same
pair are compared in the same way: a judge that gives the same answer to the same question each
time adds nothing by being asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models import model
from crowdsift.numeric.distributions import half_width
from crowdsift.results.query import keys_of, places_of
from crowdsift.results.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.data import FitData
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Copying", "copying"]

_SURE = 0.99  # that nobody is named by chance
_FEWEST = 5  # votes that two workers share
_MOST = 50_000_000  # pairs of votes that are looked at
_MARGIN = 0.02  # probabilities are no surer than this


class Copying(NamedTuple):
    """Who copies whom, and who repeats himself.

    Attributes
    ----------
    pairs
        Pairs of workers: shared (pairs of votes on the same items), agreement, expected, z, the
        surest first; only those too alike to be chance.
    repeats
        Workers who voted on the same items again: repeated (pairs of their own votes), agreement,
        expected, z, the surest first; only those too alike to be chance.
    groups
        Workers who are linked by such pairs.
    """

    pairs: Table
    repeats: Table
    groups: tuple[tuple[Any, ...], ...]


def copying(fit: FitData) -> Copying:
    """Workers who answer too much alike; see `Fit.copying`."""
    votes = fit.votes
    if votes is None:
        raise RequestError("a fit that was loaded does not hold its votes; fit them again")
    if not votes.has_workers:
        raise RequestError("the votes have no workers who could copy each other")
    if not np.isfinite(fit.worker_table["reliability"].astype(np.float64)).any():
        raise RequestError(
            f"{fit.method} estimates no reliabilities, so that good workers look like copies of "
            "each other; use the method sift"
        )
    cells = _cells(votes, _probability(fit, votes))
    pairs = _too_alike(*_between(cells), votes)
    again = _too_alike(*_within(cells), votes)
    repeats = Table({name: column for name, column in again.items() if name != "other"})
    return Copying(pairs, repeats, _groups(pairs))


class _Cells(NamedTuple):
    """Decided votes of one worker on one pair of items: how many, how many for the first, and p."""

    unit: NDArray[np.int64]
    worker: NDArray[np.int64]
    votes: Vector
    wins: Vector
    p: Vector


def _probability(fit: FitData, votes: Comparisons) -> Vector:
    """P(first preferred) of every vote by its own worker, never quite sure."""
    place = places_of(fit.labels)
    row = np.array([place[key] for key in keys_of(votes.items)])
    score = fit.item_table["score"].astype(np.float64)[row]
    chosen = model(fit.method, **fit.parameters)
    reliability = fit.worker_table["reliability"].astype(np.float64)[votes.worker_codes()]
    p = chosen.probability(score[votes.first] - score[votes.second], reliability)
    return np.clip(np.asarray(p, np.float64), _MARGIN, 1.0 - _MARGIN)


def _cells(votes: Comparisons, p: Vector) -> _Cells:
    """The votes by pair of items and worker, ties left aside, in the order of pairs."""
    decided = np.flatnonzero((votes.outcome == 0.0) | (votes.outcome == 1.0))
    turned = (votes.first > votes.second)[decided]
    y = np.where(turned, 1.0 - votes.outcome[decided], votes.outcome[decided])
    q = np.where(turned, 1.0 - p[decided], p[decided])
    low = np.minimum(votes.first, votes.second)[decided].astype(np.int64)
    high = np.maximum(votes.first, votes.second)[decided].astype(np.int64)
    worker = votes.worker_codes().astype(np.int64)[decided]
    weight = votes.weight.astype(np.float64)[decided]
    pair = np.unique(low * votes.n_items + high, return_inverse=True)[1].reshape(-1)
    key, cell = np.unique(pair * votes.n_workers + worker, return_inverse=True)
    cell = cell.reshape(-1)
    count, wins, total = (
        np.bincount(cell, v, len(key)).astype(np.float64) for v in (weight, weight * y, weight * q)
    )
    p = total / np.maximum(count, 1e-300)
    return _Cells(key // votes.n_workers, key % votes.n_workers, count, wins, p)


_Sums = tuple[Any, Any, Any, Any, Any, Any]  # workers, pairs of votes, agreeing, mean, variance


def _between(cells: _Cells) -> _Sums:
    """Pairs of votes of two workers on the same items.

    With A = K - n/2, K of n votes for the first item, n m/2 + 2AB of the n m pairs agree.
    """
    starts = np.flatnonzero(np.diff(cells.unit, prepend=-1))
    sizes = np.diff([*starts, len(cells.unit)])
    if float((sizes.astype(np.float64) ** 2).sum()) > 2.0 * _MOST:
        raise RequestError(
            "too many workers voted on the same pairs of items to compare them two by two; ask "
            "for a part of the votes"
        )
    i, j = _pairs_within(starts, sizes)
    n, m = cells.votes[i], cells.votes[j]
    a, b = (cells.wins[at] - 0.5 * cells.votes[at] for at in (i, j))
    mean = [cells.votes[at] * (cells.p[at] - 0.5) for at in (i, j)]
    square = [
        cells.votes[at] * cells.p[at] * (1.0 - cells.p[at]) + centre**2
        for at, centre in zip((i, j), mean, strict=True)
    ]
    variance = 4.0 * (square[0] * square[1] - (mean[0] * mean[1]) ** 2)
    one, two = cells.worker[i], cells.worker[j]
    return (
        np.minimum(one, two), np.maximum(one, two), n * m, 0.5 * n * m + 2.0 * a * b,
        0.5 * n * m + 2.0 * mean[0] * mean[1], variance,
    )  # fmt: skip


def _within(cells: _Cells) -> _Sums:
    """Pairs of votes of one worker on the same items.

    Of n votes, K for the first item, (K - n/2)² + n²/4 - n/2 pairs agree; its variance follows
    from the central moments of the binomial distribution.
    """
    several = cells.votes > 1.0
    n, p, worker = cells.votes[several], cells.p[several], cells.worker[several]
    a, c, s = cells.wins[several] - 0.5 * n, n * (p - 0.5), n * p * (1.0 - p)
    third, fourth = s * (1.0 - 2.0 * p), s * (1.0 + 3.0 * p * (1.0 - p) * (n - 2.0))
    rest = 0.25 * n**2 - 0.5 * n
    variance = fourth - s**2 + 4.0 * c**2 * s + 4.0 * c * third
    return worker, worker, 0.5 * n * (n - 1.0), a**2 + rest, s + c**2 + rest, variance


def _pairs_within(
    starts: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of places within runs; runs of one size are handled together."""
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size in np.unique(sizes[sizes > 1]).tolist():
        i, j = np.triu_indices(size, 1)
        begin = starts[sizes == size][:, None]
        first.append((begin + i).reshape(-1))
        second.append((begin + j).reshape(-1))
    return np.concatenate(first), np.concatenate(second)


def _too_alike(
    one: NDArray[np.int64],
    two: NDArray[np.int64],
    size: Vector,
    agreed: Vector,
    expected: Vector,
    variance: Vector,
    votes: Comparisons,
) -> Table:
    """Pairs of workers whose agreement is beyond chance, and beyond that of the crowd.

    What all pairs of workers have in common beyond the scores, such as pairs of items that are
    easier than these say, is taken away: the median excess of agreement, where it is above 0.
    """
    key, unit = np.unique(one * votes.n_workers + two, return_inverse=True)
    unit = unit.reshape(-1)
    shared, agree, chance, spread = (
        np.bincount(unit, values, len(key)) for values in (size, agreed, expected, variance)
    )
    enough = shared >= _FEWEST
    key, shared, agree, chance, spread = (
        column[enough] for column in (key, shared, agree, chance, spread)
    )
    excess = np.median((agree - chance) / shared) if len(key) > 2 else 0.0
    baseline = np.minimum(chance + max(float(excess), 0.0) * shared, shared)
    z = (agree - baseline) / np.sqrt(np.maximum(spread, 1e-300))
    bound = half_width(1.0 - 2.0 * (1.0 - _SURE) / max(len(key), 1))
    chosen = np.flatnonzero(z > bound)
    chosen = chosen[np.argsort(-z[chosen], kind="stable")]
    return Table(
        {
            "worker": votes.workers[key[chosen] // votes.n_workers],
            "other": votes.workers[key[chosen] % votes.n_workers],
            "shared": shared[chosen],
            "agreement": agree[chosen] / shared[chosen],
            "expected": baseline[chosen] / shared[chosen],
            "z": z[chosen],
        }
    )


def _groups(pairs: Table) -> tuple[tuple[Any, ...], ...]:
    """Workers who are linked, the largest group first."""
    leader: dict[Any, Any] = {}

    def found(label: Any) -> Any:
        while leader.setdefault(label, label) != label:
            label = leader[label]
        return label

    for one, two in zip(pairs["worker"].tolist(), pairs["other"].tolist(), strict=True):
        leader[found(one)] = found(two)
    members: dict[Any, list[Any]] = {}
    for label in leader:
        members.setdefault(found(label), []).append(label)
    ordered = sorted(members.values(), key=lambda group: (-len(group), str(group[0])))
    return tuple(tuple(sorted(group, key=str)) for group in ordered)
