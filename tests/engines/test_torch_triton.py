"""The Triton kernels under Triton's interpreter, against the passes in plain torch."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when kernels are defined
pytest.importorskip("triton", reason="Triton is not installed")
if torch.cuda.is_available():
    pytest.skip("the benchmark checks compiled kernels on the GPU", allow_module_level=True)

from grid_cases import SHAPES, SIDE  # noqa: E402

from crowdsift import Comparisons  # noqa: E402
from crowdsift.engines.base import SlopePrior  # noqa: E402
from crowdsift.engines.torch import (  # noqa: E402
    em,
    grid,
    operators,
    pairs,
    passes,
    rows,
    sites,
    slopes,
    sums,
    triton_solve,
)
from crowdsift.engines.torch.moments import TorchPasses  # noqa: E402
from crowdsift.engines.torch.torch_engine import TorchEngine  # noqa: E402
from crowdsift.engines.torch.triton_grid import TritonPasses  # noqa: E402
from crowdsift.solvers.em import EMState, alternate  # noqa: E402
from crowdsift.solvers.ep.variances import loopy_bp  # noqa: E402
from crowdsift.solvers.ep.worker_prior import power_grid  # noqa: E402


def drawn(seed: int) -> Comparisons:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 9, 110)
    outcome = rng.choice([0.0, 0.5, 1.0], 110, p=[0.3, 0.2, 0.5])
    return Comparisons.from_arrays(
        first, (first + rng.integers(1, 9, 110)) % 9, worker=rng.integers(0, 6, 110),
        outcome=outcome, sides_known=True,
    )  # fmt: skip


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("points", [5, 49])
def test_kernels(monkeypatch, shape, points):
    """Two updates, workers' own grids between them; some workers have several chunks of votes."""
    monkeypatch.setattr(rows, "_CHUNK", 16)
    votes = drawn(10 + shape)
    assert np.diff(votes.offsets).max() > 16 > np.diff(votes.offsets).min()
    types, levels = SHAPES[shape], power_grid(points)
    prior = np.random.default_rng(shape).dirichlet(np.ones(types.n_types(levels)))
    found = []
    for made in (TorchPasses, TritonPasses):
        monkeypatch.setattr(sites, "grid_passes", made)
        run = TorchEngine(votes, torch.device("cpu")).grid.sites(types, 1.5)
        means = np.linspace(-1.0, 1.0, 9)
        first = run.update(levels, prior, means, damping=1.0, clip=True, side=SIDE)
        moved = run.refine()
        run.system(run.pair_sums())
        second = run.update(levels, prior, means, damping=0.5, clip=False, side=SIDE)
        kept = run.vote_sites()
        counts = [run.type_counts(prior[::-1].copy())]
        twin = run.copy()
        twin.update(levels, prior, 2.0 * means, damping=0.0, clip=False, side=SIDE)
        counts += [each.type_counts(prior[::-1].copy()) for each in (twin, run)]
        np.testing.assert_allclose(counts[2], counts[0], rtol=1e-12)  # the twin is another
        found.append([moved, *first, *second, *kept[4:8], *counts])
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on passes are kernels; what a GPU would record is called kernel by kernel."""
    for module in (em, grid, operators, pairs, passes, slopes, sums):
        monkeypatch.setattr(module, "uses_triton", lambda device: True)


def result(engine: TorchEngine) -> list[object]:
    """What the passes of the logistic model and of pairs return."""
    scores, other = np.linspace(-1.0, 1.0, 9), np.cos(np.arange(9.0))
    given = np.linspace(-0.5, 1.5, 6)
    step = engine.em.e_step(scores, given)
    fitted, system = step.regress(other, 1.0 / 3.0)
    at = engine.slopes.profile(scores, given, SlopePrior(1.0, 0.7, 1e-10))
    run = engine.grid.sites(SHAPES[0], 1.5)
    levels = power_grid(9)
    prior = np.full(9, 1.0 / 9.0)
    run.update(levels, prior, scores, damping=1.0, clip=True, side=SIDE)
    found = run.system(run.pair_sums())
    precision = 1.0 + found.laplacian.diagonal()
    sweeps = [run.propagate(precision, 1e-3 * precision, fresh=True)]
    sweeps.append(run.propagate(precision - sweeps[0].sums, 1e-3 * precision))
    return [
        fitted, system.rhs, system.laplacian.multiply(other), system.laplacian.diagonal(),
        *at[:4], at.hessian.multiply(other), at.hessian.diagonal(),
        found.rhs, found.laplacian.multiply(other), *sweeps[0], *sweeps[1],
        engine.grid.correlations().multiply(other),
    ]  # fmt: skip


def test_other_kernels(monkeypatch):
    plain = result(TorchEngine(drawn(3), torch.device("cpu")))
    by_kernels(monkeypatch)
    for ours, theirs in zip(result(TorchEngine(drawn(3), torch.device("cpu"))), plain, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


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


def test_whole_m_steps(monkeypatch):
    """Alternations without a word to the host are those pass by pass."""
    votes, scores = drawn(4), np.zeros(9)
    state = EMState(scores, np.full(6, 0.8), None)
    found = []
    for kernels in (False, True):
        if kernels:
            by_kernels(monkeypatch)
        engine = TorchEngine(votes, torch.device("cpu"))
        step = engine.em.e_step(scores, state.slopes)
        first = alternate(replace(state, e_step=step), 1, shift=0.1, ridge=1.0, tolerance=1e-9)
        again = engine.em.e_step(first[0], first[1])
        second = alternate(EMState(*first[:2], again), 2, shift=0.1, ridge=1.0, tolerance=1e-9)
        found.append([step.log_likelihood, step.precision, *first, *second])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_belief_propagation(monkeypatch, effect):
    """Two iterations of sift's items: systems, solves, variances by messages that go on."""
    rng = np.random.default_rng(3)
    first = rng.integers(0, 9, 60)
    second = (first + rng.integers(1, 9, 60)) % 9
    votes = Comparisons.from_arrays(first, second, worker=rng.integers(0, 3, 60))
    levels, prior = power_grid(9), np.full(9, 1.0 / 9.0)
    found = []
    for kernels in (False, True):
        if kernels:
            by_kernels(monkeypatch)
        run = TorchEngine(votes, torch.device("cpu")).grid.sites(SHAPES[0], 1.5)
        means, messages, results = np.linspace(-1.0, 1.0, 9), None, []
        for _ in range(2):
            run.update(levels, prior, means, damping=0.7, clip=True, side=SIDE)
            system = run.system(run.pair_sums(), effect)
            means = system.laplacian.solve(system.rhs, means, shift=1.0, tolerance=1e-10).x
            known, messages = loopy_bp(run, system.laplacian, messages)
            results += [system.rhs, system.log_pairs, means, *known]
        found.append([*results, *run.pair_posteriors(means)[2:]])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
