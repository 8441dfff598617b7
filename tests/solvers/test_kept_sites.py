"""Sites that outlive their run, against plain dictionaries of votes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from crowdsift.engines.grid import RELIABILITY_ONLY, VoteSites
from crowdsift.solvers.ep import warm as module
from crowdsift.solvers.ep.warm import SavedSites, carried_over, kept_sites, worker_codes
from crowdsift.solvers.ep.workers import worker_types

ITEMS, WORKERS = 4, 3


def kept(rng, n):
    """Sites of votes, of which equal ones have equal sites."""
    worker = rng.integers(0, WORKERS, n)
    winner = rng.integers(0, ITEMS, n)
    loser = (winner + rng.integers(1, ITEMS, n)) % ITEMS
    kind = rng.choice([1, -1, 2], n)
    tau = 0.1 + worker + 10.0 * winner + 100.0 * loser + 1000.0 * kind
    values = [(tau + shift).astype(np.float32) for shift in (0.0, 1.0, 2.0, 3.0)]
    codes = (each.astype(np.uint32) for each in (worker, winner, loser))
    ends = rng.random((2, WORKERS + 1))
    return SavedSites(*codes, kind.astype(np.int8), *values, *ends)


def votes_of(sites):
    """The same as an engine has them: ordered by worker, how many a worker has."""
    order = np.argsort(sites.worker, kind="stable")
    held = np.bincount(sites.worker, minlength=WORKERS)
    return VoteSites(
        held,
        *(each[order] for each in sites[1:4]),
        *np.zeros((4, len(order)), np.float32),
        *np.full((2, WORKERS), np.nan),
    )


@pytest.mark.parametrize("sides", [False, True])
@pytest.mark.parametrize("before", [0, 1, 40])
def test_equal_votes_take_over_their_sites(sides, before):
    types = worker_types(ties=False, sides=True) if sides else RELIABILITY_ONLY
    rng = np.random.default_rng(before)
    earlier, votes = kept(rng, before), votes_of(kept(rng, 60))

    def key(worker, winner, loser, kind):
        return int(worker), int(winner), int(loser), int(kind if sides else abs(kind))

    known = {}
    for worker, winner, loser, kind, *values in zip(*earlier[:8], strict=True):
        known.setdefault(key(worker, winner, loser, kind), values)
    found = carried_over(earlier, votes, types)
    there = 0
    for place, worker in enumerate(worker_codes(votes)):
        at = key(worker, votes.winner[place], votes.loser[place], votes.kind[place])
        there += at in known
        assert [each[place] for each in found[4:8]] == list(known.get(at, [0.0] * 4))
    assert (0 < there < 60) == (before == 40)
    for one, two in zip(found[:4], votes[:4], strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(found.low, earlier.low[:WORKERS])  # one more: gold
    np.testing.assert_array_equal(found.high, earlier.high[:WORKERS])


def test_sites_under_other_codes():
    sites = kept(np.random.default_rng(5), 50)
    item, worker = np.array([2, -1, 0, 5]), np.array([4, 0, -1, 2])
    found = sites.recoded(item, worker, 6)
    expected = [
        (worker[s], item[i], item[j], *rest)
        for s, i, j, *rest in zip(*sites[:8], strict=True)
        if worker[s] >= 0 and item[i] >= 0 and item[j] >= 0
    ]
    assert 0 < len(expected) < 50
    assert list(zip(*found[:8], strict=True)) == expected
    assert found.worker.dtype == found.winner.dtype == found.loser.dtype == np.uint32
    for own, given in ((found.low, sites.low), (found.high, sites.high)):
        np.testing.assert_array_equal(own[[4, 0, 2]], given[[0, 1, 3]])
        assert np.isnan(own[[1, 3, 5]]).all()
    same = sites.recoded(np.arange(4), np.arange(4), 4)
    for one, two in zip(same, sites, strict=True):
        np.testing.assert_array_equal(one, two)


def test_sites_are_kept_unless_there_are_too_many(monkeypatch):
    votes = votes_of(kept(np.random.default_rng(6), 20))
    sites = SimpleNamespace(n_votes=20, vote_sites=lambda: votes)
    monkeypatch.setattr(module, "KEPT_SITES", 20)
    found = kept_sites(sites)
    np.testing.assert_array_equal(found.worker, np.repeat(np.arange(WORKERS), votes.held))
    for one, two in zip(found[1:], votes[1:], strict=True):
        np.testing.assert_array_equal(one, two)
    monkeypatch.setattr(module, "KEPT_SITES", 19)
    assert kept_sites(sites) is None


def test_the_same_vote_again_takes_over_its_site_however_often():
    one = kept(np.random.default_rng(7), 1)
    many = SavedSites(*(np.repeat(each, 3) for each in one[:8]), *one[8:])
    found = carried_over(one, votes_of(many), RELIABILITY_ONLY)
    for values, known in zip(found[4:8], one[4:8], strict=True):
        assert values.tolist() == [known[0]] * 3


@pytest.mark.parametrize(("zero", "visited"), [([0], [0]), ([1, 2], [1]), ([0, 2], [0, 1]), ([], None), ([0, 3], None)])
def test_workers_with_a_single_new_vote_are_visited_first(zero, visited):
    """A vote without a site is new; where most votes belong to such workers, whole passes follow instead."""
    tau = np.ones(6)
    tau[zero] = 0.0
    seen, counts, worker = [], np.array([1.0, 2.0, 3.0]), np.repeat(np.arange(3), [1, 2, 3])
    passes = SimpleNamespace(
        _votes=SimpleNamespace(tau=tau, nu=np.where(tau > 0.0, 1.0, 0.0)),
        _counts=counts,
        _worker=worker,
        _visit=lambda moving: seen.append(np.flatnonzero(moving).tolist()),
        further=lambda parts: seen.append(parts),
    )
    module._Spread.from_new(passes)
    assert seen == ([] if visited is None else [visited, module._FIRST])
