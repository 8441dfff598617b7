"""Variances of scores at 5,000 items, by whatever way is chosen, against exact solves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from crowdsift import Comparisons, simulate
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass
from crowdsift.solvers.ep.items import Factorisation, loopy_bp

K = 5_000


def random_design(rng):
    first = rng.integers(K, size=4 * K)
    return first, (first + rng.integers(1, K, size=4 * K)) % K


def lattice_design(rng):
    side = 50
    code = np.arange(K).reshape(side, K // side)
    across = np.stack([code[:, :-1].ravel(), code[:, 1:].ravel()])
    down = np.stack([code[:-1].ravel(), code[1:].ravel()])
    return np.concatenate([across, down], axis=1)


def chain_design(rng):
    """A chain with a short loop here and there."""
    chain = np.stack([np.arange(K - 1), np.arange(1, K)])
    start = rng.integers(K - 10, size=300)
    loops = np.stack([start, start + rng.integers(2, 10, size=300)])
    return np.concatenate([chain, loops], axis=1)


@pytest.mark.parametrize("design", [random_design, lattice_design, chain_design])
def test_variances_are_within_five_percent(design):
    rng = np.random.default_rng(1)
    first, second = design(rng)
    votes = Comparisons.from_arrays(
        first, second, worker=np.zeros(len(first), int), weight=rng.integers(1, 9, len(first))
    )
    assert votes.n_items == K
    engine = choose_engine("cpu", votes, 1)
    sites = engine.grid.sites(RELIABILITY_ONLY, 2.0)
    # everyone of reliability 1, so that precisions of sites are positive
    sites.update(
        SitePass(
            np.array([0.5, 1.0]), np.array([0, 0, 0, 0, 1.0]), np.zeros(K), damping=1.0, clip=True, side=SidePrior()
        )
    )
    laplacian = sites.system(sites.pair_sums()).laplacian
    exact = Factorisation(engine)
    found = exact.variances(sites, laplacian, exact=True)
    assert found is not None or design is random_design  # a sparse factor of a chain or a lattice
    assert exact.possible(sites, laplacian) == (found is not None)
    if found is None:
        found, _ = loopy_bp(sites, laplacian, None)
    assert found.definite
    for item in rng.integers(K, size=30):
        unit = np.zeros(K)
        unit[item] = 1.0
        solution = laplacian.solve(unit, np.zeros(K), shift=1.0, tolerance=1e-10)
        assert solution.converged
        assert found.items[item] == pytest.approx(solution.x[item], rel=0.05)


class Counted:
    """Sites whose sweeps are counted."""

    def __init__(self, sites):
        self._sites, self.sweeps = sites, 0
        self.set_pair_variances = sites.set_pair_variances

    def propagate(self, *given, **named):
        self.sweeps += 1
        return self._sites.propagate(*given, **named)


def test_messages_go_on_where_they_were():
    """Those that are settled take a sweep to see it, and one for what follows from them."""
    votes = simulate(40, 9, 120, seed=3).comparisons()
    engine = choose_engine("reference", votes, 1)
    inner = engine.grid.sites(RELIABILITY_ONLY, 2.0)
    inner.update(
        SitePass(
            np.array([0.5, 1.0]),
            np.array([0, 0, 0, 0, 1.0]),
            np.zeros(votes.n_items),
            damping=1.0,
            clip=True,
            side=SidePrior(),
        )
    )
    laplacian = inner.system(inner.pair_sums()).laplacian
    sites = Counted(inner)
    first, messages = loopy_bp(sites, laplacian, None)
    assert 4 < sites.sweeps < 30
    sites.sweeps = 0
    again, _ = loopy_bp(sites, laplacian, messages)
    assert sites.sweeps == 2
    np.testing.assert_allclose(again.items, first.items, rtol=1e-4)
    sites.sweeps = 0
    anew, _ = loopy_bp(sites, laplacian, None)  # whatever was there before
    assert sites.sweeps > 4
    np.testing.assert_array_equal(anew.items, first.items)
    needed, sites.sweeps = sites.sweeps, 0
    for change in (1.0, 0.03):  # while scores still move fewer sweeps are enough
        rough, _ = loopy_bp(sites, laplacian, None, change=change)
        assert sites.sweeps < needed
        np.testing.assert_allclose(rough.items, first.items, rtol=1e-3)
        sites.sweeps = 0
    inner.transform(scale=8.0)  # all precisions times 64: what is settled is relative to them
    wide = inner.system(inner.pair_sums()).laplacian
    scaled, _ = loopy_bp(sites, wide, None, shift=64.0)
    assert sites.sweeps == needed
    np.testing.assert_allclose(64.0 * scaled.items, first.items, rtol=1e-5)


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("shift", [1.0, 2.0, 0.3])
def test_messages_on_a_chain_are_exact_with_any_shift(name, shift):
    votes = Comparisons.from_arrays(np.arange(9), np.arange(1, 10), worker=np.zeros(9, int))
    sites = choose_engine(name, votes, 1).grid.sites(RELIABILITY_ONLY, 2.0)
    sites.update(
        SitePass(
            np.array([0.5, 1.0]), np.array([0, 0, 0, 0, 1.0]), np.zeros(10), damping=1.0, clip=True, side=SidePrior()
        )
    )
    laplacian = sites.system(sites.pair_sums()).laplacian
    found, _ = loopy_bp(sites, laplacian, None, shift=shift)
    dense = np.stack([laplacian.multiply(unit) for unit in np.eye(10)]) + shift * np.eye(10)
    assert found.definite
    np.testing.assert_allclose(found.items, np.diag(np.linalg.inv(dense)), rtol=1e-4)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-3)


@pytest.mark.parametrize(
    ("improper", "sums", "last", "definite"),
    [
        (False, 0.5, False, True),
        (True, 0.5, False, False),  # a message without a proper Gaussian
        (False, 2.0, False, False),  # an item without one
        (False, 0.5, True, False),  # a pair without one
    ],
)
def test_where_there_is_no_proper_gaussian_nothing_is_kept(improper, sums, last, definite):
    kept = []

    def propagate(precision, settled, *, fresh=False, last=False):
        return SimpleNamespace(
            improper=at_the_end if last else improper,
            unsettled=0,
            sums=np.full(3, sums),
            shared=np.ones(2),
            log_determinant=0.7,
            degrees=np.array([1.0, 2.0, 1.0]),
        )

    at_the_end = last
    sites = SimpleNamespace(propagate=propagate, set_pair_variances=lambda **named: kept.append(1))
    laplacian = SimpleNamespace(diagonal=lambda: np.full(3, 0.5))
    found, messages = loopy_bp(sites, laplacian, None)
    assert found.definite is definite
    assert (messages is not None) is definite
    assert len(kept) == definite
    if definite:
        assert found.items.tolist() == [1.0] * 3
        assert found.log_determinant == pytest.approx(0.7)


def band_design(rng):
    """Everyone with the twenty next ones: many neighbours, and yet a chain."""
    first = np.repeat(np.arange(K - 20), 20)
    return first, first + np.tile(np.arange(1, 21), K - 20)


def dense_design(rng):
    """Eighty comparisons an item, with limbs of a single one."""
    first = rng.integers(K - 200, size=40 * K)
    second = (first + rng.integers(1, K - 200, size=40 * K)) % (K - 200)
    limbs = np.arange(K - 200, K)
    return np.append(first, limbs), np.append(second, limbs - (K - 200))


@pytest.mark.parametrize(("design", "sparse"), [(band_design, True), (dense_design, False)])
def test_where_a_factorisation_stays_sparse(design, sparse):
    first, second = design(np.random.default_rng(2))
    votes = Comparisons.from_arrays(first, second, worker=np.zeros(len(first), int))
    grid = choose_engine("cpu", votes, 1).grid
    low, high = np.minimum(first, second), np.maximum(first, second)
    found = grid.factoriser(low.astype(np.uint32), high.astype(np.uint32), K, 5e7)
    assert (found is not None) is sparse
