"""Whether workers, or the crowd, become better or worse with time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.numeric.distributions import half_width
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.influence import worker_slopes
from crowdsift.results.query import positions
from crowdsift.results.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.data import FitData
    from crowdsift.results.rows import VoteRows

__all__ = ["Drift", "drift"]

_SURE = 0.95  # that no worker is named by chance
_FEWEST = 10  # decided votes of a worker


class Drift(NamedTuple):
    """Change of reliability from the first votes to the last.

    Attributes
    ----------
    crowd_change, crowd_z
        Relative change of everybody's slope, and its standard score.
    workers
        worker, early and late (logits a unit of score in the first and the second half of the
        time), z, and drifts: whether z is too large to be chance for any worker.
    """

    crowd_change: float
    crowd_z: float
    workers: Table

    @property
    def drifting(self) -> list[Any]:
        """The workers who drift, the surest first."""
        chosen = np.flatnonzero(self.workers["drifts"])
        order = chosen[np.argsort(-np.abs(self.workers["z"][chosen]), kind="stable")]
        return list(self.workers["worker"][order].tolist())

    def to_json(self) -> dict[str, Any]:
        """The figures, as `summary.json` holds them.

        Examples
        --------
        >>> import numpy as np
        >>> from crowdsift.results.drift import Drift
        >>> from crowdsift.results.tables import Table
        >>> none = {"worker": np.empty(0), "z": np.empty(0), "drifts": np.empty(0, bool)}
        >>> Drift(0.1, 1.2, Table(none)).to_json()
        {'crowd_change': 0.1, 'crowd_z': 1.2, 'workers': []}
        """
        named = [str(label) for label in self.drifting]
        return {"crowd_change": self.crowd_change, "crowd_z": self.crowd_z, "workers": named}


def drift(fit: FitData, rows: VoteRows) -> Drift:
    """Test whether slopes change with time, by efficient scores.

    With τ from -1 (the first vote) to 1 (the last one) in the order of time, a worker votes with
    probability σ((b + δτ)d). Without drift U = Σ(y-p)τd has mean 0 and, b being estimated too, the
    variance ΣWτ²d² - (ΣWτd²)²/ΣWd², W = p(1-p); δ is U over this. For the crowd bτd stands for τd.
    """
    votes = fit.votes
    if votes is None or rows.time is None:
        raise RequestError("drift needs the votes and a column of times")
    row = positions(votes.items, fit.labels)
    score = fit.item_table["score"].astype(np.float64)[row]
    slopes = worker_slopes(fit, votes)
    decided = (rows.outcome == 0.0) | (rows.outcome == 1.0)
    order = np.unique(rows.time, return_inverse=True)[1].reshape(-1)
    tau = 2.0 * order / max(int(order.max()), 1) - 1.0
    gap = score[rows.first] - score[rows.second]
    p = sigmoid(slopes[rows.worker] * gap)
    residual = rows.outcome - p
    weight = np.where(decided, rows.weight, 0.0)
    information = weight * p * (1.0 - p)
    count = votes.n_workers
    change, spread = _efficient(rows.worker, count, residual * weight, information, gap, tau)
    held = np.bincount(rows.worker, weight, count)
    z = np.where(spread > 0.0, change * np.sqrt(np.maximum(spread, 0.0)), 0.0)
    enough = (held >= _FEWEST) & (spread > 0.0)
    bound = half_width(1.0 - (1.0 - _SURE) / max(int(enough.sum()), 1))
    own = slopes[rows.worker] * gap
    everybody = np.zeros(len(own), np.int64)
    shift, total = _efficient(everybody, 1, residual * weight, information, own, tau)
    shown = votes.n_workers if votes.has_workers else 0
    return Drift(
        float(shift[0]) * 2.0,
        float(shift[0] * np.sqrt(max(total[0], 0.0))),
        Table(
            {
                "worker": votes.workers[:shown],
                "early": np.where(enough, slopes - 0.5 * change, np.nan)[:shown],
                "late": np.where(enough, slopes + 0.5 * change, np.nan)[:shown],
                "z": np.where(enough, z, np.nan)[:shown],
                "drifts": (enough & (np.abs(z) > bound))[:shown],
            }
        ),
    )


def _efficient(
    unit: NDArray[np.int64], count: int, residual: Vector, information: Vector, gap: Vector,
    tau: Vector,
) -> tuple[Vector, Vector]:  # fmt: skip
    """δ and its information in every unit, the slope being unknown, too."""

    def total(values: Vector) -> Vector:
        return np.asarray(np.bincount(unit, values, count), np.float64)

    slope, both = total(information * gap**2), total(information * tau * gap**2)
    share = np.divide(both, slope, out=np.zeros(count), where=slope > 0.0)
    left = np.maximum(total(information * (tau * gap) ** 2) - share * both, 0.0)
    score = total(residual * tau * gap) - share * total(residual * gap)
    return np.divide(score, left, out=np.zeros(count), where=left > 1e-12), left
