"""Named results of passes, how far they may be apart, and what operators give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from crowdsift.engines.base import Engine
from crowdsift.engines.fused import FusedLaplacian
from crowdsift.engines.kinds import WeightedPairs


class Slack(NamedTuple):
    """How far results may be apart: relative, and as a share of 1 + the largest entry."""

    relative: float
    absolute: float


EXACT = Slack(0.0, 0.0)
# Sums of doubles in another order.
DOUBLE = Slack(1e-9, 1e-9)
# Curvatures of votes may be kept in single precision.
SINGLE = Slack(1e-5, 1e-5)
# Sites and messages may be kept in single precision, and move what follows from them.
SITES = Slack(2e-4, 2e-5)
# Adaptive grids are placed by moments of such messages, and a grid moves by steps.
GRIDS = Slack(5e-3, 2e-3)
# Newton steps of workers end at a tolerance.
SETTLED = Slack(1e-6, 1e-6)


class Named(NamedTuple):
    name: str
    value: Any
    slack: Slack


Results = Iterator[Named]


def records(name: str, record: Any, slack: Slack) -> Results:
    """The entries of a named tuple."""
    for field, value in zip(record._fields, record, strict=True):
        yield Named(f"{name}.{field}", value, slack)


def dense(n: int, pairs: WeightedPairs) -> Any:
    """Weights of pairs as a matrix, whatever their order; those of one pair add up."""
    matrix = np.zeros((n, n))
    np.add.at(matrix, (np.minimum(*pairs[:2]), np.maximum(*pairs[:2])), pairs.weight)
    return matrix


def operator(
    name: str, made: Any, n: int, *, pairs: bool = True, definite: bool = True, slack: Slack = SINGLE
) -> Results:
    """Everything that an operator can do."""
    v = np.random.default_rng(n).normal(size=(2, n))
    yield Named(f"{name}.diagonal", made.diagonal(), slack)
    for at in (0, 1):
        yield Named(f"{name}.multiply", made.multiply(v[at]), slack)
    if pairs:
        yield Named(f"{name}.pairs", dense(n, made.pairs()), slack)
    if definite:
        solution = made.solve(v[0], v[1], shift=0.7, tolerance=1e-12)
        assert solution.converged
        # the matrix is known to `slack`, and its inverse is at most 1/0.7
        yield Named(f"{name}.solve", solution.x, Slack(30 * slack.relative, 30 * slack.absolute))
        assert made.solve(v[0], solution.x, shift=0.7, tolerance=1e-6).converged
        if isinstance(made, FusedLaplacian):  # in single precision
            rows = v.astype(np.float32)
            found = made.solve_rows(rows, np.zeros_like(rows), shift=0.7, tolerance=1e-6)
            scale = np.abs(solution.x).max()
            np.testing.assert_allclose(found[0], solution.x, rtol=0, atol=1e-4 * scale)
            low, high, _ = made.pairs()
            wide = np.random.default_rng(n).normal(size=(n, 19)).astype(np.float32)
            apart = ((wide[low].astype(np.float64) - wide[high]) ** 2).sum(axis=1)
            np.testing.assert_allclose(made.pair_distances(wide), apart, rtol=1e-5)


def point(engine: Engine, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-3, 3, engine.facts.n_items), rng.uniform(-3, 3, engine.facts.n_workers)
