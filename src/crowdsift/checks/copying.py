"""Workers whose answers agree more than the items explain, and those who repeat themselves.

Given scores and reliabilities the votes of two workers on the same pair of items are independent. With e = (y -
p)/√(p(1-p)), the residual of a vote in units of its deviation, products e·e' of two votes on the same pair have the
mean 0 and the variance 1. If one vote copies the other with probability c and both are equally sure, the derivative of
the log-likelihood in c at 0 is such a product. Their sum is therefore the locally most powerful statistic, and
unexpected answers count most. Its distribution by chance comes from a saddle-point approximation, since sums of few
products are not normal. A sum above this, and above that of most workers on their pairs, means that answers were
copied, or come from one source. Votes of one worker on the same pair are compared in the same way: a judge that gives
the same answer to the same question each time adds nothing by being asked again.

A cell holds the votes of one worker on one pair of items. All workers may judge a pair differently from its scores;
then their votes on it agree without copying. So every pair of items has an effect u ~ N(0, s²) on the logit, s² from
all votes, which is estimated for two workers from the votes of the others.

If two workers take answers from one source, a pair of items has an opinion o of which each vote is a copy with
probability a, and otherwise the worker's own answer. Against independent workers the log ratio log(Σ_o P(o) Q(k|o)
Q'(l|o)) - log(P(k) P'(l)) of k and l votes for the first item is the most powerful statistic for that a. Disagreement
counts against copying, and agreement on unexpected answers counts most. An independent worker may be consistent: with
probability ρ all its votes on a pair are the same. It is careful or not, with equal probability: without slips two
workers agree more often on clear pairs, with slips they agree more often on unexpected answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb, exp, lgamma, log, log1p
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from crowdsift.checks.statistics import calibrated, most_likely
from crowdsift.errors import RequestError
from crowdsift.models.covariance import difference_variance
from crowdsift.numeric import Indices, Labels, Mask, Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.saddle_point import saddle_point, saddle_points
from crowdsift.results.fit import Fit
from crowdsift.results.predict import vote_probability
from crowdsift.results.query import model_of
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import for_lower, pair_codes

Again = Callable[[Indices], "Alike"]

_CLOSER = 400  # pairs of workers whose probability by chance comes from a saddle point
_OUTCOMES = 2_000_000  # most outcomes of their votes
_BATCH = 200_000  # outcomes whose probabilities are computed together
_HASH = 1_000_003  # a prime for hash codes
_FEWEST = 5  # least votes that two workers share
_MOST = 50_000_000  # most pairs of votes that are examined
_MANY = 20  # least pairs of workers to estimate a spread
_LEAST = 0.1  # least mean product: it is about the share of copied answers, and that of a shared taste is lower
_PRIOR = 20.0  # pairs of votes that the usual consistency of workers counts as
_NORMAL_MAD = 0.6745  # of a normal distribution
_IDENTICAL = 0.9  # least share of shared pairs with identical answers for a test of identity
_STRICTER = 10  # factor between the probabilities by chance for similar and for identical answers
_CHANCE = 0.005  # probability that some pair is named by chance; the same for groups, and for workers
_NEAR, _LOOKS = 2.0, 6  # distance from the bound of groups that are tested again, and how many of these
_LINKS, _SEEDS, _LARGEST = 200, 40, 8  # most pairs, starts of groups, and workers per group that are examined


class Copying(NamedTuple):
    """Workers who copy each other or repeat themselves.

    `pairs`: pairs of workers: shared (pairs of votes on the same items), agreement, expected, z, surest first, only
    those that agree too often to be chance; `repeats`: workers who voted on the same items again: repeated (pairs of
    votes by the same worker), agreement, expected, z, surest first, only those that agree too often to be chance;
    `groups`: workers who are linked by such pairs, and groups who agree too often as a whole.
    """

    pairs: Table
    repeats: Table
    groups: tuple[tuple[Any, ...], ...]


def copying(fit: Fit) -> Copying:
    """Return workers whose answers agree too often; see `Fit.copying`."""
    votes = fit.votes
    if votes is None:
        raise RequestError("a loaded fit does not hold its votes; fit them again")
    if not votes.has_workers:
        raise RequestError("the votes have no workers who could copy each other")
    if not np.isfinite(fit.worker_table["reliability"].astype(np.float64)).any():
        raise RequestError(
            f"{fit.method} estimates no reliabilities, so that good workers look "
            "like copies of each other; use the method sift"
        )
    cells = _cells(fit, votes)
    none = np.zeros(votes.n_workers)
    rho = _consistency(_within(cells, None), votes.n_workers)
    effects = Effects(cells, _repeated(cells, rho))
    own, shared = _within(cells, effects), _between(cells, rho, effects, *_often(cells))
    between = _tested(shared, cells, votes.n_workers, rho)
    if len(between.z) < _MANY:  # too few to estimate what honest workers have in common
        between = between._replace(z=np.zeros(len(between.z)))
    alike = np.maximum(between.z, _identical(shared, between, cells, votes.n_workers))
    pairs = _too_alike(between._replace(z=alike), votes.workers)
    again = _too_alike(_tested(own, cells, votes.n_workers, none), votes.workers)
    repeats = Table({name: column for name, column in again.items() if name != "other"})

    def by_others(group: Indices) -> Alike:
        return _by_others(cells, rho, shared, between, group)

    wholes = alike_as_a_whole(between.one, between.two, between.z, votes.n_workers, by_others)
    wholes = [group for group in wholes if _on_many_pairs(group, cells, rho, effects)]
    return Copying(pairs, repeats, linked(pairs, wholes, votes.workers))


def _cells(fit: Fit, votes: Comparisons) -> Cells:
    """Return the votes by pair of items and worker, with their probabilities by the fit and the worker's side bias."""
    p, who = np.clip(vote_probability(fit, votes), SLIP, 1.0 - SLIP), votes.worker_codes().astype(np.int64)
    logit, error, lean = np.log(p / (1.0 - p)), np.zeros(len(p)), np.zeros(votes.n_workers)
    known, variance = fit.posterior, None
    if known is not None:
        variance = difference_variance(known.covariances, known.sd, votes.first, votes.second)
    if variance is not None:
        near = model_of(fit).probability(np.full(len(lean), _STEP), fit.worker_table["reliability"].astype(np.float64))
        error = np.nan_to_num(np.sqrt(variance) * (4.0 / _STEP * (near - 0.5))[who])
    if votes.sides_known:
        weight = np.where(votes.outcome == 0.5, 0.0, votes.weight.astype(np.float64))
        each = np.ones(len(p))
        lean = most_likely(logit, each, who, weight * votes.outcome, weight, len(lean), _PRIOR_LEAN**-2, 0.0)
    return cells_of(votes, np.clip(sigmoid(logit + lean[who]), SLIP, 1.0 - SLIP), error, np.abs(lean) > _LEANS)


class _Pairs(NamedTuple):
    """Pairs of cells of two workers, or of one: the agreement of their votes, and that by chance.

    `size` is the number of pairs of votes, `agreed` and `expected` how many of them agree, `product` the sum of the
    products of their residuals, with its `mean` and `variance`. `cells` are the two cells, `p` their probabilities
    given the votes of others on the pair of items, and `left` the remaining variance of its effect.
    """

    one: Indices
    two: Indices
    size: Vector
    agreed: Vector
    expected: Vector
    product: Vector
    mean: Vector
    variance: Vector
    cells: tuple[Indices, Indices]
    p: tuple[Vector, Vector]
    left: Vector


def _repeated(cells: Cells, rho: Vector) -> Vector:
    """Return 1 + (n-1)ρ for every cell: a sum of n residuals has n times this variance if their correlation is ρ."""
    return np.asarray(1.0 + (cells.votes - 1.0) * rho[cells.worker])


def _consistency(own: _Pairs, n_workers: int) -> Vector:
    """Return each worker's ρ: how similar two of the worker's votes on one pair are, beyond what the scores explain."""
    # Every worker has an opinion on every pair of items, independent of other workers. ρ is the mean product of the
    # worker's residuals, in [0, 1]; that of the median worker counts as 20 more pairs of votes.
    product, size = (np.bincount(own.one, each, n_workers) for each in (own.product, own.size))
    voted = size > 0.0
    usual = float(np.median(product[voted] / size[voted])) if voted.any() else 0.0
    return np.clip((product + _PRIOR * usual) / (size + _PRIOR), 0.0, 1.0)


def _often(cells: Cells) -> tuple[Indices, Indices]:
    """Return pairs of cells on the same items, of workers who may share at least `_FEWEST` votes."""
    # Among many workers most pairs share one vote. They are left out by sums over hash codes of pairs of workers: a sum
    # is an upper bound for every pair with that code.
    i, j = _pairs_within(cells.unit)
    code = (cells.worker * _HASH % (2 * len(i) + 1))[i] + cells.worker[j]
    shared = np.bincount(code, cells.votes[i] * cells.votes[j])
    rows = np.flatnonzero((shared >= _FEWEST * (1.0 - 1e-9))[code])
    return i[rows], j[rows]


def _between(cells: Cells, rho: Vector, effects: Effects, i: Indices, j: Indices) -> _Pairs:
    # With A = K - n/2, K of n votes for the first item, n m/2 + 2AB of the n m pairs agree. A sum of n residuals has
    # the variance n(1 + (n-1)ρ), so it counts as n/(1 + (n-1)ρ) independent ones. An effect of variance v shared by
    # both workers gives a product the mean v√(p(1-p)p'(1-p')).
    n, m = cells.votes[i], cells.votes[j]
    a, b = (cells.wins[at] - 0.5 * cells.votes[at] for at in (i, j))
    (p, q), left = effects.without(i, j)
    repeated = _repeated(cells, rho)
    alone = n * m / (repeated[i] * repeated[j])
    slow, other = careful(p), careful(q)
    product = residuals(cells.wins[i], n, slow) * residuals(cells.wins[j], m, other)
    one, two = cells.worker[i], cells.worker[j]
    return _Pairs(
        np.minimum(one, two),
        np.maximum(one, two),
        n * m,
        0.5 * n * m + 2.0 * a * b,
        0.5 * n * m + 2.0 * n * (p - 0.5) * m * (q - 0.5),
        product / (repeated[i] * repeated[j]),
        alone * spread(cells, i, left) * spread(cells, j, left) * np.sqrt(slow * (1.0 - slow) * other * (1.0 - other)),
        alone,
        (i, j),
        (p, q),
        left,
    )


def _identical(pairs: _Pairs, tested: _Tested, cells: Cells, n_workers: int) -> Vector:
    """Return z of identical answers of tested pairs of workers, without others' votes; 0 if by chance."""
    i, j = pairs.cells
    same = (cells.votes[i] == cells.votes[j]) & (cells.wins[i] == cells.wins[j])
    at = np.searchsorted(wanted := tested.one * n_workers + tested.two, key := pairs.one * n_workers + pairs.two)
    at = np.where(np.append(wanted, -1)[at] == key, at, len(wanted))
    equal, total = (np.bincount(at, x, len(wanted) + 1)[:-1] for x in (same, np.ones(len(at))))
    near = np.flatnonzero(equal >= np.maximum(_IDENTICAL * total, _FEWEST))
    near = near[np.argsort(-equal[near], kind="stable")][:_CLOSER]
    z = np.zeros(len(wanted))
    p = calibrated(cells.p, cells.worker, cells.wins, cells.votes, n_workers)
    for each in near.tolist():
        rows = np.flatnonzero(at == each)
        z[each] = identical_z(cells, i[rows], j[rows], p)
    return np.where(z > bound_of(_STRICTER * max(len(z), 1)), z, 0.0)


def _within(cells: Cells, effects: Effects | None) -> _Pairs:
    # Of n votes, K for the first item, (K - n/2)² + n²/4 - n/2 pairs agree. The products over pairs are half of the
    # squared sum less the sum of squares, [K(1-p)² + (n-K)p²]/(p(1-p)).
    several = np.flatnonzero(cells.votes > 1.0)
    n, p, worker = cells.votes[several], cells.p[several], cells.worker[several]
    wins, left = cells.wins[several], np.zeros(len(several))
    if effects is not None:
        (p,), left = effects.without(several)
    p = careful(p)
    a, c, s = wins - 0.5 * n, n * (p - 0.5), n * p * (1.0 - p)
    rest, pairs = 0.25 * n**2 - 0.5 * n, 0.5 * n * (n - 1.0)
    return _Pairs(
        worker,
        worker,
        pairs,
        a**2 + rest,
        s + c**2 + rest,
        _own_products(wins, n, p),
        pairs * spread(cells, several, left) ** 2 * p * (1.0 - p),
        pairs,
        (several, several),
        (p, p),
        left,
    )


def _own_products(wins: Vector, votes: Vector, p: Vector) -> Vector:
    squares = (wins * (1.0 - p) ** 2 + (votes - wins) * p**2) / (p * (1.0 - p))
    return np.asarray(0.5 * (residuals(wins, votes, p) ** 2 - squares))


def _pairs_within(unit: Indices) -> tuple[Indices, Indices]:
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    sizes = np.diff([*starts, len(unit)])
    if float((sizes.astype(np.float64) ** 2).sum()) > 2.0 * _MOST:
        raise RequestError(
            "too many workers voted on the same pairs of items to compare them two by two; ask for a part of the votes"
        )
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for size in np.unique(sizes[sizes > 1]).tolist():
        i, j = np.triu_indices(size, 1)
        begin = starts[sizes == size][:, None]
        first.append((begin + i).reshape(-1))
        second.append((begin + j).reshape(-1))
    return np.concatenate(first), np.concatenate(second)


def _by_others(cells: Cells, rho: Vector, shared: _Pairs, tested: _Tested, group: Indices) -> Alike:
    """Return the similarity of a group, given the votes of workers outside it."""
    # If some workers copy each other, the others of the group are not independent evidence: a stranger who agrees with
    # one copy agrees with all. So every member is compared with the rest as a whole.
    outside = ~np.isin(cells.worker, group)
    effects = Effects(cells, _repeated(cells, rho), outside)
    inside = np.isin(shared.one, group) & np.isin(shared.two, group)
    pairs = _between(cells, rho, effects, *(at[inside] for at in shared.cells))
    found = _tested(pairs, cells, len(rho), rho, (tested.common, tested.wide))
    whole = float(found.z.sum()) / np.sqrt(max(len(found.z), 1))
    p = cells.p.copy()
    inner = np.flatnonzero(~outside)
    (p[inner],), _ = effects.without(inner)
    mine = [inner[cells.worker[inner] == member] for member in group.tolist()]
    own = [ratio_with_group(cells, at, np.setdiff1d(inner, at), p, rho) / tested.wide for at in mine]
    return Alike(whole, np.array(own))


def _on_many_pairs(group: list[int], cells: Cells, rho: Vector, effects: Effects) -> bool:
    """Return whether a group is similar enough, and on more than one pair of items."""
    inside = np.flatnonzero(np.isin(cells.worker, group))
    pairs = _between(cells, rho, effects, *(inside[at] for at in _pairs_within(cells.unit[inside])))
    unit = np.unique(cells.unit[pairs.cells[0]], return_inverse=True)[1].reshape(-1)
    above = pairs.product - pairs.mean
    product, variance = (np.bincount(unit, x) for x in (above, pairs.variance))
    rest = np.argsort(-product, kind="stable")[1:]
    left = float(variance[rest].sum())
    whole = float(product.sum()) >= _LEAST * float(variance.sum())
    return whole and left > 0.0 and float(product[rest].sum()) / np.sqrt(left) > bound_of(1)


class _Tested(NamedTuple):
    """Pairs of workers with enough votes in common: what they share, and z of their products."""

    one: Indices
    two: Indices
    shared: Vector
    agreement: Vector
    expected: Vector
    z: Vector
    common: float
    wide: float


def _tested(
    pairs: _Pairs, cells: Cells, n_workers: int, rho: Vector, known: tuple[float, float] | None = None
) -> _Tested:
    """Return pairs of workers with tests of their similarity beyond chance and beyond all workers'."""
    # All pairs of workers may agree beyond the scores, for example on items that are easier than their scores suggest.
    # This common part is subtracted: the median of the mean products if it is above 0, and the spread of sums beyond
    # chance if there are enough pairs to estimate it (or as `known`).
    key, unit = np.unique(pairs.one * n_workers + pairs.two, return_inverse=True)
    unit = unit.reshape(-1)
    above = pairs.product - pairs.mean
    sums = (pairs.size, pairs.agreed, pairs.expected, above, pairs.variance)
    shared, agree, chance, product, variance = (np.bincount(unit, x, len(key)) for x in sums)
    enough = np.flatnonzero(shared >= _FEWEST)
    few = len(enough) < 3
    common = 0.0 if few else max(float(np.median(product[enough] / variance[enough])), 0.0)
    common = common if known is None else known[0]
    excess = product - common * variance
    z = excess / np.sqrt(np.maximum(variance, 1e-300))
    wide = _spread(z[enough]) if known is None else known[1]
    z = np.where(excess < _LEAST * variance, np.minimum(z, 0.0), z)
    order = np.argsort(unit, kind="stable")
    starts = np.searchsorted(unit[order], np.arange(len(key) + 1))
    far = enough[np.argsort(-z[enough], kind="stable")][:_CLOSER]  # a normal z is usually larger
    rest = np.setdiff1d(enough, far)
    z[rest] = np.minimum(z[rest], 0.0 if not len(far) else max(float(z[far].min()), 0.0))
    far = far[z[far] > 1.0]
    runs = [order[starts[at] : starts[at + 1]] for at in far.tolist()]
    z[far] = _chances(cells, pairs, runs, rho, common, excess[far], z[far])
    one, two = key[enough] // n_workers, key[enough] % n_workers
    total = shared[enough].astype(np.float64)
    return _Tested(one, two, total, agree[enough] / total, chance[enough] / total, z[enough] / wide, common, wide)


def _too_alike(found: _Tested, workers: Labels) -> Table:
    """Return the pairs that agree too often to be chance, surest first."""
    bound = bound_of(max(len(found.z), 1))
    chosen = np.flatnonzero(found.z > bound)
    chosen = chosen[np.argsort(-found.z[chosen], kind="stable")]
    return Table(
        {
            "worker": workers[found.one[chosen]],
            "other": workers[found.two[chosen]],
            "shared": found.shared[chosen],
            "agreement": found.agreement[chosen],
            "expected": found.expected[chosen],
            "z": found.z[chosen],
        }
    )


def _spread(z: Vector) -> float:
    """Return the spread of most z relative to chance, by the median of absolute deviations."""
    if len(z) < _MANY:
        return 1.0
    return max(float(np.median(np.abs(z - np.median(z)))) / _NORMAL_MAD, 1.0)


def _chances(
    cells: Cells, pairs: _Pairs, runs: list[Indices], rho: Vector, common: float, excess: Vector, z: Vector
) -> Vector:
    # `runs` are the rows of `pairs` of every worker, or of every two workers; `excess` and `z` are their sums of
    # products above the mean, and the z of these under a normal distribution, which is returned if there are too many
    # outcomes.
    result = z.copy()
    same = bool((pairs.cells[0] == pairs.cells[1]).all())
    outcomes_of = np.round(cells.votes[np.stack(pairs.cells)]).astype(np.int64) + 1
    for batch in _batches(runs, outcomes_of[:1] if same else outcomes_of):
        rows = np.concatenate([runs[at] for at in batch])
        member = np.repeat(np.arange(len(batch)), [len(runs[at]) for at in batch])
        one, two = (at[rows] for at in pairs.cells)
        p = pairs.p[0][rows], pairs.p[1][rows]
        if same:
            value, chance = _own_outcomes(cells, one, p[0], rho)
            result[batch] = saddle_points(value, chance, excess[batch], member)
        else:
            result[batch] = ratio_z(cells, (one, two), p, pairs.left[rows], rho, common, member)
    return result


def _batches(runs: list[Indices], outcomes_of: Indices) -> Iterator[list[int]]:
    """Yield runs whose tables of outcomes have similar sizes; leave out those above `_OUTCOMES`."""
    if not runs:
        return
    sizes = np.array([outcomes_of[:, rows].max(axis=1) for rows in runs])
    batch: list[int] = []
    height, width = 0, sizes.min(axis=0)
    for at in np.argsort(sizes.prod(axis=1), kind="stable").tolist():
        rows = len(runs[at])
        if rows * int(sizes[at].prod()) > _OUTCOMES:
            continue
        wider = np.maximum(width, sizes[at])
        if batch and (height + rows) * int(wider.prod()) > _BATCH:
            yield batch
            batch, height, wider = [], 0, sizes[at]
        batch.append(at)
        height, width = height + rows, wider
    if batch:
        yield batch


def _own_outcomes(cells: Cells, at: Indices, p: Vector, rho: Vector) -> tuple[Vector, Vector]:
    """Return values and probabilities of the products of a worker's votes on every pair of items."""
    chance = outcomes(cells, at, p, rho).alone
    k = np.minimum(np.arange(chance.shape[1]), np.round(cells.votes[at])[:, None])
    return _own_products(k, cells.votes[at][:, None], p[:, None]), chance


class Alike(NamedTuple):
    """The similarity of a group: Σz/√pairs of all, and the z of every member against the rest."""

    whole: float
    own: Vector


def bound_of(cases: int) -> float:
    """Return the z that one of `cases` exceeds by chance with probability `_CHANCE`."""
    return -NormalDist().inv_cdf(_CHANCE / cases)


def alike_as_a_whole(one: Indices, two: Indices, alike: Vector, n_workers: int, by_others: Again) -> list[list[int]]:
    """Return groups of three or more workers who together agree too often to be chance."""
    # Under independence the sums of different pairs are uncorrelated, even if they have a worker in common: Σz/√pairs
    # is about normal, and all groups of a size share the probability by chance. Groups close to the bound are tested
    # again given the votes of others (`by_others`).
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


def _grown(z: Vector, known: Vector, members: list[int], bounds: dict[int, float]) -> tuple[float, list[int]]:
    """Return the distance of the best group, grown from two workers, above its bound, and the group."""
    best: tuple[float, list[int]] = (-np.inf, [])
    while len(members) + 1 in bounds and len(members) < len(z):
        gain = z[members].sum(axis=0)
        gain[members] = -np.inf
        members = [*members, int(gain.argmax())]
        block = np.ix_(members, members)
        alike = 0.5 * z[block].sum() / np.sqrt(max(0.5 * known[block].sum(), 1.0))
        best = max(best, (float(alike - bounds[len(members)]), members), key=lambda each: each[0])
    return best


def _without_strangers(members: Indices, by_others: Again, bound: float) -> list[int]:
    """Return the group without members who are not clearly similar to the rest; empty below three."""
    # A worker who left becomes a witness for the others.
    while len(members) > 2:
        own = by_others(members).own
        if own.min() > bound:
            return [int(member) for member in members]
        members = np.delete(members, int(own.argmin()))
    return []


def linked(pairs: Table, wholes: list[list[int]], workers: Labels) -> tuple[tuple[Any, ...], ...]:
    """Return the workers linked by pairs or groups, the largest group first."""
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


MARGIN = 0.1  # probabilities for residuals are at least this far from 0 and 1, since anybody may slip
SLIP = 0.01  # the probabilities themselves are at least this far from 0 and 1
_LEANS, _PRIOR_LEAN = 0.5, 2.0  # smallest lean to a side that counts, and its prior standard deviation, in logits
_STEP = 0.01  # difference of scores from which the slope of a worker's log odds is found
_MAX_EFFECT = 3.0  # largest effect of a pair of items, in logits
_MAX_SPREAD = 10.0  # largest standard deviation of log odds, so that probabilities stay below 1
MAX_VOTES = 100.0  # most votes of a cell: tables of its outcomes must not grow with weights
_COPIED = 0.5**0.5  # share of each worker's answers that are copies: every second pair of answers is from the source
_EXPLAINED = 0.6  # largest correlation of two honest workers' unexpected answers


class Cells(NamedTuple):
    """Decided votes of one worker on one pair of items: how many, how many for the first, and p.

    `error` is the standard deviation of the log odds by the error of the scores; below 0 for an adversarial worker.
    """

    unit: Indices
    worker: Indices
    votes: Vector
    wins: Vector
    p: Vector
    error: Vector


def cells_of(votes: Comparisons, p: Vector, error: Vector, leans: Mask) -> Cells:
    """Return the decided votes by pair of items and worker, in the order of pairs."""
    # Cells with more than `MAX_VOTES` votes are scaled down to it, with the same share of wins. A worker who leans to a
    # side answers the two orders of a pair differently. Only its votes in the more frequent order count.
    decided = np.flatnonzero((votes.outcome == 0.0) | (votes.outcome == 1.0))
    first, second = votes.first[decided], votes.second[decided]
    y, q = (for_lower(first, second, x[decided]) for x in (votes.outcome, p))
    worker = votes.worker_codes().astype(np.int64)[decided]
    weight = votes.weight.astype(np.float64)[decided]
    pair = pair_codes(first, second, votes.n_items)[1]
    key, cell = np.unique(pair * votes.n_workers + worker, return_inverse=True)
    cell, lower_left = cell.reshape(-1), first < second
    more = np.bincount(cell, np.where(lower_left, weight, -weight)) >= 0.0
    weight = np.where(leans[worker] & (lower_left != more[cell]), 0.0, weight)
    sums = (weight, weight * y, weight * q, weight * error[decided])
    count, wins, total, wrong = (np.bincount(cell, v, len(key)).astype(np.float64) for v in sums)
    p, error = total / np.maximum(count, 1e-300), wrong / np.maximum(count, 1e-300)
    scale = np.minimum(MAX_VOTES / np.maximum(count, 1e-300), 1.0)
    unit, who = key // votes.n_workers, key % votes.n_workers
    return Cells(unit, who, scale * count, scale * wins, p, error)


def spread(cells: Cells, at: Indices, left: Vector) -> Vector:
    """Return how far the log odds of cells may be off in common: by the effect of a pair and by the scores."""
    return np.copysign(np.minimum(np.sqrt(left + cells.error[at] ** 2), _MAX_SPREAD), cells.error[at])


def careful(p: Vector) -> Vector:
    """Return probabilities at least `MARGIN` away from 0 and 1, since every worker slips at times."""
    return np.clip(p, MARGIN, 1.0 - MARGIN)


def residuals(wins: Vector, votes: Vector, p: Vector) -> Vector:
    """Return the sum of the residuals of a cell, each with variance 1."""
    return np.asarray((wins - votes * p) / np.sqrt(p * (1.0 - p)))


class Effects:
    """Effects of pairs of items, from the votes of all except one or two workers.

    With S = Σ(y - p) and I = Σp(1-p) over the others the estimate is s²S/(1 + s²I), its variance s²/(1 + s²I), one step
    of Newton's method. E S² = I + s²I² over all votes of a pair gives s².

    `repeated` is the number of equal votes of a cell that count as one, for workers who repeat their answers;
    `variance` is s².
    """

    def __init__(self, cells: Cells, repeated: Vector, outside: Mask | None = None) -> None:
        self._cells = cells
        share = 1.0 / repeated if outside is None else np.where(outside, 1.0 / repeated, 0.0)
        p = careful(cells.p)
        self._residual = share * (cells.wins - cells.votes * p)
        self._weight = share * cells.votes * p * (1.0 - p)
        self._residual_sum, self._weight_sum = (
            np.bincount(cells.unit, each) for each in (self._residual, self._weight)
        )
        excess = float((self._residual_sum**2 - self._weight_sum).sum())
        self.variance = max(excess / max(float((self._weight_sum**2).sum()), 1e-300), 0.0)

    def without(self, *cells: Indices) -> tuple[tuple[Vector, ...], Vector]:
        """Return probabilities of cells given the votes of others, and the remaining variance."""
        unit = self._cells.unit[cells[0]]
        residual: Vector = self._residual_sum[unit].astype(np.float64)
        weight: Vector = self._weight_sum[unit].astype(np.float64)
        for at in cells:
            residual, weight = residual - self._residual[at], weight - self._weight[at]
        left = self.variance / (1.0 + self.variance * np.maximum(weight, 0.0))
        effect = np.clip(left * residual, -_MAX_EFFECT, _MAX_EFFECT)
        moved = []
        for at in cells:
            p = self._cells.p[at]
            p = sigmoid(np.log(p / (1.0 - p)) + effect)
            moved.append(np.clip(p, SLIP, 1.0 - SLIP))
        return tuple(moved), left


class Outcomes(NamedTuple):
    """Probabilities and log probabilities, given o, of 0 to n votes for the first item in every cell.

    `alone` is for a worker who does not copy, `first` and `second` for one whose source prefers the first item, or the
    second; entries beyond the n votes of a cell are 0. `seen` is the number of votes for the first item.
    """

    alone: Vector
    first: Vector
    second: Vector
    seen: Indices


def outcomes(cells: Cells, at: Indices, win: Vector, rho: Vector) -> Outcomes:
    """Return the outcomes of cells whose worker prefers the first item with probability `win`."""
    n, p, same = np.round(cells.votes[at])[:, None], win[:, None], rho[cells.worker[at]]
    k = np.minimum(np.arange(int(n.max()) + 1.0), n)
    there = np.arange(k.shape[1]) <= n
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, k.shape[1])))])
    ways = factorial[n.astype(int)] - factorial[k.astype(int)] - factorial[(n - k).astype(int)]

    def binomial(q: Vector) -> Vector:
        return np.asarray(there * np.exp(ways + k * np.log(q) + (n - k) * np.log1p(-q)))

    alone = binomial(p) * (1.0 - same)[:, None]
    alone[:, 0] += same * (1.0 - p[:, 0])
    alone[np.arange(len(at)), n[:, 0].astype(int)] += same * p[:, 0]
    own = (1.0 - _COPIED) * p
    seen = np.minimum(np.round(cells.wins[at]), n[:, 0]).astype(np.int64)
    return Outcomes(alone, binomial(_COPIED + own), binomial(own), seen)


def ratio_z(
    cells: Cells,
    at: tuple[Indices, Indices],
    p: tuple[Vector, Vector],
    left: Vector,
    rho: Vector,
    common: float,
    member: Indices,
) -> Vector:
    """Return the z of the log ratios of pairs of workers, each summed over shared pairs of items.

    `cells` are the votes, and each row of `at` has the cells of two workers on one pair of items. `p` are their
    probabilities and `left` is the variance of the pair's effect, given the votes of others. `common` is the share of
    answers that any two workers take from one source.
    """
    slow = careful(p[0]), careful(p[1])
    one, two = (outcomes(cells, where, q, rho) for where, q in zip(at, slow, strict=True))
    prior = 0.5 * (slow[0] + slow[1])[:, None, None]
    same = prior * _outer(one.first, two.first) + (1.0 - prior) * _outer(one.second, two.second)
    apart = _outer(one.alone, two.alone)
    value = np.log(np.maximum(same, 1e-300)) - np.log(np.maximum(apart, 1e-300))
    value = np.where(apart > 0.0, value, 0.0)
    likely = [_by_chance(cells, at, each, left, rho) for each in (slow, p)]
    rows = np.arange(len(at[0]))
    seen = np.bincount(member, value[rows, one.seen, two.seen]).astype(np.float64)
    value, same = (np.reshape(table, (len(rows), -1)) for table in (value, same))
    chance = np.concatenate([(1.0 - common) * np.reshape(each, (len(rows), -1)) + common * same for each in likely])
    both = np.concatenate([member, member + len(seen)])
    z = saddle_points(np.tile(value, (2, 1)), chance, np.tile(seen, 2), both)
    return np.asarray(z.reshape(2, -1).min(axis=0))


def _by_chance(
    cells: Cells, at: tuple[Indices, Indices], p: tuple[Vector, Vector], left: Vector, rho: Vector
) -> Vector:
    """Return probabilities of all outcomes of two cells, over two points of the effect of their pair."""
    tables: list[Vector] = []
    steps = [spread(cells, where, left) for where in at]
    for sign in (1.0, -1.0):
        odds = [q / (1.0 - q) * np.exp(sign * step) for q, step in zip(p, steps, strict=True)]
        pair = [outcomes(cells, w, q / (1.0 + q), rho).alone for w, q in zip(at, odds, strict=True)]
        tables.append(_outer(*pair))
    chance = np.mean(tables, axis=0)
    return np.asarray(chance / chance.sum(axis=(1, 2), keepdims=True))


def ratio_with_group(cells: Cells, mine: Indices, others: Indices, p: Vector, rho: Vector) -> float:
    """Return the z of one worker's log ratios given a group's answers on shared pairs."""
    # The others of the group give evidence on the source's opinion: P(o) becomes P(o | their votes). Given these the
    # worker's votes are independent of which members copy. `cells`, `mine`, `others`: the votes, the worker's cells,
    # one a pair of items, and those of the others in the group.
    odds = np.zeros(int(cells.unit.max()) + 1)
    met = np.zeros(len(odds), bool)
    if not len(others):
        return 0.0
    slow = careful(p)
    group = outcomes(cells, others, slow[others], rho)
    rows = np.arange(len(others))
    given = (each[rows, group.seen] for each in (group.first, group.second))
    first, second = (np.log(np.maximum(each, 1e-300)) for each in given)
    np.add.at(odds, cells.unit[others], first - second)
    met[cells.unit[others]] = True
    mine = mine[met[cells.unit[mine]]]
    if not len(mine):
        return 0.0
    own, sure = (outcomes(cells, mine, each[mine], rho) for each in (slow, p))
    source = sigmoid(np.log(slow[mine] / (1.0 - slow[mine])) + odds[cells.unit[mine]])[:, None]
    copied = source * own.first + (1.0 - source) * own.second
    value = np.log(np.maximum(copied, 1e-300)) - np.log(np.maximum(own.alone, 1e-300))
    value = np.where(own.alone > 0.0, value, 0.0)
    seen = float(value[np.arange(len(mine)), own.seen].sum())
    return min(saddle_point(value, each.alone, seen) for each in (own, sure))


def _outer(one: Vector, two: Vector) -> Vector:
    return np.asarray(one[:, :, None] * two[:, None, :])


def identical_z(cells: Cells, one: Indices, two: Indices, p: Vector) -> float:
    """Return the z of identical answers of two workers."""
    # The probability of identical answers is bounded from above for any effects of pairs of items. In a cell with one
    # answer only, the bound is that of an answer that agrees as if its residual had a correlation of `_EXPLAINED` with
    # the other. In a cell with both answers, it is that of the effect that makes this count most likely. So no other
    # worker is needed to explain the pair of items. `cells`, `one`, `two`: the votes, and the cells of the two workers,
    # row by row of one pair of items.
    n, k = cells.votes[one], cells.wins[one]
    same = (n == cells.votes[two]) & (k == cells.wins[two])
    answer = np.minimum(*(np.where(k > 0.0, p[at], 1.0 - p[at]) for at in (one, two)))
    likely = answer + _EXPLAINED * (1.0 - answer)
    mixed = np.flatnonzero((k > 0.0) & (k < n))
    likely[mixed] = [_most_likely(float(n[at]), float(k[at])) for at in mixed]
    copied = _COPIED + (1.0 - _COPIED) * likely
    chance = np.stack([1.0 - likely, likely], axis=1)
    value = np.log(np.stack([1.0 - copied, copied], axis=1) / np.maximum(chance, 1e-300))
    rows = np.arange(len(one))
    return saddle_point(value, chance, float(value[rows, same.astype(int)].sum()))


def _most_likely(n: float, k: float) -> float:
    """Return the largest probability of k of n votes under any probability of a vote."""
    ways = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
    return min(exp(ways + k * log(k / n) + (n - k) * log1p(-k / n)), 1.0)
