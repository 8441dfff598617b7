"""Votes that come a second time: a file that was taken already, or one that holds the old votes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.io.item_values import match_labels

if TYPE_CHECKING:
    from crowdsift.results.data import FitData
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["fingerprint", "refuse_repeated", "taken_by"]

_FEWEST = 20  # earlier rows from which on a repetition is no chance
_SAME = 0.5  # of the earlier rows that would not come again by chance
_CHANCE = 0.5  # of the earlier rows: where more come again by chance, nothing is noticed


def fingerprint(votes: Comparisons) -> str:
    """Equal for equal votes, whatever file or order they came in.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.results.overlap import fingerprint
    >>> one, two = (Comparisons.from_arrays(x, y) for x, y in ((["a"], ["b"]), (["b"], ["a"])))
    >>> fingerprint(one) == fingerprint(one), fingerprint(one) == fingerprint(two)
    (True, False)
    """
    result = hashlib.sha256()
    for labels in (votes.items, votes.workers):
        result.update("\0".join(map(repr, labels.tolist())).encode("utf-8", "surrogatepass"))
    for column in (votes.first, votes.second, votes.outcome, votes.weight, votes.offsets):
        result.update(np.ascontiguousarray(column).data)
    return result.hexdigest()[:32]


def taken_by(fit: FitData) -> tuple[str, ...]:
    """Fingerprints of the votes that a fit was made of, one a file or update."""
    return fit.taken or (() if fit.votes is None else (fingerprint(fit.votes),))


def refuse_repeated(earlier: FitData, new: Comparisons) -> None:
    """Refuse votes that were taken already, and votes among which are most of the old ones."""
    if fingerprint(new) in taken_by(earlier):
        raise RequestError(
            f"{new.source}: these {new.total_weight:,g} votes were taken already; give new votes "
            "only (again=True, --again takes them once more)"
        )
    old = earlier.votes
    if old is None or len(old) < _FEWEST or len(new) < len(old) * _SAME:
        return
    chance = _share_by_chance(old, new)
    if chance > _CHANCE:
        return
    same = int(np.isin(_keys(old, old), _keys(new, old)).sum())
    if same >= len(old) * (chance + _SAME * (1.0 - chance)):
        raise RequestError(
            f"{new.source}: {same:,} of the {len(old):,} earlier rows are in it again; give new "
            "votes only, or fit the whole file with start= (--start). again=True (--again) takes "
            "them once more"
        )


def _share_by_chance(old: Comparisons, new: Comparisons) -> float:
    """Of the earlier rows, how many other votes would hold too.

    Two judges and a few models give the same row over and over. Among W votes, w of a row, two
    are equal with probability about q = Σ w(w - 1)/W²; V others hold a row with 1 - exp(-qV).
    """
    weight = old.weight.astype(np.float64)
    equal = float(weight @ np.maximum(weight - 1.0, 0.0)) / max(weight.sum() ** 2, 1.0)
    return float(-np.expm1(-equal * new.total_weight))


def _keys(votes: Comparisons, old: Comparisons) -> np.ndarray:
    """Rows as numbers, by the labels of the old votes; rows with others are -1."""
    item = match_labels(votes.items.tolist(), old.items.tolist())
    worker = match_labels(votes.workers.tolist(), old.workers.tolist())
    one, two, who = item[votes.first], item[votes.second], worker[votes.worker_codes()]
    outcome = np.round(votes.outcome * 1000).astype(np.int64)
    if not (votes.sides_known and old.sides_known):  # which item comes first says nothing
        turned = one > two
        one, two = np.where(turned, two, one), np.where(turned, one, two)
        outcome = np.where(turned, 1000 - outcome, outcome)
    key = ((who * old.n_items + one) * old.n_items + two) * 1001 + outcome
    return np.where((one < 0) | (two < 0) | (who < 0), -1, key)
