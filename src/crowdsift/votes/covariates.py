"""Covariates of votes in the form that a model uses: scaled, the side first, and their parts by item."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Mask, Vector
from crowdsift.votes.comparisons import Comparisons

SIDE = "side"
_CONSTANT = 1e-6  # unexplained share of a covariate's square below which it counts as constant per item


@dataclass(frozen=True)
class Design:
    """The covariates of votes: `votes` has them as features, of unit mean square.

    `votes` have the columns of the design as features, 0 for gold. `names` and `scale` are the name of every column and
    its root mean square, 1 for the side. `item_values` (items x columns) are x̄, the covariates of single items in the
    column's unit: the numbers whose differences are closest to the covariates of votes, about their mean in every
    component. `by_items` says whether they explain a column completely, so its mean over workers cannot be separated
    from scores.
    """

    votes: Comparisons
    names: tuple[str, ...]
    scale: Vector
    item_values: Vector
    by_items: Mask

    def without(self, column: int) -> Design:
        kept = np.arange(len(self.names)) != column
        names = tuple(name for name, keep in zip(self.names, kept, strict=True) if keep)
        assert self.votes.features is not None
        return Design(
            self.votes.with_features(self.votes.features[:, kept], names),
            names,
            self.scale[kept],
            self.item_values[:, kept],
            self.by_items[kept],
        )


def design(votes: Comparisons, component: NDArray[np.integer], *, side: bool) -> tuple[Design, tuple[str, ...]]:
    """Return the design of these votes, and the names of covariates that are 0 everywhere."""
    given = votes.features
    x = np.zeros((len(votes), 0)) if given is None else given.astype(np.float64)
    weight = votes.weight.astype(np.float64)
    total = float(weight.sum())
    scale = np.sqrt(weight @ x**2 / total)
    some = scale > 0.0
    nothing = tuple(n for n, keep in zip(votes.feature_names, some, strict=True) if not keep)
    names = tuple(n for n, keep in zip(votes.feature_names, some, strict=True) if keep)
    x, scale = x[:, some], scale[some]
    values, left = _by_items(votes, np.asarray(component), weight, x)
    by_items = left <= _CONSTANT * total * scale**2
    if side:
        place = np.ones((len(votes), 1))
        if votes.n_gold:  # contains no information about sides
            place[votes.offsets[-1 - votes.n_gold] :] = 0.0
        x, scale = np.hstack([place, x]), np.append(1.0, scale)
        values = np.hstack([np.zeros((votes.n_items, 1)), values])
        names, by_items = (SIDE, *names), np.append(False, by_items)
    with_all = votes.with_features((x / scale).astype(np.float32), names)
    return Design(with_all, names, scale, values, by_items), nothing


def _by_items(votes: Comparisons, component: NDArray[np.integer], weight: Vector, x: Vector) -> tuple[Vector, Vector]:
    """Fit x by differences of one number per item, by least squares; return these numbers and Σ n·residual²."""
    n, one, two = votes.n_items, votes.first.astype(np.int64), votes.second.astype(np.int64)
    L = np.zeros((n, n))
    for a, b, sign in ((one, one, 1), (two, two, 1), (one, two, -1), (two, one, -1)):
        np.add.at(L, (a, b), sign * weight)
    # The level of a component is not determined: adding 1 between its items makes it 0 on average.
    L += (component[:, None] == component).astype(np.float64)
    rhs = np.zeros((n, x.shape[1]))
    np.add.at(rhs, one, weight[:, None] * x)
    np.subtract.at(rhs, two, weight[:, None] * x)
    alone = np.diag(L) == 0.0
    L[alone, alone] = 1.0
    values = np.linalg.solve(L, rhs)
    residual = x - values[one] + values[two]
    return np.asarray(values, np.float64), np.asarray(weight @ residual**2, np.float64)
