"""The Triton kernels under Triton's interpreter, against the reference engine.

The contract test runs every pass on a few votes; here are cases that it does not have.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")
pytest.importorskip("triton", reason="Triton is not installed")

from grid_cases import SHAPES, SIDE  # noqa: E402
from reference_engine import ReferenceEngine  # noqa: E402

from crowdsift import Comparisons  # noqa: E402
from crowdsift.engines.grid import SitePass  # noqa: E402
from crowdsift.engines.torch import TorchEngine, rows, triton_solve  # noqa: E402
from crowdsift.solvers.ep.items import loopy_bp  # noqa: E402
from crowdsift.solvers.ep.workers import power_grid  # noqa: E402


def both_engines(votes: Comparisons) -> tuple[ReferenceEngine, TorchEngine]:
    return ReferenceEngine(votes), TorchEngine(votes, torch.device("cpu"))


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("points", [5, 49])
def test_kernels(monkeypatch, shape, points):
    """Two updates, adaptive grids between them; some workers have several chunks of votes."""
    monkeypatch.setattr(rows, "_CHUNK", 16)
    rng = np.random.default_rng(10 + shape)
    first = rng.integers(0, 9, 60)
    votes = Comparisons.from_arrays(
        first,
        (first + rng.integers(1, 9, 60)) % 9,
        worker=rng.integers(0, 4, 60) ** 2 // 4,
        outcome=rng.choice([0.0, 0.5, 1.0], 60, p=[0.3, 0.2, 0.5]),
        sides_known=True,
    )
    assert np.diff(votes.offsets).max() > 16 > np.diff(votes.offsets).min()
    types, levels = SHAPES[shape], power_grid(points)
    prior = np.random.default_rng(shape).dirichlet(np.ones(types.n_types(levels)))
    found = []
    for engine in both_engines(votes):
        run = engine.grid.sites(types, 1.5)
        means = np.linspace(-1.0, 1.0, 9)
        first = run.update(SitePass(levels, prior, means, damping=1.0, clip=True, side=SIDE))
        moved = run.refine()
        run.system(run.pair_sums())
        second = run.update(SitePass(levels, prior, means, damping=0.5, clip=False, side=SIDE))
        kept = run.vote_sites()
        worker = np.repeat(np.arange(len(kept.held)), kept.held)
        order = np.lexsort((kept.kind, kept.loser, kept.winner, worker))  # engines differ in it
        counts = [run.type_counts(prior[::-1].copy())]
        twin = run.copy()
        twin.update(SitePass(levels, prior, 2.0 * means, damping=0.0, clip=False, side=SIDE))
        counts += [each.type_counts(prior[::-1].copy()) for each in (twin, run)]
        np.testing.assert_allclose(counts[2], counts[0], rtol=1e-12)  # the twin is another
        found.append([moved, *first, *second, *(each[order] for each in kept[4:8]), *counts])
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_steps_of_a_solve(monkeypatch):
    """Steps of conjugate gradients, as a graph would play them, end at the solution and stay."""
    monkeypatch.setattr(triton_solve, "_BLOCK", 16)
    rng = np.random.default_rng(5)
    n, shift = 18, 0.3
    low = rng.integers(0, n, 60).astype(np.int32)
    high = ((low + rng.integers(1, n, 60)) % n).astype(np.int32)
    weight, rhs = rng.random(60), rng.normal(size=n)
    matrix = shift * np.eye(n)
    for a, b, w in zip(low, high, weight, strict=True):
        matrix[[a, b], [a, b]] += w
        matrix[[a, b], [b, a]] -= w
    solver = triton_solve.GraphSolver(n, torch.tensor(low), torch.tensor(high))
    wanted = np.linalg.solve(matrix, rhs)
    for start in (np.zeros(n), wanted):
        x, steps, square = solver.solve(torch.tensor(weight), rhs, start, shift, 1e-10, 1_000)
        np.testing.assert_allclose(x.numpy(), wanted, atol=1e-8)
        assert square <= 1e-20 * (rhs @ rhs)
        assert steps <= n


def test_belief_propagation_with_a_pair_effect():
    """Two iterations of sift's items: systems, solves, variances by messages that go on."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 9, 60)
    second = (first + rng.integers(1, 9, 60)) % 9
    votes = Comparisons.from_arrays(first, second, worker=rng.integers(0, 3, 60))
    levels, prior = power_grid(9), np.full(9, 1.0 / 9.0)
    found = []
    for engine in both_engines(votes):
        run = engine.grid.sites(SHAPES[0], 1.5)
        means, messages, results = np.linspace(-1.0, 1.0, 9), None, []
        for _ in range(2):
            run.update(SitePass(levels, prior, means, damping=0.7, clip=True, side=SIDE))
            system = run.system(run.pair_sums(), 0.3)
            means = system.laplacian.solve(system.rhs, means, shift=1.0, tolerance=1e-10).x
            known, messages = loopy_bp(run, system.laplacian, messages)
            results += [system.rhs, system.log_pairs, means, *known]
        found.append([*results, *run.pair_posteriors(means)[2:]])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
