"""Side biases of a worker that differ from context to context.

γ of a worker in a context ("leaf") is N(η, w), η of the worker N(g0, t²), all Gaussian. With a and
h the sums of the sites of a leaf and D = 1 + w·a, the message of a leaf to its worker is
exp(-Aη²/2 + Hη), A = a/D and H = h/D, times exp(½(w·h²/D - log D)). No formula divides by w or t²,
so both may be 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import SidePrior
from crowdsift.numeric.random_effects import best_variance, log_mean, within_reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["SideTree"]

_START = 0.1  # of w


class SideTree:
    """Side biases of workers, and of each worker in each of its contexts.

    After `gather`, `tau` and `nu` are the sums of the messages that a worker receives, `mean` and
    `variance` those of η, `leaf_mean` and `leaf_variance` those of γ of a leaf given all others.
    """

    def __init__(self, whole: NDArray[np.int64], n_workers: int) -> None:
        self._whole, self._n = whole, n_workers
        self.spread = _START  # w
        self._a = self._h = np.zeros(len(whole))
        self.start(SidePrior())

    def start(self, side: SidePrior) -> None:
        """Before any votes."""
        leaves = len(self._whole)
        self.leaf_mean = np.full(leaves, side.mean)
        self.leaf_variance = np.full(leaves, side.variance + self.spread)
        self.bonus = self.tau = self.nu = np.zeros(self._n)
        self._share = np.ones(leaves)  # of g0 in the mean of a leaf
        self._side = side

    def gather(self, a: Vector, h: Vector, side: SidePrior) -> None:
        """From the sums a and h of the sites of every leaf.

        `bonus` is what the evidence of leaves, each by itself, lacks of that of their worker.
        """
        whole, w, t2 = self._whole, self.spread, side.variance
        self._a, self._h, self._side = a, h, side
        D = 1.0 + w * a
        A, H = a / D, h / D
        self.tau, self.nu = self._to_workers(A), self._to_workers(H)
        rest, others = np.maximum(self.tau[whole] - A, 0.0), self.nu[whole] - H
        without = 1.0 + t2 * rest
        centre, width = (side.mean + t2 * others) / without, t2 / without
        self.leaf_mean, self.leaf_variance, self._share = centre, width + w, 1.0 / without
        total = log_mean(self.nu, self.tau, side.mean, t2)
        self.bonus = total - self._to_workers(log_mean(H, A, centre, width))

    def leaf_posteriors(self, mean_variance: float) -> tuple[Vector, Vector]:
        """Mean and variance of γ of every leaf, that of g0 being `mean_variance`."""
        D = 1.0 + self.leaf_variance * self._a
        mean = (self.leaf_mean + self.leaf_variance * self._h) / D
        return mean, self.leaf_variance / D + mean_variance * (self._share / D) ** 2

    def learn(self, regular: Vector) -> None:
        """W of the largest evidence given g0 and t², from workers as far as they are regular."""
        held = regular[self._whole]
        found = best_variance(lambda w: self.slope(held, w), self.spread)
        self.spread = within_reach(found, self.spread)

    def gain(self, regular: Vector) -> float:
        """The largest evidence over w less that of w = 0."""
        held = regular[self._whole]
        best = best_variance(lambda w: self.slope(held, w), self.spread)
        return self.evidence(regular, best) - self.evidence(regular, 0.0)

    def slope(self, weight: Vector, w: float) -> float:
        """The derivative in w of the evidence, weighted by leaf, with the prior of w.

        That of a leaf given η is ½[((h - aη)/D)² - a/D], which is averaged over the posterior
        N(G, V) of η; the standard deviation √w is half normal of scale 1, as that of workers is.
        """
        a, h, side = self._a, self._h, self._side
        D = 1.0 + w * a
        tau, nu = self._to_workers(a / D), self._to_workers(h / D)
        own = 1.0 + side.variance * tau
        G, V = (side.mean + side.variance * nu) / own, side.variance / own
        left = (h - a * G[self._whole]) / D
        each = left**2 + (a / D) ** 2 * V[self._whole] - a / D
        return 0.5 * (float(weight @ each) - 1.0)

    def evidence(self, weight: Vector, w: float) -> float:
        """Of the sites of all leaves, weighted by worker, with the prior of w."""
        D = 1.0 + w * self._a
        leaves = self._to_workers(0.5 * (w * self._h**2 / D - np.log(D)))
        tau, nu = self._to_workers(self._a / D), self._to_workers(self._h / D)
        total = leaves + log_mean(nu, tau, self._side.mean, self._side.variance)
        return float(weight @ total) - 0.5 * w

    def _to_workers(self, values: Vector) -> Vector:
        return np.bincount(self._whole, values, self._n).astype(np.float64)
