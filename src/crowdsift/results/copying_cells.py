"""Votes of one worker on one pair of items, and what the votes of others imply for that pair.

Everybody may judge a pair of items otherwise than its scores imply: then all who voted on it
are alike, and nobody has copied. So every pair of items has an effect u ~ N(0, s²) on the logit, s²
from all votes, which is estimated for two workers from the votes of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.votes.graph import for_lower, pair_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["MARGIN", "MAX_VOTES", "SLIP", "Cells", "Effects", "careful", "cells_of", "residuals"]

MARGIN = 0.1  # residuals are those of probabilities no surer than this: anybody may slip
SLIP = 0.01  # nor are the probabilities themselves surer than this
_LARGEST = 3.0  # of an effect, in logits
MAX_VOTES = 100.0  # of a cell: tables of its outcomes must not grow with weights


class Cells(NamedTuple):
    """Decided votes of one worker on one pair of items: how many, how many for the first, and p."""

    unit: NDArray[np.int64]
    worker: NDArray[np.int64]
    votes: Vector
    wins: Vector
    p: Vector


def cells_of(votes: Comparisons, p: Vector) -> Cells:
    """Return the decided votes by pair of items and worker, in the order of pairs.

    Votes beyond `MAX_VOTES` of a cell are scaled down to it, with the same share of wins.
    """
    decided = np.flatnonzero((votes.outcome == 0.0) | (votes.outcome == 1.0))
    first, second = votes.first[decided], votes.second[decided]
    y, q = (for_lower(first, second, x[decided]) for x in (votes.outcome, p))
    worker = votes.worker_codes().astype(np.int64)[decided]
    weight = votes.weight.astype(np.float64)[decided]
    pair = pair_codes(first, second, votes.n_items)[1]
    key, cell = np.unique(pair * votes.n_workers + worker, return_inverse=True)
    cell = cell.reshape(-1)
    count, wins, total = (
        np.bincount(cell, v, len(key)).astype(np.float64) for v in (weight, weight * y, weight * q)
    )
    p = total / np.maximum(count, 1e-300)
    scale = np.minimum(MAX_VOTES / np.maximum(count, 1e-300), 1.0)
    unit, who = key // votes.n_workers, key % votes.n_workers
    return Cells(unit, who, scale * count, scale * wins, p)


def careful(p: Vector) -> Vector:
    """Probabilities that are no surer than what anybody's slips allow."""
    return np.clip(p, MARGIN, 1.0 - MARGIN)


def residuals(wins: Vector, votes: Vector, p: Vector) -> Vector:
    """The sum of the residuals of a cell, each of variance 1."""
    return np.asarray((wins - votes * p) / np.sqrt(p * (1.0 - p)))


class Effects:
    """Effects of pairs of items, by the votes of all but one or two workers.

    With S = Σ(y - p) and I = Σp(1-p) over the others the estimate is s²S/(1 + s²I), its variance
    s²/(1 + s²I), one step of Newton's method. E S² = I + s²I² over all votes of a pair gives s².

    Parameters
    ----------
    cells
        The votes.
    repeated
        What the votes of a cell count as one of, for workers who hold to an opinion of their own.
    outside
        The cells that count; by default all do.

    Attributes
    ----------
    variance
        s².
    """

    def __init__(
        self, cells: Cells, repeated: Vector, outside: NDArray[np.bool_] | None = None
    ) -> None:
        self._cells = cells
        share = 1.0 / repeated if outside is None else np.where(outside, 1.0 / repeated, 0.0)
        p = careful(cells.p)
        self._residual = share * (cells.wins - cells.votes * p)
        self._weight = share * cells.votes * p * (1.0 - p)
        self._residual_sum, self._weight_sum = (
            np.bincount(cells.unit, each) for each in (self._residual, self._weight)
        )
        excess = float((self._residual_sum**2 - self._weight_sum).sum())
        self.variance = max(excess / max(float((self._weight_sum**2).sum()), 1e-300), 0.0)

    def without(self, *cells: NDArray[np.int64]) -> tuple[tuple[Vector, ...], Vector]:
        """Probabilities of cells by what others think of their pair, and the variance left.

        The cells are of one pair of items row by row; what all of them hold is left out.
        """
        unit = self._cells.unit[cells[0]]
        residual: Vector = self._residual_sum[unit].astype(np.float64)
        weight: Vector = self._weight_sum[unit].astype(np.float64)
        for at in cells:
            residual, weight = residual - self._residual[at], weight - self._weight[at]
        left = self.variance / (1.0 + self.variance * np.maximum(weight, 0.0))
        effect = np.clip(left * residual, -_LARGEST, _LARGEST)
        moved = []
        for at in cells:
            p = self._cells.p[at]
            p = sigmoid(np.log(p / (1.0 - p)) + effect)
            moved.append(np.clip(p, SLIP, 1.0 - SLIP))
        return tuple(moved), left
