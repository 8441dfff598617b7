"""Votes by context: what a worker voted in one context as the votes of a worker of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift._arrays import frozen
from crowdsift.engines.grid import WorkerPoints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from crowdsift.comparisons import Comparisons

__all__ = ["ContextPoints", "ContextVotes", "by_context", "context_codes", "item_contexts"]


@dataclass(frozen=True)
class ContextVotes:
    """Votes in which every worker in a context is a worker: who that is, and in which context.

    Gold, the last worker, is one in all contexts: it has no entry here.
    """

    votes: Comparisons
    worker: NDArray[np.int64]
    context: NDArray[np.int64]


class ContextPoints(NamedTuple):
    """Posteriors of workers in contexts, by the codes of both; one row of points each."""

    worker: NDArray[np.int64]
    context: NDArray[np.int64]
    points: WorkerPoints

    def mirrored(self) -> ContextPoints:
        """The same for scores of the other sign."""
        points = self.points._replace(reliability=0.0 - self.points.reliability)
        return self._replace(points=points)

    def below(self, common: WorkerPoints) -> WorkerPoints:
        """These rows below those that workers have in contexts where they were not seen."""
        return WorkerPoints(
            *(np.concatenate(both) for both in zip(common, self.points, strict=True))
        )

    def rows(
        self, worker: NDArray[np.integer], context: NDArray[np.integer], n_workers: int
    ) -> NDArray[np.int64]:
        """Where `below` has a worker in a context: below, if it was seen there."""
        count = int(max(self.context.max(initial=0), context.max(initial=0))) + 1
        known, asked = self.worker * count + self.context, worker * count + context
        order = np.argsort(known)
        place = order[np.minimum(np.searchsorted(known[order], asked), len(known) - 1)]
        return np.where(known[place] == asked, n_workers + place, worker)


def item_contexts(votes: Comparisons) -> NDArray[np.int64]:
    """The number of every item's context; all 0 where votes have no context column.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.contexts import item_contexts
    >>> item_contexts(Comparisons.from_arrays(["a"], ["b"])).tolist()
    [0, 0]
    """
    if not votes.by:
        return np.zeros(votes.n_items, np.int64)
    codes = context_codes(votes.items)
    return np.array([codes[label[0]] for label in votes.items], np.int64)


def context_codes(items: Iterable[Any]) -> dict[Any, int]:
    """The numbers of contexts, in the order of items, whose labels begin with one.

    Examples
    --------
    >>> from crowdsift.contexts import context_codes
    >>> context_codes([("car", "a"), ("car", "b"), ("toys", "a")])
    {'car': 0, 'toys': 1}
    """
    codes: dict[Any, int] = {}
    for label in items:
        codes.setdefault(label[0], len(codes))
    return codes


def by_context(votes: Comparisons) -> ContextVotes | None:
    """The votes with a worker for each worker in each context; None where there is one context.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.contexts import by_context
    >>> rows = {"left": ["a", "c"], "right": ["b", "d"], "winner": ["left", "left"],
    ...         "worker": ["x", "x"], "topic": [1, 2]}
    >>> by_context(crowdsift.read(rows, by="topic")).worker.tolist()
    [0, 0]
    """
    contexts = item_contexts(votes)
    if not len(contexts) or contexts.max() == 0:
        return None
    count = int(contexts.max()) + 1
    worker, crowd = votes.worker_codes().astype(np.int64), votes.n_workers - votes.n_gold
    key = worker * count + np.where(worker < crowd, contexts[votes.first], 0)
    order = np.argsort(key, kind="stable")
    keys, sizes = np.unique(key[order], return_counts=True)
    voters = keys // count < crowd
    labels = np.empty(len(keys), object)
    labels[:] = [(votes.workers[k // count], k % count) for k in keys.tolist()]
    apart = replace(
        votes,
        first=frozen(votes.first[order]),
        second=frozen(votes.second[order]),
        outcome=frozen(votes.outcome[order]),
        weight=frozen(votes.weight[order]),
        offsets=frozen(np.concatenate([[0], np.cumsum(sizes)])),
        workers=frozen(labels),
        features=None if votes.features is None else frozen(votes.features[order]),
        n_gold=int((~voters).sum()),
    )
    return ContextVotes(apart, keys[voters] // count, keys[voters] % count)
