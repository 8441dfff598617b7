"""Copied and repeated answers: chances against plain counting, planted cases, false alarms."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import combinations, product
from math import erfc

import numpy as np
import pytest

import crowdsift
from crowdsift.checks.copying import (
    Cells,
    Effects,
    _between,
    _often,
    _own_outcomes,
    _pairs_within,
    _within,
    ratio_with_group,
    ratio_z,
)
from crowdsift.numeric.saddle_point import saddle_point, saddle_points


def crowd(seed: int, copiers: int = 0, repeats: int = 1) -> crowdsift.Fit:
    """Twelve workers on 14 items; the first ones copy worker 0, the last one repeats itself."""
    rng = np.random.default_rng(seed)
    score, slope = rng.normal(size=14), rng.uniform(0.5, 2.0, 12)
    answers: dict[tuple[int, int], bool] = {}
    repeated: dict[tuple[int, int], bool] = {}
    rows = []
    for worker in range(12):
        for _ in range(160 * (repeats if worker == 11 else 1)):
            a, b = sorted(rng.choice(14, 2, replace=False).tolist())
            first = bool(rng.random() < 1 / (1 + np.exp(-slope[worker] * (score[a] - score[b]))))
            if 0 < worker <= copiers:
                first = answers.get((a, b), first)
            if worker == 0:
                answers[a, b] = first
            if worker == 11 and repeats > 1:
                first = repeated.setdefault((a, b), first)
            rows.append((a if first else b, b if first else a, f"w{worker:02d}"))
    first_, second_, who = zip(*rows, strict=True)
    votes = crowdsift.Comparisons.from_arrays(first_, second_, worker=who)
    return crowdsift.fit(votes, "bora-map", threads=1)


def test_chances_are_those_of_all_outcomes() -> None:
    p, q = 0.8, 0.35
    cells = Cells(
        np.zeros(2, np.int64), np.arange(2), np.array([3.0, 2.0]), np.array([2.0, 1.0]), np.array([p, q]), np.zeros(2)
    )
    none = Effects(cells, np.ones(2))
    none.variance = 0.0
    between, within = [], []
    for votes in product((0, 1), repeat=5):
        chance = np.prod([p if v else 1 - p for v in votes[:3]])
        chance *= np.prod([q if v else 1 - q for v in votes[3:]])
        one = [(v - p) / np.sqrt(p * (1 - p)) for v in votes[:3]]
        two = [(v - q) / np.sqrt(q * (1 - q)) for v in votes[3:]]
        agreed = sum(a == b for a in votes[:3] for b in votes[3:])
        between.append((chance, agreed, sum(e * f for e in one for f in two), votes))
        again = sum(a == b for a, b in combinations(votes[:3], 2))
        within.append((chance, again, sum(e * f for e, f in combinations(one, 2)), votes))
    for sums, exact, size in (
        (_between(cells, np.zeros(2), none, *_pairs_within(cells.unit)), between, 6.0),
        (_within(cells, none), within, 3.0),
    ):
        chance, count, products = (np.array(each) for each in list(zip(*exact, strict=True))[:3])
        assert sums.size[0] == size
        assert sums.expected[0] == pytest.approx(chance @ count)
        assert chance @ products == pytest.approx(0.0, abs=1e-12)
        assert sums.variance[0] == pytest.approx(chance @ products**2)
        observed = next(each for each in exact if each[3] == (1, 1, 0, 1, 0))
        assert (sums.agreed[0], sums.product[0]) == pytest.approx(observed[1:3])
        if size == 3.0:
            at = sums.cells[0][:1]
            (value,), (mass,) = _own_outcomes(cells, at, sums.p[0][:1], np.zeros(2))
            for power in (1, 2, 3):  # the distribution that the saddle point starts from
                assert mass @ value**power == pytest.approx(chance @ products**power)


def test_log_ratios_are_those_of_all_outcomes() -> None:
    """Ten pairs of items, one vote each by two workers: 4^10 outcomes, by counts of their kinds."""
    n, p, q, a = 10, 0.8, 0.65, np.sqrt(0.5)
    alone = np.outer([1 - p, p], [1 - q, q])
    take = [np.array([1 - x, x]) for x in (a + (1 - a) * p, (1 - a) * p)]
    other = [np.array([1 - x, x]) for x in (a + (1 - a) * q, (1 - a) * q)]
    prior = 0.5 * (p + q)
    copied = prior * np.outer(take[0], other[0]) + (1 - prior) * np.outer(take[1], other[1])
    assert copied.sum() == pytest.approx(1.0)
    value = np.log(copied / alone).reshape(-1)
    total, exact = np.zeros(1), np.ones(1)
    for _ in range(n):
        total, where = np.unique((total[:, None] + value).round(9).reshape(-1), return_inverse=True)
        exact = np.bincount(where.reshape(-1), (exact[:, None] * alone.reshape(-1)).reshape(-1))
    wins = np.array([1, 1, 1, 0, 0, 0, 1, 1, 1, 1]), np.array([1, 1, 1, 0, 0, 0, 1, 1, 0, 1])
    cells = Cells(
        np.tile(np.arange(n), 2),
        np.repeat([0, 1], n),
        np.ones(2 * n),
        np.concatenate(wins).astype(float),
        np.repeat([p, q], n),
        np.zeros(2 * n),
    )
    at, none, one = (np.arange(n), np.arange(n, 2 * n)), np.zeros(n), np.zeros(n, np.int64)
    z = ratio_z(cells, at, (cells.p[:n], cells.p[n:]), none, np.zeros(2), 0.0, one)[0]
    seen = float(value.reshape(2, 2)[wins].sum())
    at_it = np.abs(total - seen) < 1e-6
    chance = float(exact[total > seen + 1e-6].sum() + 0.5 * exact[at_it].sum())
    assert 1e-4 < chance < 0.02
    assert 0.5 * erfc(z / np.sqrt(2)) == pytest.approx(chance, rel=0.15)
    wider = ratio_z(cells, at, (cells.p[:n], cells.p[n:]), none + 0.5, np.zeros(2), 0.0, one)[0]
    assert 0.0 < wider < z  # what everybody may think of a pair explains a part
    assert ratio_z(cells, at, (cells.p[:n], cells.p[n:]), none, np.zeros(2), 0.2, one)[0] < z
    (mine, others), alike = at, np.arange(n, 2 * n)
    with_one = ratio_with_group(cells, mine, others, cells.p, np.zeros(2))
    assert with_one > 1.5
    assert ratio_with_group(cells, mine, alike[:0], cells.p, np.zeros(2)) == 0.0


def test_effects_of_pairs_are_found_from_the_others() -> None:
    """The moments of s² and of one step, against 2,000 pairs of items drawn with a known effect."""
    rng = np.random.default_rng(3)
    units, workers, sd = 2000, 12, 0.4
    effect = sd * rng.normal(size=units)
    unit, worker = np.repeat(np.arange(units), workers), np.tile(np.arange(workers), units)
    base = rng.uniform(0.3, 0.7, units * workers)
    p = 1 / (1 + np.exp(-np.log(base / (1 - base)) - effect[unit]))
    wins = (rng.random(len(p)) < p).astype(float)
    cells = Cells(unit, worker, np.ones(len(p)), wins, base, np.zeros(len(p)))
    found = Effects(cells, np.ones(len(p)))
    assert found.variance == pytest.approx(sd**2, rel=0.25)
    one, two = (np.flatnonzero(worker == w) for w in (0, 1))
    (first, second), left = found.without(one, two)
    logit = [np.log(x / (1 - x)) for x in (first, base[one], second, base[two])]
    assert logit[0] - logit[1] == pytest.approx(logit[2] - logit[3], abs=1e-12)  # one of the pair
    assert np.std(logit[0] - logit[1]) > 0.1
    error = (logit[0] - logit[1]) - effect
    assert np.mean(error**2) == pytest.approx(float(left.mean()), rel=0.25)
    assert np.corrcoef(logit[0] - logit[1], wins[one])[0, 1] < 0.25  # its own votes are not in it


@pytest.mark.parametrize(("n", "p", "within"), [(12, 0.2, 0.2), (8, 0.35, 0.45)])
def test_the_chance_of_a_sum_of_products_is_that_of_all_outcomes(n: int, p: float, within: float) -> None:
    e = np.array([-np.sqrt(p / (1 - p)), np.sqrt((1 - p) / p)])
    c = np.array([1 - p, p])
    value, chance = np.outer(e, e).reshape(-1), np.outer(c, c).reshape(-1)
    total, exact = np.zeros(1), np.ones(1)
    for _ in range(n):  # all sums with their chances, equal ones put together
        total, where = np.unique((total[:, None] + value).round(9).reshape(-1), return_inverse=True)
        exact = np.bincount(where.reshape(-1), (exact[:, None] * chance).reshape(-1))
    tail = np.cumsum(exact[::-1])[::-1]
    for x, least in zip(total, tail, strict=True):
        if 1e-6 < least < 0.02:
            z = saddle_point(np.tile(value, (n, 1)), np.tile(chance, (n, 1)), float(x))
            middle = least - 0.5 * exact[np.searchsorted(total, x)]  # the sum moves in steps
            assert 0.5 * erfc(z / np.sqrt(2)) == pytest.approx(middle, rel=within)


def test_workers_who_repeat_their_own_opinions_are_not_taken_for_copies() -> None:
    """Everybody answers a pair four times, always the same: 4 · 4 pairs of votes are but one."""
    rng = np.random.default_rng(4)
    rows = []
    for worker, a in product(range(14), range(9)):
        for b in range(a + 1, 9):
            first = rng.random() < 1 / (1 + np.exp(0.4 * (a - b)))
            rows += [(a if first else b, b if first else a, f"w{worker}")] * 4
    winner, loser, who = zip(*rows, strict=True)
    votes = crowdsift.Comparisons.from_arrays(winner, loser, worker=who)
    assert crowdsift.fit(votes, "bora-map", threads=1).copying().groups == ()


def small_crowd(
    seed: int, judges: int, items: int, identical: bool, slope: float = 1.5, pair_sd: float = 0.0
) -> crowdsift.Comparisons:
    """Few judges with the same 200 questions, each with its own answers or all with the same."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=items)
    effect = np.triu(rng.normal(scale=pair_sd, size=(items, items)), 1)
    asked = np.array([rng.choice(items, 2, replace=False) for _ in range(200)])
    left, right = asked.T
    logit = slope * (score[left] - score[right]) + (effect - effect.T)[left, right]
    drawn = rng.random((1 if identical else judges, 200)) < 1 / (1 + np.exp(-logit))
    won = np.broadcast_to(drawn, (judges, 200))
    return crowdsift.Comparisons.from_arrays(
        np.where(won, left, right).reshape(-1),
        np.where(won, right, left).reshape(-1),
        worker=np.repeat([f"judge {j}" for j in range(judges)], 200),
    )


@pytest.mark.parametrize("method", ["sift", "bora-map"])
@pytest.mark.parametrize("items", [6, 12, 40])
def test_three_judges_with_identical_answers_are_a_group(items: int, method: str) -> None:
    """Issue 32, fault 5: no other worker is needed to see that answers are identical."""
    for seed in range(3):
        fit = crowdsift.fit(small_crowd(seed, 3, items, identical=True), method, threads=1)
        assert fit.copying().groups == (("judge 0", "judge 1", "judge 2"),)


@pytest.mark.parametrize("items", [6, 12, 40])
@pytest.mark.parametrize(("slope", "pair_sd"), [(1.5, 0.0), (1.5, 0.7), (8.0, 0.0), (30.0, 0.0)])
def test_few_independent_judges_are_not_named(items: int, slope: float, pair_sd: float) -> None:
    """Few judges who agree because the questions are clear, or by an effect of the pair."""
    for seed in range(10):
        votes = small_crowd(seed, 3, items, identical=False, slope=slope, pair_sd=pair_sd)
        assert crowdsift.fit(votes, "bora-map", threads=1).copying().groups == ()


def beside_others(seed: int, chance: Callable[[np.ndarray], np.ndarray], *, votes: int, both: bool) -> crowdsift.Fit:
    """Fourteen workers of usual care, and two with the same questions who choose the left item with `chance`.

    `both`: whether the two see every question a second time, with the items the other way round.
    """
    rng, items = np.random.default_rng(seed), votes // 15
    score, rows = rng.normal(size=items), []
    asked = np.array([rng.choice(items, 2, replace=False) for _ in range(votes)])
    if both:
        asked[votes // 2 :] = asked[: votes // 2, ::-1]
    for worker in range(16):
        if worker > 1:
            asked = np.array([rng.choice(items, 2, replace=False) for _ in range(votes)])
        difference = score[asked[:, 0]] - score[asked[:, 1]]
        logit = rng.uniform(0.7, 1.6) * difference + 0.1 * rng.normal()
        p = chance(difference) if worker < 2 else 1 / (1 + np.exp(-logit))
        left = rng.random(votes) < p
        rows += [(a, b, "left" if won else "right", f"w{worker:02d}") for (a, b), won in zip(asked, left, strict=True)]
    columns = dict(zip(("left", "right", "winner", "worker"), zip(*rows, strict=True), strict=True))
    return crowdsift.fit({name: list(values) for name, values in columns.items()}, "bora-map", threads=1)


@pytest.mark.filterwarnings("ignore::crowdsift.SignWarning")
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(("share", "votes"), [(1.0, 200), (0.97, 600), (0.9, 600)])
def test_judges_who_answer_by_the_side_are_no_copies(share: float, votes: int, both: bool) -> None:
    """Two judges who always answer left give the same answers to the same questions, each alone."""
    for seed in range(4):
        found = beside_others(seed, lambda d: np.full(len(d), share), votes=votes, both=both).copying()
        assert found.groups == ()
        assert found.repeats.height == 0


def test_careful_judges_who_lean_to_a_side_are_no_copies() -> None:
    for seed in range(6):
        fit = beside_others(seed, lambda d: 1 / (1 + np.exp(-1.5 * d - 2.0)), votes=600, both=False)
        assert fit.copying().groups == ()


def test_careful_judges_beside_careless_ones_are_no_copies() -> None:
    """Two judges who never slip agree where the scores, found from careless votes, are wrong."""
    for seed in range(10):
        fit = beside_others(seed, lambda d: 1 / (1 + np.exp(-8.0 * d)), votes=200, both=False)
        assert fit.copying().groups == ()


@pytest.mark.parametrize("check", ["copying", "statistics", "robustness"])
@pytest.mark.parametrize("weight", [1e5, 1e9])
def test_the_cost_of_checks_does_not_grow_with_weights(weight: float, check: str) -> None:
    """Issue 32, fault 17: tables of outcomes, of majorities and of removals had a row a vote."""
    rng = np.random.default_rng(1)
    asked = np.sort([rng.choice(12, 2, replace=False) for _ in range(300)], axis=1)
    asked = np.where((rng.random(300) < 0.6)[:, None], asked, asked[:, ::-1])
    asked[30:90] = np.tile(asked[:30], (2, 1))  # copies of worker 0, so that groups are tested
    votes = crowdsift.Comparisons.from_arrays(
        *asked.T, worker=np.repeat(np.arange(10), 30), weight=np.full(300, weight)
    )
    fit = crowdsift.fit(votes, "bora-map", threads=1)
    tracemalloc.start()
    try:
        getattr(fit, check)()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_noticed(seed: int) -> None:
    found = crowd(seed, copiers=2).copying()
    assert found.groups
    assert set(found.groups[0]) <= {"w00", "w01", "w02"}
    assert (found.pairs["agreement"] > found.pairs["expected"]).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_judge_that_repeats_itself_is_noticed(seed: int) -> None:
    found = crowd(seed, repeats=4).copying()
    assert found.repeats["worker"].tolist() == ["w11"]
    assert found.groups == ()


@pytest.mark.parametrize("seed", range(10))
def test_independent_workers_are_not_named(seed: int) -> None:
    found = crowd(seed).copying()
    assert found.groups == ()
    assert found.repeats.height == 0


def test_what_cannot_be_compared_is_refused() -> None:
    board = crowdsift.Comparisons.from_arrays(["a"], ["b"])
    with pytest.raises(crowdsift.RequestError, match="no workers"):
        crowdsift.fit(board, "bt").copying()
    fit = crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["x"]), "bt")
    with pytest.raises(crowdsift.RequestError, match="estimates no reliabilities"):
        fit.copying()


def test_workers_who_share_few_votes_are_left_out_and_no_others() -> None:
    rng = np.random.default_rng(5)
    key = np.unique(rng.integers(0, 40, 3000) * 400 + rng.zipf(1.6, 3000) % 400)
    votes = rng.integers(1, 4, len(key)).astype(float)
    cells = Cells(key // 400, key % 400, votes, 0.5 * votes, np.full(len(key), 0.5), np.zeros(len(key)))
    every, chosen = _pairs_within(cells.unit), _often(cells)
    shared: dict[tuple[int, int], float] = {}
    for i, j in zip(*every, strict=True):
        pair = int(cells.worker[i]), int(cells.worker[j])
        shared[pair] = shared.get(pair, 0.0) + votes[i] * votes[j]
    enough = {pair for pair, count in shared.items() if count >= 5}
    kept = set(zip(*(cells.worker[at].tolist() for at in chosen), strict=True))
    assert 0 < len(enough) < len(kept) < 0.7 * len(shared)  # codes that collide keep a few more
    assert enough <= kept
    rows = dict.fromkeys(enough, 0)
    for pair in zip(*(cells.worker[at].tolist() for at in chosen), strict=True):
        rows[pair] = rows.get(pair, 0) + 1
    assert all(
        rows[pair] == int(((cells.worker[every[0]] == pair[0]) & (cells.worker[every[1]] == pair[1])).sum())
        for pair in list(enough)[:50]
    )


def test_chances_of_many_sums_are_those_of_each() -> None:
    rng = np.random.default_rng(6)
    value = rng.normal(size=(200, 4))
    chance = rng.dirichlet(np.ones(4), 200) * (rng.random((200, 4)) < 0.9)
    chance /= chance.sum(axis=1, keepdims=True)
    member = rng.permutation(np.repeat(np.arange(25), 8))
    mean = np.bincount(member, (value * chance).sum(axis=1))
    top = np.bincount(member, np.where(chance > 0, value, -np.inf).max(axis=1))
    x = mean + np.linspace(-0.2, 1.0, 25) * (top - mean)  # below the mean, and up to the largest
    many = saddle_points(value, chance, x, member)
    each = [saddle_point(value[member == k], chance[member == k], x[k]) for k in range(25)]
    np.testing.assert_allclose(many, each, rtol=1e-9, atol=1e-12)
    assert (many[x <= mean] == 0.0).all()
    assert many[-1] > 3.0
