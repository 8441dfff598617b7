"""The pairs of items that votes compare: their weights, posteriors and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import LEAST_DENOMINATOR, Messages, PairPosteriors, SiteSystem
from reference_engine.building_blocks import laplacian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.shards import SharedPairs
    from crowdsift.numeric import Vector


class PairTable:
    """Every pair with a = Σ n·τ, H = Σ ±n·ν, D = 1 + s·a and V, and its messages M to both ends.

    A pair that other shards have, too, has the sums of all of them; the shard that does not own it leaves its Laplacian
    and its messages to the owner.
    """

    def __init__(
        self,
        winner: NDArray[np.uint32],
        loser: NDArray[np.uint32],
        n: Vector,
        n_items: int,
        shared: SharedPairs | None,
        variance: float,
    ) -> None:
        ends = np.sort(np.stack([winner, loser], axis=1), axis=1)
        pairs, pair = np.unique(ends, axis=0, return_inverse=True)
        self.low, self.high = (np.ascontiguousarray(x) for x in pairs.T)
        self.pair, self.sign = pair.ravel(), np.where(winner < loser, 1.0, -1.0)
        self._n, self._n_items = n, n_items
        count = len(self.low)
        self._owned, self._place = np.ones(count, bool), np.empty(0, np.int64)
        if shared is not None:
            key = self.low.astype(np.int64) * n_items + self.high
            wanted = shared.low.astype(np.int64) * n_items + shared.high
            self._place = np.searchsorted(key, wanted)
            self._owned[self._place] = shared.owner
        self.n_owned = int(self._owned.sum())
        self._V, self._effect = np.full(count, variance), 0.0
        self._a, self._H, self._D = np.zeros(count), np.zeros(count), np.ones(count)
        self.forget()

    def forget(self) -> None:
        """No messages."""
        self._to_low, self._to_high = np.zeros((2, len(self.low)))

    def shared_sums(self, tau: Vector, nu: Vector) -> Vector:
        """Sums over this shard's votes on shared pairs."""
        return np.stack(self._sums(tau, nu), axis=1)[self._place]

    def system(self, tau: Vector, nu: Vector, shared: Vector, pair_effect: float) -> SiteSystem:
        """What items receive; see the protocol."""
        a, H = self._sums(tau, nu)
        a[self._place], H[self._place] = shared.T
        self._a, self._H, self._effect = a, H, pair_effect
        self._D = D = np.maximum(1.0 + pair_effect * a, LEAST_DENOMINATOR)
        owned = self._owned.astype(np.float64)
        rhs = np.zeros(self._n_items)
        np.add.at(rhs, self.low, owned * H / D)
        np.subtract.at(rhs, self.high, owned * H / D)
        log_pairs = 0.5 * float(owned @ (pair_effect * H**2 / D - np.log(D)))
        return SiteSystem(laplacian(self._n_items, self.low, self.high, owned * a / D), rhs, log_pairs)

    def posteriors(self, means: Vector) -> tuple[Vector, Vector]:
        """E and V of every vote's pair, winner less loser."""
        found = self.pair_posteriors(means)
        return self.sign * found.mean[self.pair], found.variance[self.pair]

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """E and V of every pair; see the protocol."""
        s, a, H, D = self._effect, self._a, self._H, self._D
        E = (means[self.low] - means[self.high] + s * H) / D
        V = self._V / D**2 + s / D
        slope = 0.5 * float(self._owned @ ((H - a * E) ** 2 + a**2 * V - a))
        information = 0.5 * float(self._owned @ (a - a**2 * V) ** 2)
        return PairPosteriors(self.low, self.high, E, V, slope, information)

    def set_variances(self, variances: Vector | None, shared: Vector | None) -> None:
        """V of all pairs, or of shared ones."""
        self._V = self._V.copy() if variances is None else np.array(variances, np.float64)
        if shared is not None:
            self._V[self._place] = shared

    def rescale(self, factor: float) -> None:
        """V and the pair effect for scores divided by the factor."""
        self._V, self._effect = self._V / factor**2, self._effect / factor**2
        self._a, self._H = self._a * factor**2, self._H * factor

    def propagate(self, precision: Vector, settled: Vector, last: bool) -> Messages:
        """A sweep of belief propagation; see the protocol."""
        own, low, high = self._owned, self.low[self._owned], self.high[self._owned]
        W = (self._a / self._D)[own]
        M_low, M_high = self._to_low[own], self._to_high[own]
        la, lb = precision[low] + M_low, precision[high] + M_high
        proper = (la > 0.0) & (lb > 0.0)
        sums, degrees = np.zeros(self._n_items), np.zeros(self._n_items)
        shared = np.zeros(len(self._place))
        log_determinant, unsettled = 0.0, 0
        if last:
            determinant, top = la * lb - W**2, la + lb - 2.0 * W
            proper = proper & (determinant > 0.0) & (top > 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                V = self._V.copy()
                V[own] = top / determinant
                log_determinant = float(np.log(determinant[proper]).sum())
            self._V = V
            shared = np.where(own[self._place], V[self._place], 0.0)
            for ends in (low, high):
                np.add.at(degrees, ends, 1.0)
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                new_low, new_high = W**2 / lb, W**2 / la
            moves = (np.abs(new_low - M_low) > settled[low], np.abs(new_high - M_high) > settled[high])
            unsettled = int(moves[0].sum() + moves[1].sum())
            self._to_low, self._to_high = np.zeros((2, len(own)))
            self._to_low[own], self._to_high[own] = new_low, new_high
        np.add.at(sums, low, self._to_low[own])
        np.add.at(sums, high, self._to_high[own])
        improper = int((~proper).sum())
        return Messages(sums, unsettled, improper, log_determinant, degrees, shared)

    def _sums(self, tau: Vector, nu: Vector) -> tuple[Vector, Vector]:
        count = len(self.low)
        return (
            np.bincount(self.pair, self._n * tau, count).astype(np.float64),
            np.bincount(self.pair, self.sign * self._n * nu, count).astype(np.float64),
        )
