"""Votes that come a second time: a file that was taken already, or one that holds the old votes."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.votes.labels import match_labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdsift.results.data import FitData
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["again_notes", "fingerprint", "refuse_repeated", "taken_by"]

_FEWEST = 20  # rows that come again are a file that was taken already
_SAME = 0.5  # the share of rows that come again, beyond chance, from which on votes are refused
_CLEARLY = 3.0  # standard deviations beyond chance


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
    """Refuse votes that the fit has already: the same file, rows that are named, or most rows."""
    old = earlier.votes
    if fingerprint(new) in taken_by(earlier):
        raise RequestError(
            f"{new.source}: these {new.total_weight:,g} votes were taken already; give new votes "
            "only (again=True, --again takes them once more)"
        )
    if old is None:
        return
    if old.row_ids is not None and new.row_ids is not None:
        if same := int(np.isin(new.row_ids, old.row_ids).sum()):
            raise RequestError(
                f"{new.source}: {same:,} of the {len(new.row_ids):,} rows are in the fit already, "
                "by what names a row; give update the file or the frame itself, which leaves them "
                "out, or again=True to take them once more"
            )
        return
    same, chance = _repeated(old, new)
    fewest = min(len(old), len(new))
    if same >= _FEWEST and same - chance >= _SAME * max(fewest - chance, 0.0) and chance < same / 2:
        raise RequestError(
            f"{new.source}: {same:,} of its {len(new):,} rows are equal to earlier rows in worker, "
            "items and answer; give new votes only, or fit the whole file with start= (--start). "
            "again=True (--again) takes them once more"
        )


def again_notes(old: Comparisons, new: Comparisons) -> Iterator[str]:
    """Yield a warning if more rows come again than chance explains."""
    if old.row_ids is not None and new.row_ids is not None:
        return
    same, chance = _repeated(old, new)
    if same > chance + _CLEARLY * (1.0 + np.sqrt(chance)):
        yield (
            f"{same:,} of the {len(new):,} new rows are equal to earlier ones in worker, items and "
            f"answer, about {chance:,.0f} by chance: if these are the same votes they are counted "
            "twice. A column that names a row (--unique, unique=) tells them apart"
        )


def _repeated(old: Comparisons, new: Comparisons) -> tuple[int, float]:
    """Return how many new rows are among the old ones, and how many would be by chance.

    Two judges and a few models give the same row over and over. Among W votes, w of a row, two
    are equal with probability about q = Σ w(w - 1)/W²; a further row is among them with
    1 - exp(-qW).
    """
    weight = old.weight.astype(np.float64)
    total = max(float(weight.sum()), 1.0)
    equal = float(weight @ np.maximum(weight - 1.0, 0.0)) / total**2
    same = int(np.isin(_keys(new, old), _keys(old, old)).sum())
    return same, float(-np.expm1(-equal * total)) * len(new)


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
