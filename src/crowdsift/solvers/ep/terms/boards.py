"""Boards: rankings of the same items that learn from each other.

A board is one ranking of the items: by one context, criterion or panel of judges. Item i has on board b the score q_bi
= r_i + e_bi with common scores r ~ N(0, v I) and e_b ~ N(0, s_b I). An item on a board, a node, is an item to the
engine, and votes connect nodes of one board only, so the algebra is that of dependent votes (`GroupPrior`). With s_b =
0 all boards are one; with v = 0 they have nothing in common.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Codes, Indices, Vector
from crowdsift.solvers.ep.items import ItemsState
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.terms.base import Exclusion, Term
from crowdsift.solvers.ep.terms.dependent import GroupPrior

MAX_BOARD_ITEMS = 1_000  # most common scores: their precision is a dense matrix
MAX_BOARD_NUMBERS = 4_000_000  # most numbers in the covariances of boards
_COMPLETE = 1e-8  # s_b/v below which all boards share their scores
# Before any votes log(s_b/v) of boards is N(m, _APART²), and m has a t distribution of _FREEDOM degrees about log
# _TYPICAL: small deviations are usual, large ones are possible.
_APART, _TYPICAL, _UNKNOWN, _FREEDOM = 0.7, 0.01, 1.0, 4.0
_START = 0.3  # initial s_b/v
_BOUNDS = np.log(1e-4), np.log(1e3)
_REACH = np.log(4.0)  # largest change of log(s_b/v) in one pass
_AT_REST = 1e-3


class Boards(NamedTuple):
    """The item and board of every node; `complete` says that all boards have the same scores."""

    item: Indices
    board: Indices
    n_items: int
    complete: bool = False

    @property
    def too_large(self) -> bool:
        """Return whether the matrices of these boards would take too long."""
        numbers = float((np.bincount(self.board).astype(np.float64) ** 2).sum())
        return self.n_items > MAX_BOARD_ITEMS or numbers > MAX_BOARD_NUMBERS

    def components(self, component: Codes) -> tuple[Codes, ...]:
        """Return the connected components of nodes and of items; `component` has those that votes alone connect."""
        # Two items of a board are comparable if votes on any boards connect them.
        label = np.arange(self.n_items)
        while True:
            least = np.full(int(component.max(initial=0)) + 1, self.n_items)
            np.minimum.at(least, component, label[self.item])
            before, label = label, label.copy()
            np.minimum.at(label, self.item, least[component])
            if (before == label).all():
                break
        of_item = np.unique(label, return_inverse=True)[1].reshape(-1)
        key = self.board * self.n_items + label[self.item]
        first = np.full(int(key.max(initial=0)) + 1, len(key))
        np.minimum.at(first, key, component.astype(np.int64))
        of_node = np.unique(first[key], return_inverse=True)[1].reshape(-1)
        return of_node.astype(np.uint32), of_item.astype(np.uint32)


class PartialPooling(Term):
    """Let the score of an item differ from context to context: r_i + e_bi, e_b ~ N(0, s_b)."""

    name = "partial pooling"
    subject = "rankings that learn from each other"
    option = "--by"
    way_out = "fit every context alone: --pooling none (pooling='none')"
    adds = "r + e for every item in a context, r ~ N(0, v), e ~ N(0, s) with s by context"
    variance = "v and s, by Fisher scoring, one step per pass"
    excludes = (
        Exclusion("features", "Contexts need the plain prior of scores."),
        Exclusion("covariates", "The joint Gaussian with coefficients has no contexts yet."),
    )

    def switched_off(self, settings: Settings) -> Settings:
        """Return settings in which contexts share nothing."""
        return replace(settings, boards=None)

    def attempt(self, run: Propagation) -> Propagation:
        """Return the run unchanged: it has its boards from the first pass on, and learns their variances."""
        return run


class BoardPrior(GroupPrior):
    """The prior of items on boards; v and s_b are learned during the run.

    Only ratios matter: the mean of v + s_b over nodes is held at 1, and the scale of scores is that of their prior.
    log(s_b/v) of boards scatter about their mean, so that a board with few votes has the usual deviation.
    """

    def __init__(self, boards: Boards) -> None:
        super().__init__(boards.item, boards.board, boards.n_items)
        self._fixed = boards.complete
        self._set(np.full(len(self.deviations), np.log(_COMPLETE if self._fixed else _START)))

    def learn(self, run: ItemsState) -> None:
        """Take a step of Fisher scoring in all x_b = log(s_b/v)."""
        # With v + s̄ held at 1, log v falls by w_b s_b for a rise of x_b, w_b the share of nodes.
        if self._fixed:
            return
        v, s = self.common, self.deviations
        x, inner = np.log(s / v), self.covariance / v
        size = float(self.item_means @ self.item_means) / v + float(np.trace(inner))
        lost = np.bincount(self.group, minlength=len(s)) / self.n_items * s
        own, bend = s * self.slopes, s**2 * self.information
        slope = own - lost * (0.5 * (size - self.count) + own.sum())
        of_common = 0.5 * float(((np.eye(self.count) - inner) ** 2).sum())
        step = _scoring_step(x, slope, bend, lost, of_common)
        self.at_rest = bool(np.abs(step).max() < _AT_REST)
        self._set(np.clip(x + np.clip(step, -_REACH, _REACH), *_BOUNDS))

    def _set(self, x: Vector) -> None:
        ratio = np.exp(x)
        self.common = 1.0 / (1.0 + float(ratio[self.group].mean()))
        self.deviations = self.common * ratio

    def drift(self, run: ItemsState) -> float:
        """Return the root mean square of the posterior of nodes: the same as without boards."""
        total = float(self._means @ self._means)
        total += sum(float(np.einsum("gii->", each.covariance)) for each in self._blocks)
        return float(max(total / self.n_items, 0.25) ** 0.5)

    def rescale(self, scale: float) -> None:
        """Do nothing: variances are relative to the scale."""


def _scoring_step(x: Vector, slope: Vector, bend: Vector, lost: Vector, of_common: float) -> Vector:
    """Return the step in all x_b under their prior; `lost` is the decrease of log v per unit of each."""
    # The information on x combines `bend`, that on log s_b, with `of_common`, that on log v, and with the information
    # of the prior, which is diagonal but for three vectors (Woodbury).
    n, mean = len(x), float(x.mean())
    away = mean - float(np.log(_TYPICAL))
    pull = (_FREEDOM + 1.0) / (_FREEDOM * _UNKNOWN**2 + away**2)
    slope = slope - (x - mean) / _APART**2 - pull * away / n
    diagonal = bend + 1.0 / _APART**2
    U = np.stack([bend, lost, np.ones(n)], axis=1)
    K = np.array(
        [[0.0, -1.0, 0.0], [-1.0, float(bend.sum()) + of_common, 0.0], [0.0, 0.0, pull / n**2 - 1.0 / (n * _APART**2)]]
    )
    scaled = U / diagonal[:, None]
    inner = np.linalg.solve(np.eye(3) + K @ (U.T @ scaled), K @ (scaled.T @ slope))
    return np.asarray(slope / diagonal - scaled @ inner)
