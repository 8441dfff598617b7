"""The pairs of items that votes compare: their weights, posteriors and messages, on a device."""

from copy import copy
from typing import Self

import numpy as np
import torch
from torch import Tensor

from crowdsift.engines.grid import LEAST_DENOMINATOR, Messages, PairPosteriors, PairVariances, SiteSystem
from crowdsift.engines.torch.operators import PairLaplacian
from crowdsift.engines.torch.rows import SiteRows
from crowdsift.engines.torch.sums import ExactSum
from crowdsift.engines.torch.triton_bp import FAR_ABOVE, PairMessages
from crowdsift.engines.torch.triton_pairs import pair_posteriors, pair_sums, received, sweep
from crowdsift.engines.torch.vectors import to_host, to_solver
from crowdsift.numeric import Vector

# With more pairs than this, values per pair are in single precision.
_MAX_DOUBLE_PAIRS = 20_000_000


class PairState:
    """The state of every pair: a = Σ n·τ, H = Σ ±n·ν, D = 1 + s·a, the variance V, and its messages M to both ends.

    Tensors are replaced, never changed: a copy is a copy of the names.
    """

    def __init__(self, rows: SiteRows, n_items: int, variance: float) -> None:
        self._rows, self._pairs, self._n_items = rows, rows.pairs, n_items
        count, device = len(rows.pairs), rows.device
        self._real = torch.float64 if count <= _MAX_DOUBLE_PAIRS else torch.float32
        zeros = torch.zeros(count, dtype=self._real, device=device)
        self._V: Tensor | None = torch.full_like(zeros, variance)
        self._a = self._H = zeros
        self._effect = 0.0
        self._to_low = self._to_high = zeros[:0]
        self._messages: PairMessages | None = None  # set if belief propagation stays on the device
        self._diagonal: Tensor | None = None
        self._low, self._high, self.count = rows.pairs.low, rows.pairs.high, count

    def copy(self) -> Self:
        """Return a copy that shares tensors, but not messages, which change in place."""
        clone = copy(self)
        clone._messages = None if self._messages is None else self._messages.copy()
        return clone

    def suspend(self) -> None:
        """Release sums, variances and messages; `system` and the calls after it compute them again."""
        self._V, self._messages, none = None, None, self._a[:0]
        self._to_low = self._to_high = none
        if self.count > _MAX_DOUBLE_PAIRS:
            self._a = self._H = none

    def system(self, tau: Tensor, nu: Tensor, pair_effect: float) -> SiteSystem:
        a, H = self._sums(tau, nu)
        self._a, self._H, self._effect = a, H, pair_effect
        D = torch.clamp(1.0 + pair_effect * a, min=LEAST_DENOMINATOR) if pair_effect else None
        if D is not None:
            log_pairs = 0.5 * float((pair_effect * H * H / D - torch.log(D)).sum())
            a, H = a / D, H / D
        low, high, most = self._pairs.low, self._pairs.high, self._pairs.most
        self._diagonal, right = received(low, high, a, H, self._n_items, most)
        laplacian = PairLaplacian(
            self._n_items, low, high, a, most, self._rows.votes.solvers, self._diagonal, runs=True
        )
        return SiteSystem(laplacian, to_solver(right), 0.0 if D is None else log_pairs)

    def loopy_bp(self, tolerance: float, sweeps: int, fresh: bool) -> PairVariances | None:
        """Sweep until messages settle, all on the device; return None before the first `system`."""
        if self._diagonal is None:
            return None
        if self._messages is None:
            kind = torch.float64 if self._real == torch.float64 else torch.float32
            self._messages, fresh = PairMessages(self._low, self._high, self._n_items, kind), True
        W = self._a / self._denominator() if self._effect else self._a
        found = self._messages.propagate(
            W, self._diagonal, self._pairs.degrees, self._pairs.most, tolerance, sweeps, fresh
        )
        if not found.definite:
            return PairVariances(np.ones(self._n_items), 0.0, False)
        self._V = found.pairs
        return PairVariances(to_solver(1.0 / found.precision), found.log_determinant, True)

    def posteriors(self, means: Tensor) -> tuple[Tensor, Tensor]:
        """Return E and V of every pair, the lower item less the higher."""
        low, high, V = self._pairs.low, self._pairs.high, self._variances()
        own = self._a, self._H, self._effect
        return pair_posteriors(low, high, means, V, *own, float(LEAST_DENOMINATOR))

    def pair_posteriors(self, means: Tensor) -> PairPosteriors:
        E, V = self.posteriors(means)
        a, H, e, v = (x.to(torch.float64) for x in (self._a, self._H, E, V))
        slope = 0.5 * float(((H - a * e) ** 2 + a * a * v - a).sum())
        low, high = (x.cpu().numpy().astype(np.uint32) for x in (self._pairs.low, self._pairs.high))
        information = 0.5 * float(((a - a * a * v) ** 2).sum())
        return PairPosteriors(low, high, to_host(E), to_host(V), slope, information)

    def set_variances(self, variances: Vector | None) -> None:
        """Set V of all pairs, if given."""
        if variances is not None:
            self._V = torch.tensor(variances, dtype=self._real, device=self._a.device)

    def rescale(self, factor: float) -> None:
        """Convert V and the pair effect to scores divided by the factor."""
        self._V = None if self._V is None else self._V / factor**2
        self._a, self._H = self._a * factor**2, self._H * factor
        self._effect = self._effect / factor**2

    def propagate(self, precision: Tensor, settled: Tensor, fresh: bool, last: bool) -> Messages:
        W = self._a / self._denominator() if self._effect else self._a
        if fresh or len(self._to_low) != len(W):
            self._to_low = self._to_high = torch.zeros_like(W)
        if last:
            return self._last_sweep(W, precision)
        # A message far above every weight does not belong to a proper Gaussian.
        bound = FAR_ABOVE * _largest(W).to(torch.float64)
        self._to_low, self._to_high, sums, found = sweep(
            self._low, self._high, W, self._to_low, self._to_high, precision, settled, bound, self._pairs.most
        )
        moved, wrong = found.tolist()
        return Messages(to_solver(sums), float(moved), float(wrong), 0.0, np.zeros(self._n_items), np.zeros(0))

    def _last_sweep(self, W: Tensor, precision: Tensor) -> Messages:
        """Compute the variances of pairs from the current messages."""
        la = precision.index_select(0, self._low).to(self._real) + self._to_low
        lb = precision.index_select(0, self._high).to(self._real) + self._to_high
        determinant, top = la * lb - W * W, la + lb - 2.0 * W
        proper = (la > 0.0) & (lb > 0.0) & (determinant > 0.0) & (top > 0.0)
        logs = torch.where(proper, torch.log(determinant), 0.0)
        log_determinant = float(logs.sum(dtype=torch.float64))
        self._V = top / determinant
        largest = torch.maximum(_largest(self._to_low), _largest(self._to_high))
        sums = ExactSum(self._n_items, self._pairs.most, largest)
        sums.add(self._low, self._to_low)
        sums.add(self._high, self._to_high)
        wrong, degrees = float((~proper).sum()), to_solver(self._pairs.degrees)
        return Messages(to_solver(sums.total()), 0.0, wrong, log_determinant, degrees, np.zeros(0))

    def _sums(self, tau: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums of n·τ and ±n·ν over the votes on every pair."""
        rows = self._rows
        where = self._pairs.offsets, self._pairs.order, rows.sign, rows.n
        return pair_sums(*where, tau, nu, self._real, rows.ones)

    def _denominator(self) -> Tensor:
        return torch.clamp(1.0 + self._effect * self._a, min=LEAST_DENOMINATOR)

    def _variances(self) -> Tensor:
        if self._V is None:
            return torch.full((self.count,), torch.nan, dtype=self._real, device=self._a.device)
        return self._V


def _largest(values: Tensor) -> Tensor:
    return values.abs().max() if len(values) else values.new_zeros(())
