"""Loops of passes that an engine may run in one call: an optional addition to the protocols.

Where a call costs more than its work, as on a GPU, a loop of passes is better done where the votes are. An object with
a protocol of `base`, `grid` or `operators` offers this by also having the methods of one below. A solver asks with
`isinstance` and does the loop itself where it is not offered, or where the answer is None; either way the result is the
same. Shards never offer it.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.grid import PairVariances, WorkerPriors
from crowdsift.engines.kinds import Operator
from crowdsift.numeric import Indices, Vector

_BLOCK = 1 << 22  # numbers that are gathered at once


@runtime_checkable
class FusedEStep(Protocol):
    """An `EStep` that also runs a whole M-step."""

    def alternate(
        self, scores: Vector, alternations: int, shift: float, ridge: float, tolerance: float
    ) -> tuple[Vector, Vector, bool] | None:
        """Run `solvers.em.alternate`: return scores, slopes, and whether all linear solves converged."""


class ReliabilitySummary(NamedTuple):
    """Mean, sd, and quantiles of every worker, one row per worker."""

    mean: Vector
    sd: Vector
    quantiles: Vector


@runtime_checkable
class FusedSites(Protocol):
    """`GridSites` that runs belief propagation to its end, and names idle threads of the host."""

    def loopy_bp(self, tolerance: float, sweeps: int, *, fresh: bool) -> PairVariances | None:
        """Run `solvers.ep.items.loopy_bp` over the pairs of the last `system`.

        Sweep until no message moves by more than `tolerance` times the diagonal, at most `sweeps` times. Start from no
        messages if `fresh`, otherwise from those of the last call.
        """

    def quantiles(self, points: Vector, masses: Vector, levels: Vector, atom: Vector) -> Vector | None:
        """Return quantiles as `solvers.ep.summaries.quantiles` does."""

    def summary(self, prior: Vector, levels: Vector) -> ReliabilitySummary | None:
        """Return posteriors of all workers and their quantiles, if types have only a reliability."""

    def class_masses(self, prior: Vector, zone: float) -> Vector | None:
        """Return P(β < -zone), P(|β| ≤ zone) and P(β > zone), a row per worker, if types have only a reliability."""

    def idle_threads(self) -> int:
        """Return how many threads of the host are idle during a pass."""


class TypeMarginals(NamedTuple):
    """Marginals of posteriors over types, one row per worker.

    `points` are the reliabilities, `reliability` their masses over all tie widths, `width` those of tie widths over all
    reliabilities, `side_only` those of side-only types; `chosen` are types at evenly spaced quantiles, in the order of
    types.
    """

    points: Vector
    reliability: Vector
    width: Vector
    side_only: Vector
    chosen: Indices


@runtime_checkable
class SummedSites(Protocol):
    """`GridSites` that summarises posteriors worker by worker, without an array of workers by types."""

    def marginals(self, prior: Vector, rows: slice, chosen: int, own: WorkerPriors | None = None) -> TypeMarginals:
        """Return marginals of `posteriors`, with a number of types for every worker."""

    def quantiles(self, points: Vector, masses: Vector, levels: Vector, atom: Vector) -> Vector | None:
        """Return quantiles as `solvers.ep.summaries.quantiles` does."""


@runtime_checkable
class FusedLaplacian(Protocol):
    """An `Operator` that solves for many right-hand sides at once."""

    def solve_rows(
        self, rhs: NDArray[np.float32], start: NDArray[np.float32], *, shift: float, tolerance: float, most: int = 1_000
    ) -> NDArray[np.float32]:
        """Solve (A + shift I) x = b for every row b, in single precision."""

    def pair_distances(self, rows: NDArray[np.float32]) -> Vector:
        """Return |row_low - row_high|² for every pair; `rows` has one row per item."""


def solve_rows(
    operator: Operator, rhs: NDArray[np.float32], start: NDArray[np.float32], *, shift: float, tolerance: float
) -> NDArray[np.float32]:
    """Solve for every row: at once if the operator can, otherwise one after the other."""
    if isinstance(operator, FusedLaplacian):
        return operator.solve_rows(rhs, start, shift=shift, tolerance=tolerance)
    x = np.empty_like(rhs)
    for row, (b, before) in enumerate(zip(rhs, start, strict=True)):
        one, two = b.astype(np.float64), before.astype(np.float64)
        x[row] = operator.solve(one, two, shift=shift, tolerance=tolerance, most=1_000).x
    return x


def pair_distances(operator: Operator, rows: NDArray[np.float32]) -> Vector:
    """Return |row_low - row_high|² for every pair of a Laplacian; `rows` has one row per item."""
    if isinstance(operator, FusedLaplacian):
        return operator.pair_distances(rows)
    low, high, _ = operator.pairs()
    found = np.empty(len(low))
    size = max(_BLOCK // max(rows.shape[1], 1), 1)
    for at in range(0, len(low), size):
        part = slice(at, at + size)
        apart = rows[low[part]] - rows[high[part]]
        found[part] = np.einsum("pf,pf->p", apart, apart)
    return found
