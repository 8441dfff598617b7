"""The Triton kernels under Triton's interpreter, against the passes in plain torch."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when kernels are defined
pytest.importorskip("triton", reason="Triton is not installed")
if torch.cuda.is_available():
    pytest.skip("the benchmark checks compiled kernels on the GPU", allow_module_level=True)

from grid_cases import SHAPES, SIDE  # noqa: E402

from crowdsift import Comparisons  # noqa: E402
from crowdsift.engines.torch import rows, sites  # noqa: E402
from crowdsift.engines.torch.moments import PlainPasses  # noqa: E402
from crowdsift.engines.torch.torch_engine import TorchEngine  # noqa: E402
from crowdsift.engines.torch.triton_grid import TritonPasses  # noqa: E402
from crowdsift.solvers.worker_prior import power_grid  # noqa: E402


@pytest.mark.parametrize("shape", range(len(SHAPES)))
@pytest.mark.parametrize("points", [5, 49])
def test_kernels(monkeypatch, shape, points):
    """Two updates, workers' own grids between them; some workers have several chunks of votes."""
    monkeypatch.setattr(rows, "_CHUNK", 16)
    rng = np.random.default_rng(10 + shape)
    first = rng.integers(0, 9, 300)
    outcome = rng.choice([0.0, 0.5, 1.0], 300, p=[0.3, 0.2, 0.5])
    votes = Comparisons.from_arrays(
        first, (first + rng.integers(1, 9, 300)) % 9, worker=rng.integers(0, 6, 300),
        outcome=outcome, sides_known=True,
    )  # fmt: skip
    types, levels = SHAPES[shape], power_grid(points)
    prior = np.random.default_rng(shape).dirichlet(np.ones(types.n_types(levels)))
    found = []
    for passes in (PlainPasses, TritonPasses):
        monkeypatch.setattr(sites, "grid_passes", passes)
        run = TorchEngine(votes, torch.device("cpu")).grid.sites(types, 1.5)
        means = np.linspace(-1.0, 1.0, 9)
        first = run.update(levels, prior, means, damping=1.0, clip=True, side=SIDE)
        moved = run.refine()
        run.system(run.pair_sums())
        second = run.update(levels, prior, means, damping=0.5, clip=False, side=SIDE)
        kept = run.vote_sites()
        found.append([moved, *first, *second, *kept[4:8], run.type_counts(prior[::-1].copy())])
    for ours, theirs in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)
