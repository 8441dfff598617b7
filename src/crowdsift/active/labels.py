"""Items and workers that may have no votes yet, sorted among those that have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.labels import key_of, merge, plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["sorted_labels", "widened"]


def widened(
    votes: Comparisons | None, items: Iterable[Any], workers: Iterable[Any]
) -> Comparisons | None:
    """The votes with further items and workers, which have no votes."""
    items, workers = list(items), list(workers)
    if votes is None or not (items or workers):
        return votes
    labels, place = _joined(votes.items, items)
    names, who = votes.workers, np.arange(votes.n_workers)
    if workers and votes.has_workers:
        names, who = _joined(votes.workers, workers)
    return Comparisons.from_codes(
        place[votes.first].astype(np.uint32), place[votes.second].astype(np.uint32),
        worker=who[votes.worker_codes()].astype(np.uint32) if votes.has_workers else None,
        outcome=votes.outcome, weight=votes.weight, items=labels, workers=names,
        sides_known=votes.sides_known, source=votes.source, backend=votes.backend,
    )  # fmt: skip


def sorted_labels(labels: Iterable[Any]) -> NDArray[np.object_]:
    """Distinct labels in the order of codes."""
    given = plain(labels)
    return merge([(given, np.zeros(0, np.uint32))])[0]


def _joined(
    labels: NDArray[np.object_], more: Sequence[Any]
) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Old and new labels sorted together, and the new code of every old one."""
    together = sorted_labels([*labels, *more])
    code = {key_of(label): i for i, label in enumerate(together)}
    return together, np.array([code[key_of(label)] for label in labels], dtype=np.int64)
