"""What a fit implies of each vote: probability that it is right, margin, soft label, weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.io.item_values import match_labels
from crowdsift.numeric.likelihoods import PROBIT_SMOOTHING, sigmoid
from crowdsift.results.compared import Pairs, better
from crowdsift.results.predict import item_codes
from crowdsift.results.query import positions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.fitting import Fit
    from crowdsift.io.ingest import CodedVotes

__all__ = ["VoteLabels", "vote_labels"]

_BLOCK = 1 << 20  # rows at a time


class VoteLabels(NamedTuple):
    """Of every vote, for the item that is more probably better over the other.

    `against` says where the vote prefers the second item, `turned` where it prefers the one that
    is less probably better, `surer` how probable the other is.
    """

    surer: NDArray[np.float64]
    margin: NDArray[np.float64]
    soft_label: NDArray[np.float64]
    weight: NDArray[np.float64]
    against: NDArray[np.bool_]
    turned: NDArray[np.bool_]

    def speaking_for(self, flipped: NDArray[np.bool_]) -> dict[str, NDArray[np.float64]]:
        """The columns for the item that the vote prefers, or where it is flipped the other."""
        other = self.turned & ~flipped
        return {
            "probability": np.where(other, 1.0 - self.surer, self.surer),
            "margin": np.where(other, -self.margin, self.margin),
            "soft_label": np.where(other, 1.0 - self.soft_label, self.soft_label),
            "weight": self.weight,
        }


def vote_labels(coded: CodedVotes, found: Fit) -> VoteLabels:
    """Probability, margin, soft label and weight of votes, row by row."""
    place, code = _rows_of(coded, found), item_codes(found)
    score = np.asarray(found.item_table["score"], np.float64)
    typical, worth = _vote_worth(coded, found)
    rough = _rough_variance(coded, score[place], typical)
    rows = len(coded.first)
    surer, margin, soft, weight = (np.empty(rows) for _ in range(4))
    against = np.zeros(rows, bool) if coded.outcome is None else coded.outcome < 0.5
    turned = np.empty(rows, bool)
    for begin in range(0, rows, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        one, two = (codes[part].astype(np.int64) for codes in (coded.first, coded.second))
        one, two = np.where(against[part], two, one), np.where(against[part], one, two)
        first, second, unsure = place[one], place[two], rough[one] + rough[two]
        gap = score[first] - score[second]
        sd = np.maximum(_difference_sd(found, code[first], code[second], unsure), 1e-12)
        flat = 1.0 / np.sqrt(1.0 + PROBIT_SMOOTHING * (typical * sd) ** 2)
        chance = better(found, code, Pairs(first, second, gap, sd))
        turned[part], surer[part] = chance < 0.5, np.maximum(chance, 1.0 - chance)
        ahead = np.where(turned[part], -gap, gap)  # of the more probable one; may be below 0
        margin[part] = np.where(surer[part] > 0.5, np.maximum(ahead, 0.0), 0.0)
        soft[part] = sigmoid(flat * typical * np.maximum(ahead, 0.0))
        own = np.ones(len(one)) if coded.worker is None else worth[coded.worker[part]]
        weight[part] = own if coded.weight is None else own * coded.weight[part]
    return VoteLabels(surer, margin, soft, weight, against, turned)


def _rows_of(coded: CodedVotes, found: Fit) -> NDArray[np.int64]:
    """The row in the table of items for every code of the votes."""
    place = positions(list(coded.items), found.labels, missing=-1)
    if (place < 0).any():
        missing = coded.items[place < 0]
        raise RequestError(
            f"{len(missing):,} items of the votes are not in the fit, for example {missing[0]!r}; "
            "give the votes that were fitted, or update the fit first"
        )
    return place


def _difference_sd(
    found: Fit,
    one: NDArray[np.int64],
    two: NDArray[np.int64],
    rough: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Standard deviations of differences, by codes of the posterior; else rough ones."""
    sd = np.sqrt(rough)
    exact = None if found.posterior is None else found.posterior.difference_sd(one, two)
    return sd if exact is None else np.where(np.isfinite(exact), exact, sd)


def _rough_variance(
    coded: CodedVotes, score: NDArray[np.float64], slope: float
) -> NDArray[np.float64]:
    """Variances of scores from the information of their own votes, the others held fixed.

    For methods that give no intervals in large components.
    """
    first, second = coded.first.astype(np.int64), coded.second.astype(np.int64)
    p = sigmoid(slope * (score[first] - score[second]))
    weight = np.ones(len(first)) if coded.weight is None else coded.weight.astype(np.float64)
    result = weight * slope**2 * p * (1.0 - p)
    count = len(coded.items)
    total = np.bincount(first, result, count) + np.bincount(second, result, count)
    return np.asarray(1.0 / np.maximum(total, 1e-2))


def _vote_worth(coded: CodedVotes, found: Fit) -> tuple[float, NDArray[np.float64]]:
    """The reliability of a typical reliable worker, and what a vote of every worker is worth.

    Typical is the median of those whose interval is above 0. A vote of a worker whose β
    has a posterior carries the information (E β)²/4 about a close pair: near 0 for one who clicks
    at random, and as much for one who reliably answers the opposite.
    """
    table = found.worker_table
    reliability = table["reliability"].astype(np.float64)
    if coded.worker is None or not np.isfinite(reliability).any():
        return 1.0, np.ones(len(coded.workers))
    trusted = reliability[table["lower"].astype(np.float64) > 0.0]
    if not len(trusted):
        trusted = reliability[reliability > 0.0]
    typical = float(np.median(trusted)) if len(trusted) else 0.0
    worth = (reliability / typical) ** 2 if typical > 0.0 else np.zeros(len(reliability))
    place = match_labels(list(coded.workers), table["worker"].tolist())
    return typical, np.where(place >= 0, worth[place], 0.0)
