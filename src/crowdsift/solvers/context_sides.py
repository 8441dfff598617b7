"""Side habits of a worker that differ from context to context.

γ of a worker in a context ("leaf") is N(η, w), η of the worker N(g0, t²), all Gaussian: with a and
h the sums of the sites of a leaf and D = 1 + w·a, a leaf tells its worker a/D and h/D.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import SidePrior
from crowdsift.numeric.extrapolation import Aitken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["SideTree"]

_LEAST, _MOST = 1e-4, 4.0
_PRIOR = 0.02  # of one worker in one context, before any votes


class SideTree:
    """Side habits of workers, and of each worker in each of its contexts.

    After `gather`, `mean` and `variance` are those of η, `leaf_mean` and `leaf_variance` what the
    worker, but for this leaf, says of γ there.
    """

    def __init__(self, whole: NDArray[np.int64], n_workers: int) -> None:
        self._whole, self._n = whole, n_workers
        self._tells = (np.bincount(whole, minlength=n_workers) > 1)[whole]
        self.spread, self._acceleration = 0.1, Aitken()  # w
        self.start(SidePrior())

    def start(self, side: SidePrior) -> None:
        """Before any votes."""
        self.mean, self.variance = np.full(self._n, side.mean), np.full(self._n, side.variance)
        leaves = len(self._whole)
        self.leaf_mean = np.full(leaves, side.mean)
        self.leaf_variance = np.full(leaves, side.variance + self.spread)
        self.bonus = self.tau = self.nu = np.zeros(self._n)

    def gather(self, a: Vector, h: Vector, side: SidePrior) -> None:
        """From the sums a and h of the sites of every leaf.

        `bonus` is what the evidence of leaves, each by itself, lacks of that of their worker.
        """
        whole, w = self._whole, self.spread
        D = 1.0 + w * a
        A, H = a / D, h / D
        sums = [np.bincount(whole, x, self._n).astype(np.float64) for x in (A, H)]
        self.tau, self.nu = sums
        precision, pull = 1.0 / side.variance + sums[0], side.mean / side.variance + sums[1]
        self.mean, self.variance = pull / precision, 1.0 / precision
        rest = precision[whole] - A
        centre, width = (pull[whole] - H) / rest, 1.0 / rest
        self.leaf_mean, self.leaf_variance = centre, width + w
        total = _log_mean(side.mean, side.variance, *sums)
        self.bonus = total - np.bincount(whole, _log_mean(centre, width, A, H), self._n)
        G, V = self.mean[whole], self.variance[whole]
        self._square = (w * (h - a * G) / D) ** 2 + w / D + (w * a / D) ** 2 * V  # of γ - η

    def learn(self, regular: Vector) -> None:
        """A step of EM for w, from workers seen in more than one context, if they are regular."""
        held = regular[self._whole] * self._tells
        found = (float(held @ self._square) + _PRIOR) / (float(held.sum()) + 1.0)
        self.spread = float(np.clip(self._acceleration.propose(self.spread, found), _LEAST, _MOST))


def _log_mean(mean: Vector | float, variance: Vector | float, A: Vector, H: Vector) -> Vector:
    """The logarithm of the mean of exp(-A x²/2 + H x) for x ~ N(mean, variance)."""
    pull = mean / variance + H
    return np.asarray(
        0.5 * (pull**2 / (1.0 / variance + A) - mean**2 / variance - np.log(1.0 + A * variance))
    )
